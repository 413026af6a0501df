"""pyncette: its SQLite repository, and instances of one dynamic task that are due at one instant.

All that is due is found by one query, which suits it better than a poll for each task. It runs each
of them at least once, under a lease as leasecron does, and keeps no history.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyncette import Pyncette
from pyncette.sqlite import sqlite_repository

_WAIT = 120.0
_POLL = timedelta(milliseconds=20)


def runs_per_second(folder: str, jobs: int, journal: str) -> float:
    """Run empty coroutines that are all due; until all were called and all is stored."""
    file = Path(folder) / "pyncette.db"
    with sqlite3.connect(file) as connection:  # the journal stays; synchronous is FULL by default
        connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.close()
    app = Pyncette(
        repository_factory=sqlite_repository,
        poll_interval=_POLL,
        sqlite_database=str(file),
        batch_size=jobs + 1,  # a full batch would be asked for once more
    )
    return jobs / asyncio.run(asyncio.wait_for(_run(app, jobs), _WAIT))


async def _run(app: Any, jobs: int) -> float:
    """Return the seconds that the runs took; what is still to be stored then is waited for."""
    seen = 0

    async def count(context: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == jobs:
            context.app_context.shutdown()

    task = app.dynamic_task(name="job")(count)
    due = datetime.now(UTC) - timedelta(seconds=1)
    async with app.create() as context:
        for number in range(jobs):
            await context.schedule_task(task, f"{number:05}", execute_at=due)
        began = time.perf_counter()
        await context.run()
    return time.perf_counter() - began
