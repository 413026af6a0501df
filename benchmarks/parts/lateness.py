"""Lateness: how late handlers begin while a thousand runs a second are spread evenly.

A thousand jobs have a slot each second, each of them at a millisecond of its own; jitter is 0. The
time is read inside the handlers and held against the slot.
"""

from __future__ import annotations

from functools import partial
from statistics import quantiles

from benchmarks import fresh
from benchmarks.measuring import Curve, Figure, Measured, Settings, rounds

JOBS = 1_000
SECONDS = 10.0


def measure(settings: Settings) -> Measured:
    """Measure the lateness of every run in each round."""
    jobs = settings.count(JOBS)
    seconds = settings.seconds or (2.0 if settings.quick else SECONDS)
    found = rounds(settings, partial(_round, settings, jobs, seconds))
    what = f"lateness of start, {jobs:,} runs/s:"
    begun = tuple(100 * len(made) / (jobs * seconds) for made in found)
    figures = (
        Figure(f"{what} median", "ms", tuple(_percentile(made, 50) for made in found), at_most=2),
        Figure(f"{what} 99 %", "ms", tuple(_percentile(made, 99) for made in found), at_most=20),
        Figure(f"{what} the latest", "ms", tuple(max(made) for made in found)),
        Figure(f"runs that began, of those due in {seconds:g} s", "%", begun),
    )
    return Measured(figures, (_curve(jobs, [late for made in found for late in made]),))


def _round(settings: Settings, jobs: int, seconds: float) -> list[float]:
    with settings.store("lateness") as folder:
        found = fresh.call("benchmarks.scheduled:latenesses", str(folder), jobs, seconds)
    return [1000 * late for late in found]


def _percentile(values: list[float], share: int) -> float:
    return quantiles(values, n=100)[share - 1]


def _curve(jobs: int, values: list[float]) -> Curve:
    """Return what share of all runs had begun by when, in steps of half a percent."""
    points = [(late, place / 2) for place, late in enumerate(quantiles(values, n=200), start=1)]
    return Curve(
        plot="lateness",
        title="Lateness of start under a steady load",
        x="milliseconds after the slot",
        y="handlers that had begun, %",
        line=f"{jobs:,} runs a second, spread evenly",
        points=(*points, (max(values), 100.0)),
    )
