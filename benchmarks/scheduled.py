"""leasecron at work, in a process of its own: jobs at one slot, and jobs spread over a second.

Declaring and ``start()`` come before the slots, jitter is 0, and the store is a fresh SQLite file.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from benchmarks.schedules import OneSlot, Shifted
from leasecron import RunContext, RunSucceeded, Scheduler
from leasecron.clock import SystemClock
from leasecron.model import from_seconds

_WAIT = 60.0
_START, _PER_JOB = 2.0, 0.0005  # seconds from before the first declaration until all are armed
_STORE = "runs.db"


def ended(folder: str, jobs: int, max_running: int) -> float:
    """Run empty handlers that are all due at one slot. For ``folder`` the URL of a store will do.

    Returns the seconds from the slot until the last ``success`` event was heard: by then all ends
    and all history are stored.
    """
    slot = _ahead(jobs)
    return _run_all(folder, jobs, max_running, slot, _nothing) - slot.timestamp()


def started(folder: str, jobs: int, max_running: int) -> tuple[float, float]:
    """Run handlers that are all due at one slot.

    Returns the seconds from the slot until the last one began, and until all had ended.
    """
    slot = _ahead(jobs)
    began: list[float] = []
    at = _run_all(folder, jobs, max_running, slot, lambda: began.append(time.time()))
    return max(began) - slot.timestamp(), at - slot.timestamp()


def latenesses(folder: str, jobs: int, seconds: float) -> list[float]:
    """Run each of the jobs once a second, all at another moment of it.

    Returns for the slots of so many seconds how many seconds after its slot each handler began. A
    run that did not begin is missing there.
    """
    began: list[tuple[float, float]] = []

    def note(ctx: RunContext) -> None:
        began.append((time.time(), ctx.slot.timestamp()))

    first = _ahead(jobs)
    last = first + timedelta(seconds=seconds)
    scheduler = Scheduler(Path(folder) / _STORE)
    for number in range(jobs):
        offset = timedelta(milliseconds=number * 1000 // jobs)
        schedule = Shifted(timedelta(seconds=1), offset)
        scheduler.add(_name(number), schedule, note, jitter=0, catch_up=0)
    scheduler.start()
    time.sleep(max(0.0, last.timestamp() + 1.0 - time.time()))
    scheduler.stop()
    return [at - slot for at, slot in list(began) if first.timestamp() <= slot < last.timestamp()]


def _run_all(
    folder: str, jobs: int, max_running: int, slot: datetime, handler: Callable[[], object]
) -> float:
    """Run the handler for each job at one slot; return when the last success was heard."""
    clock = SystemClock()
    done = clock.waker()
    heard = 0

    def hear(_event: RunSucceeded) -> None:
        nonlocal heard
        heard += 1
        if heard == jobs:
            done.put(time.time())

    store = folder if "://" in folder else Path(folder) / _STORE
    scheduler = Scheduler(store, max_running=max_running, clock=clock)
    scheduler.on("success", hear)
    for number in range(jobs):
        scheduler.add(_name(number), OneSlot(slot), handler, jitter=0, catch_up=0)
    scheduler.start()
    try:
        at = float(done.get(_WAIT))
    except queue.Empty:
        raise TimeoutError(
            f"{heard} of {jobs} runs succeeded within {_WAIT:g} s: a machine that is busy arms the"
            " others after their slot"
        ) from None
    scheduler.stop()
    return at


def _ahead(jobs: int) -> datetime:
    """Return a slot that lies so far ahead that all jobs will be armed by then."""
    return from_seconds(time.time() + _START + jobs * _PER_JOB)


def _name(number: int) -> str:
    return f"job-{number:05}"


def _nothing() -> None:
    """An empty handler."""
