"""Size: claims and history of stores that hold many finished runs.

Stores of 0, 100,000, a million and ten million runs, whose rows are filled in by plain SQL. In each
round all take turns, batch by batch: 1,000 jobs that exist in each store are claimed at a slot of
their own, and outside what is measured they end and go into the history. The empty store is a new
one in each round, or it would not stay so. Ten million runs take four gigabytes of disk.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import Curve, Figure, Measured, Settings, rounds
from benchmarks.workers.claims import claims_of, endings_of, now_ms, results_of
from benchmarks.workers.process import Worker
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.options import JobOptions

JOBS = 1000
SIZES = (0, 100_000, 1_000_000, 10_000_000)
QUICK = (0, 1_000, 10_000)
_BATCHES = 10
_LOOKS = 50
_PRUNINGS = 5
_PRUNED_AT_ONCE = 500  # as many jobs as a scheduler prunes in a call


@dataclass(slots=True)
class _Took:
    """Seconds that one store took in a round."""

    claims: float = 0.0
    history: float = 0.0
    longest_prune: float = 0.0

    @property
    def rate(self) -> float:
        return _BATCHES * JOBS / self.claims


_Round = Sequence[_Took]


def measure(settings: Settings) -> Measured:
    """Fill the stores, measure and remove them."""
    sizes = QUICK if settings.quick else SIZES
    with settings.store("size") as folder, ExitStack() as stack:
        filled = [stack.enter_context(closing(_filled(settings, folder, n))) for n in sizes[1:]]
        found = rounds(settings, lambda: _round(settings, filled))
    curve = Curve(
        plot="claims-by-store",
        title="Claims by the size of the store",
        x="finished runs in the store",
        y="claims a second",
        line=f"batches of {JOBS:,}",
        points=tuple(
            (size, statistics.median(each[place].rate for each in found))
            for place, size in enumerate(sizes)
        ),
    )
    return Measured(tuple(_figures(found, sizes)), (curve,))


def _filled(settings: Settings, folder: Path, runs: int) -> SqliteBackend:
    """Return an open store that holds so many runs."""
    settings.progress(f"filling a store with {runs:,} runs")
    store = folder / f"{runs}.db"
    with Worker("filling", store=str(store), runs=runs, jobs=JOBS) as worker:
        worker.hear()
    backend = SqliteBackend(store)
    backend.open()
    return backend


def _round(settings: Settings, filled: Sequence[SqliteBackend]) -> _Round:
    with settings.store("empty") as folder, closing(_filled(settings, folder, 0)) as empty:
        stores = [empty, *filled]
        found = [_Took() for _ in stores]
        for store in stores:
            _claim(store)  # for warm-up, in a store that was idle while others were measured
        for turn in range(_BATCHES):
            for place in _in_turn(len(stores), turn):
                found[place].claims += _claim(stores[place])
        for turn in range(_LOOKS):
            for place in _in_turn(len(stores), turn):
                found[place].history += _look(stores[place])
        for turn in range(_PRUNINGS):
            for place in _in_turn(len(stores), turn):
                took = _prune(stores[place], turn)
                found[place].longest_prune = max(took, found[place].longest_prune)
        return found


def _in_turn(count: int, turn: int) -> list[int]:
    """Let each begin as often as any other: what comes after a store finds its pages gone."""
    return [(place + turn) % count for place in range(count)]


def _claim(store: SqliteBackend) -> float:
    time.sleep(0.002)  # a slot in a millisecond of its own
    claims = claims_of((f"job-{number}" for number in range(JOBS)), now_ms(), "instance")
    began = time.perf_counter()
    answers = store.claim(claims)
    took = time.perf_counter() - began
    if any(answer.outcome != "won" for answer in answers):
        raise RuntimeError(f"all of the runs should be free, and not {answers}")
    store.finish(endings_of(claims))
    store.save_results(results_of(claims, answers))
    return took


def _look(store: SqliteBackend) -> float:
    began = time.perf_counter()
    store.history(limit=100)
    return time.perf_counter() - began


def _prune(store: SqliteBackend, turn: int) -> float:
    options = JobOptions()
    first = turn * _PRUNED_AT_ONCE % JOBS
    names = (f"job-{number}" for number in range(first, min(JOBS, first + _PRUNED_AT_ONCE)))
    retentions = [options.retention(name) for name in names]
    began = time.perf_counter()
    store.prune(retentions)
    return time.perf_counter() - began


def _figures(found: Sequence[_Round], sizes: Sequence[int]) -> Iterator[Figure]:
    for place, size in enumerate(sizes):
        what = f"{size:,} finished runs" if size else "empty store"
        took = [each[place] for each in found]
        yield Figure(f"{what}: claims", "/s", tuple(each.rate for each in took))
        if size:
            share = tuple(100 * each[place].rate / each[0].rate for each in found)
            yield Figure(f"{what}: claims, of the empty store", "%", share, at_least=85)
        looks = tuple(1000 * each.history / _LOOKS for each in took)
        yield Figure(f"{what}: history(limit=100)", "ms", looks)
        if size:
            share = tuple(100 * each[0].history / each[place].history for each in found)
            yield Figure(f"{what}: histories a second, of the empty store", "%", share, at_least=85)
        longest = tuple(1000 * each.longest_prune for each in took)
        yield Figure(f"{what}: the longest prune()", "ms", longest)
