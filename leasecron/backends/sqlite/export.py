"""What a SQLite store hands over to another store, read a page at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, TypeVar

from leasecron.backends.backfills import BackfillRow, backfill_state
from leasecron.backends.rows import Moment, RunRow, alive, end_lease
from leasecron.backends.sqlite.connection import StoreConnection
from leasecron.backends.sqlite.history import newest_results
from leasecron.backends.sqlite.pauses import to_pause
from leasecron.backends.sqlite.schema import OPEN
from leasecron.backends.transfer import JobRow, Page
from leasecron.model import BackfillState, RunResult, from_ms, to_ms

_Row = TypeVar("_Row")

_PAGE = 1000
_QUIET = 120_000
"""Milliseconds that nobody may have been seen for."""

_COLUMNS = ", ".join(column.name for column in fields(RunRow))
_RUNS = f"""
    SELECT {_COLUMNS} FROM runs WHERE (slot, job) > (?, ?) ORDER BY slot, job LIMIT {_PAGE}
"""
_OPEN_RUNS = f"SELECT {_COLUMNS} FROM runs INDEXED BY runs_open WHERE {OPEN}"
_JOBS = f"""
    SELECT name, schedule, first_seen, last_seen, pruned, once_at FROM jobs WHERE name > ?
    ORDER BY name LIMIT {_PAGE}
"""
_PAUSES = f"""
    SELECT job, paused_at, resumed_at, note FROM pauses WHERE (job, paused_at) > (?, ?)
    ORDER BY job, paused_at LIMIT {_PAGE}
"""
_BACKFILLS = f"""
    SELECT {", ".join(field.name for field in fields(BackfillRow))} FROM backfills WHERE job > ?
    ORDER BY job LIMIT {_PAGE}
"""
_SEEN = """
    SELECT name FROM jobs WHERE last_seen > ?
    UNION ALL SELECT job FROM runs WHERE slot > ? AND claimed_at > ?
    LIMIT 1
"""


def sign_of_life(connection: sqlite3.Connection, moment: Moment) -> str | None:
    """Return by what an instance shows that it is alive: a lease, or a job seen a moment ago."""
    for values in connection.execute(_OPEN_RUNS).fetchall():
        row = RunRow(*values)
        if alive(row, moment):
            slot = from_ms(row.slot).isoformat()
            return f"the run of job {row.job!r} at {slot} has a live lease"
    since = moment.wall - _QUIET
    seen = connection.execute(_SEEN, (since, since - 24 * 3_600_000, since)).fetchall()
    return f"job {seen[0][0]!r} was seen less than two minutes ago" if seen else None


def pages(store: StoreConnection) -> Iterator[Page]:
    """Yield the jobs, their pauses and backfills, the runs and the history."""
    name = ""
    while jobs := _read(store, JobRow, _JOBS, name):
        yield Page(jobs=jobs)
        name = jobs[-1].name
    last: tuple[str, int] = ("", 0)
    while pauses := _read(store, to_pause, _PAUSES, *last):
        yield Page(pauses=pauses)
        last = (pauses[-1].job, to_ms(pauses[-1].paused_at))
    name = ""
    while backfills := _read(store, _backfill, _BACKFILLS, name):
        yield Page(backfills=backfills)
        name = backfills[-1].job
    after: tuple[int, str] = (-(2**63), "")
    while runs := _runs(store, after):
        yield Page(runs=runs)
        after = (runs[-1].slot, runs[-1].job)
    before: RunResult | None = None
    while results := _results(store, before):
        yield Page(results=results)
        before = results[-1]


def _runs(store: StoreConnection, after: tuple[int, str]) -> list[RunRow]:
    """Return rows with all leases that are over ended: another store judges by another clock."""

    def work(connection: sqlite3.Connection, moment: Moment) -> list[RunRow]:
        rows = [RunRow(*values) for values in connection.execute(_RUNS, after).fetchall()]
        for row in rows:
            row.cancelled = bool(row.cancelled)
            if not alive(row, moment):
                end_lease(row, moment)
        return rows

    with store.call() as call:
        return call.read(work)


def _backfill(*values: Any) -> BackfillState:
    return backfill_state(BackfillRow(*values))


def _read(
    store: StoreConnection, make: Callable[..., _Row], statement: str, *values: object
) -> list[_Row]:
    """Return what is made of the rows, where values of another kind than ours are understood."""
    with store.call() as call:
        return call.read(
            lambda c, _: [make(*row) for row in c.execute(statement, values).fetchall()]
        )


def _results(store: StoreConnection, before: RunResult | None) -> list[RunResult]:
    with store.call() as call:
        return call.read(lambda c, _moment: newest_results(c, None, _PAGE, before))
