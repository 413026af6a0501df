"""The slot: how long after it the last handler begins, where very many jobs are due.

The time is read inside the handlers. Jitter, which spreads such jobs by default, is 0.
"""

from __future__ import annotations

from functools import partial

from benchmarks import fresh
from benchmarks.measuring import Figure, Measured, Settings, rounds

JOBS = 10_000
ROOMS = (1_000, 200)  # the second is what a scheduler has by default


def measure(settings: Settings) -> Measured:
    """Measure the lateness of the last handler of all."""
    jobs = settings.count(JOBS)
    found = rounds(settings, partial(_round, settings, jobs))
    figures: list[Figure] = []
    for room in ROOMS:
        what = f"{jobs:,} jobs at one slot, max_running={room:,}"
        began, ended = zip(*(made[room] for made in found), strict=True)
        figures.append(Figure(f"{what}: the last handler begins", "s", began, at_most=1.0))
        figures.append(Figure(f"{what}: all have ended and are recorded", "s", ended))
    return Measured(tuple(figures))


def _round(settings: Settings, jobs: int) -> dict[int, tuple[float, float]]:
    found = {}
    for room in ROOMS:
        with settings.store("slot") as folder:
            found[room] = fresh.call("benchmarks.scheduled:started", str(folder), jobs, room)
    return found
