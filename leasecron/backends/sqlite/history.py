"""The history of a SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from leasecron.backends.rows import valid_text
from leasecron.backends.sqlite.batches import columns, execute_rows, in_rows
from leasecron.model import LARGEST_INTEGER, RunResult, from_ms, to_ms

_NAMES = (
    *("fence", "job", "slot", "attempt", "instance"),
    *("trigger", "status", "started_at", "ended_at", "error", "retries"),
)
_COLUMNS = ", ".join(_NAMES)
_INSERT = f"INSERT OR IGNORE INTO results({_COLUMNS}) VALUES {{rows}}"
# The rule of holders.may_record, so that no row has to be loaded for it.
_INSERT_OWNED = f"""
    INSERT OR IGNORE INTO results({_COLUMNS})
    SELECT asked.* FROM (VALUES {{rows}}) AS asked CROSS JOIN runs
    ON runs.job = asked.column2 AND runs.slot = asked.column3
    WHERE asked.column1 < runs.fence OR asked.column1 = runs.released_fence
    OR asked.column1 = runs.fence
    AND (
        runs.state NOT IN ('abandoned', 'replaced') OR runs.cancelled OR runs.attempt = 0
    )
"""
_PAGE = 1_000  # records of one answer: each of their columns is one text, which has a limit
_FOUND = columns(*_NAMES)
_NEWEST = f"""
    SELECT {_FOUND} FROM (SELECT * FROM results WHERE fence < ? ORDER BY fence DESC LIMIT ?)
"""
_NEWEST_OF_JOB = f"""
    SELECT {_FOUND} FROM (
        SELECT * FROM results WHERE job = ? AND fence < ? ORDER BY fence DESC LIMIT ?
    )
"""
_OF_ATTEMPT = f"SELECT {_FOUND} FROM results WHERE fence = ? AND job = ?"


def insert_results(connection: sqlite3.Connection, results: Iterable[RunResult]) -> None:
    """Add records whose fence is not there yet."""
    execute_rows(connection, _INSERT, [*map(_to_row, results)])


def insert_owned_results(connection: sqlite3.Connection, results: Iterable[RunResult]) -> None:
    """Add the records of holders that may still record their attempt."""
    execute_rows(connection, _INSERT_OWNED, [*map(_to_row, results)])


def newest_results(
    connection: sqlite3.Connection, job: str | None, limit: int, before: RunResult | None
) -> list[RunResult]:
    """Return records, newest first."""
    below = LARGEST_INTEGER if before is None or before.fence is None else before.fence
    found: list[RunResult] = []
    while len(found) < limit:
        page = min(_PAGE, limit - len(found))
        if job is None:
            rows = connection.execute(_NEWEST, (below, page))
        else:
            rows = connection.execute(_NEWEST_OF_JOB, (job, below, page))
        records = in_rows(rows.fetchall()[0])
        found += map(_from_row, records)
        if len(records) < page:
            break
        below = records[-1][0]
    return found


def result_of(connection: sqlite3.Connection, job: str, fence: int) -> RunResult | None:
    """Return the record of one attempt, if there is one."""
    found = in_rows(connection.execute(_OF_ATTEMPT, (fence, job)).fetchall()[0])
    return _from_row(found[0]) if found else None


def _to_row(result: RunResult) -> tuple[Any, ...]:
    return (
        result.fence,
        result.job,
        to_ms(result.slot),
        result.attempt,
        result.instance,
        result.trigger,
        result.status,
        to_ms(result.started_at),
        to_ms(result.ended_at),
        valid_text(result.error),
        result.retries,
    )


def _from_row(row: Sequence[Any]) -> RunResult:
    fence, job, slot, attempt, instance, trigger, status, started_at, ended_at, error, again = row
    return RunResult(
        job=job,
        slot=from_ms(slot),
        attempt=attempt,
        fence=fence,
        instance=instance,
        trigger=trigger,
        status=status,
        started_at=from_ms(started_at),
        ended_at=from_ms(ended_at),
        duration=max(0, ended_at - started_at) / 1000,
        error=error,
        retries=again,
    )
