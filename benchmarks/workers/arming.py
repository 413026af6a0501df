"""An instance that declares and arms very many jobs, none of which is due, and then idles."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from benchmarks.idle import resident
from benchmarks.workers import child
from benchmarks.workers.watched import Watched
from leasecron import Scheduler
from leasecron.backends.base import Backend
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.clock import SystemClock, Waker

EXPRESSIONS = 500
_LIMIT = 300.0
_QUIET = 0.01
_NOT_BEFORE = 3600.0
_HOUR = 3600.0


class Last:
    """The schedule of the job that is declared last: it says when it is asked to be armed."""

    def __init__(self, asked: Waker) -> None:
        self._asked = asked

    def next_after(self, t: datetime, /) -> datetime | None:
        self._asked.put(time.perf_counter())
        return t + timedelta(days=1)

    def latest_at(self, _t: datetime, /) -> datetime | None:
        return None


def main() -> None:
    """Say what declaring, arming and waiting cost."""
    given = child.arguments()
    clock = SystemClock()
    store = Watched(_backend(given["store"]))
    scheduler = Scheduler(store, clock=clock)
    scheduler.start()  # what a scheduler without a job takes is no job's
    scheduler.stop()
    empty = resident()
    began = time.perf_counter()
    _declare(scheduler, given["kind"], given["jobs"])
    declared = time.perf_counter() - began
    after_declaring = resident()
    child.say(declared=declared, **_armed(scheduler, clock.waker(), empty, after_declaring))
    for order in child.told():
        child.say(pruning=store.spent["prune"].processor, **child.wait_and_count(order["seconds"]))


def _armed(
    scheduler: Scheduler, asked: Waker, empty: int, after_declaring: int
) -> dict[str, float]:
    scheduler.add("last", Last(asked), _nothing)
    began = time.perf_counter()
    scheduler.start()
    started = time.perf_counter()
    armed = asked.get(_LIMIT)
    _come_to_rest()
    return {
        "start": started - began,
        "armed": armed - began,
        "declared_bytes": after_declaring - empty,
        "bytes": resident() - empty,
    }


def _declare(scheduler: Scheduler, kind: str, jobs: int) -> None:
    if kind == "cron":
        expressions = _expressions()
        for number in range(jobs):
            scheduler.cron(f"job-{number}", expressions[number % EXPRESSIONS], _nothing)
        return
    interval = _interval()
    for number in range(jobs):
        scheduler.every(f"job-{number}", interval, _nothing)


def _interval() -> float:
    """Return some hours, of which no multiple comes within the next one."""
    now = time.time()
    hours = (hours * _HOUR for hours in range(5, 48))
    return next(each for each in hours if each - now % each > _NOT_BEFORE)


def _expressions() -> list[str]:
    """Return daily times, none of which comes within the next hour."""
    hour = datetime.now(UTC).hour
    times = (
        f"{minute} {(hour + ahead) % 24} * * *" for ahead in range(2, 23) for minute in range(60)
    )
    return [next(times) for _ in range(EXPRESSIONS)]


def _come_to_rest() -> None:
    """Wait until a second has passed in which this process did next to nothing."""
    give_up = time.monotonic() + _LIMIT
    while time.monotonic() < give_up:
        before = time.process_time()
        child.wait_until(time.monotonic() + 1.0)
        if time.process_time() - before < _QUIET:
            return


def _backend(store: str) -> Backend:
    return MemoryBackend() if store == "memory://" else SqliteBackend(store)


def _nothing() -> None:
    """An empty handler."""


if __name__ == "__main__":
    main()
