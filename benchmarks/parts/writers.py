"""Writers: processes that claim jobs of their own in one SQLite store at once.

Every process claims in a tight loop, each time jobs that nobody has claimed before, so that all of
them ask for the write lock all the time. What one process reaches alone is measured in the same
round, with the same loop, in a store as new as the others. A call that could not have the store in
time is made again, as the store thread would, and counts as one long call.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measuring import Curve, Figure, Measured, Settings, rounds
from benchmarks.workers.process import Worker, crew

CREWS = (1, 2, 4, 8, 16)
MANY = 8
_SECONDS = 1.0
_START = 0.1


@dataclass(frozen=True, slots=True)
class _Claimed:
    """What so many processes reached together: claims/s, and seconds of their calls."""

    total: float
    slowest: float
    p99: float
    longest: float
    refused: int


_Round = Mapping[int, _Claimed]


def measure(settings: Settings) -> Measured:
    """Measure batches of 100, which carry the targets, and claims made singly."""
    figures: list[Figure] = []
    curves: list[Curve] = []
    with settings.store("writers") as folder, crew("writing", max(CREWS)) as workers:
        numbers = itertools.count()
        for batch in (100, 1):
            measured = partial(_round, settings, folder, workers, batch, numbers)
            found = rounds(settings, measured)
            figures += _figures(found, batch)
            curves.append(_curve(found, batch))
    return Measured(tuple(figures), tuple(curves))


def _round(
    settings: Settings,
    folder: Path,
    workers: Sequence[Worker],
    batch: int,
    numbers: Iterator[int],
) -> _Round:
    seconds = settings.seconds or (_SECONDS / 5 if settings.quick else _SECONDS)
    return {
        count: _claim(f"{folder}/{next(numbers)}.db", workers[:count], batch, seconds)
        for count in CREWS
    }


def _claim(store: str, workers: Sequence[Worker], batch: int, seconds: float) -> _Claimed:
    for worker in workers:
        worker.ask(store=store)  # the first one makes it
    at = time.monotonic() + _START
    for worker in workers:
        worker.tell(at=at, batch=batch, seconds=seconds)
    said = [worker.hear() for worker in workers]
    rates = [each["rate"] for each in said]
    calls = sorted(call for each in said for call in each["calls"])
    return _Claimed(
        total=sum(rates),
        slowest=min(rates) / max(rates),
        p99=calls[len(calls) * 99 // 100],
        longest=calls[-1],
        refused=sum(each["refused"] for each in said),
    )


def _figures(found: Sequence[_Round], batch: int) -> list[Figure]:
    how = f"{MANY} processes, {batch} claims a call" if batch > 1 else f"{MANY} processes, singly"

    def figure(what: str, unit: str, values: Iterator[float], **target: float) -> Figure:
        bound = target if batch > 1 else {}
        return Figure(f"{how}: {what}", unit, tuple(values), **bound)

    many, alone = [each[MANY] for each in found], [each[1] for each in found]
    return [
        figure("one alone", "/s", (each.total for each in alone)),
        figure("together", "/s", (each.total for each in many)),
        figure(
            "together, of one alone",
            "x",
            (all_.total / one.total for all_, one in zip(many, alone, strict=True)),
            at_least=0.9,
        ),
        figure("slowest, of the fastest", "x", (each.slowest for each in many), at_least=0.5),
        figure("a call, p99", "ms", (1000 * each.p99 for each in many), at_most=20),
        figure("the longest call", "ms", (1000 * each.longest for each in many)),
        figure("calls made again", "calls", (each.refused for each in many)),
    ]


def _curve(found: Sequence[_Round], batch: int) -> Curve:
    return Curve(
        plot="claims-by-processes",
        title="Claims by the number of processes that write",
        x="processes",
        y="claims a second, all together",
        line=f"{batch} claims a call" if batch > 1 else "singly",
        points=tuple(
            (count, statistics.median(each[count].total for each in found)) for count in CREWS
        ),
    )
