"""huey: its queue in SQLite with fsync, and its consumer with one worker thread.

Tasks are enqueued and then executed, counted from the first to be enqueued. That is its best here:
with periodic tasks, or with more workers, those who enqueue and those who dequeue stand in each
other's way. It keeps no history, and a task that is cut off by a crash is not executed again.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from huey import SqliteHuey
from huey.signals import SIGNAL_COMPLETE

_WAIT = 120.0
_POLL = 0.002


def runs_per_second(folder: str, jobs: int, journal: str) -> float:
    """Enqueue and execute empty functions; until the last one is complete."""
    huey = SqliteHuey(filename=Path(folder) / "huey.db", fsync=True, journal_mode=journal)
    seen = 0
    done = threading.Event()

    def count(_signal: str, _task: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == jobs:
            done.set()

    huey.signal(SIGNAL_COMPLETE)(count)
    task = huey.task()(_nothing)
    consumer = huey.create_consumer(
        workers=1, periodic=False, initial_delay=_POLL, max_delay=_POLL, check_worker_health=False
    )
    began = time.perf_counter()
    for _ in range(jobs):
        task()
    consumer.start()
    if not done.wait(_WAIT):
        raise TimeoutError(f"of {jobs} tasks were {seen} complete after {_WAIT:g} s")
    took = time.perf_counter() - began
    consumer.stop(graceful=True)
    return jobs / took


def _nothing() -> None:
    """An empty function."""
