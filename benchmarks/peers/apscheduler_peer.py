"""APScheduler 3: a background scheduler, its SQLAlchemy job store on SQLite, a pool of ten threads.

The jobs recur (``interval``), as those of leasecron do, or have one run each (``date``), which is
the least that it must store for a run: it removes the job. It keeps no history, and a run that is
cut off by a crash is not made again.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_SUBMITTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import create_engine, event

_WAIT = 120.0
_THREADS = 10  # what it comes with


def recurring(folder: str, jobs: int, journal: str) -> float:
    """Return the runs per second of jobs that recur every hour."""
    return _runs_per_second(folder, jobs, journal, {"trigger": "interval", "hours": 1})


def single(folder: str, jobs: int, journal: str) -> float:
    """Return the runs per second of jobs that have one run each."""
    return _runs_per_second(folder, jobs, journal, {"trigger": "date"})


def _runs_per_second(folder: str, jobs: int, journal: str, trigger: dict[str, Any]) -> float:
    """Run empty functions that are all due; from then until all were called and all is stored."""
    scheduler = _scheduler(Path(folder) / "apscheduler.db", journal)
    seen = {EVENT_JOB_EXECUTED: 0, EVENT_JOB_SUBMITTED: 0}
    done = threading.Event()

    def count(told: Any) -> None:
        seen[told.code] += 1
        # That runs were submitted is told once the state of all jobs that were due is stored.
        if min(seen.values()) == jobs:
            done.set()

    scheduler.add_listener(count, EVENT_JOB_EXECUTED | EVENT_JOB_SUBMITTED)
    scheduler.start(paused=True)
    due = datetime.now(UTC) - timedelta(seconds=1)
    for number in range(jobs):
        scheduler.add_job(_nothing, next_run_time=due, id=f"job-{number:05}", **trigger)
    began = time.perf_counter()
    scheduler.resume()
    if not done.wait(_WAIT):
        raise TimeoutError(f"of {jobs} runs were {seen} after {_WAIT:g} s")
    took = time.perf_counter() - began
    scheduler.shutdown()
    return jobs / took


def _scheduler(file: Path, journal: str) -> Any:
    engine = create_engine(f"sqlite:///{file}")

    def connected(connection: Any, _record: Any) -> None:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("PRAGMA synchronous = FULL")

    event.listen(engine, "connect", connected)
    return BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(engine=engine)},
        executors={"default": ThreadPoolExecutor(_THREADS)},
        job_defaults={"misfire_grace_time": None, "coalesce": True},
        timezone=UTC,
    )


def _nothing() -> None:
    """An empty function; it is found by its name."""
