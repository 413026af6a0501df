"""What may be removed from a SQLite store, found by reading and removed under the write lock.

A row of a run goes when it can decide nothing any more: not the newest of its job, its lease over,
and both its slot and the end of its lease long past. Records of the history go by number and age.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, fields

from leasecron.backends.base import PRUNE_BATCH
from leasecron.backends.rows import Moment, RunRow, lost_result, prunable
from leasecron.backends.sqlite_history import insert_results
from leasecron.model import MAX_RECORDS, Retention

_COLUMNS = ", ".join(field.name for field in fields(RunRow))
_NEWEST_SLOT = "SELECT max(slot) FROM runs WHERE job = ?"
_OLD_RUNS = f"""
    SELECT {_COLUMNS} FROM runs WHERE job = ? AND slot < ? AND lease_until < ? ORDER BY slot LIMIT ?
"""
_RECORD_AT = "SELECT fence FROM results WHERE job = ? ORDER BY fence DESC LIMIT 1 OFFSET ?"
_OLDEST_RECORDS = """
    SELECT fence, ended_at FROM results WHERE job = ? AND fence <= ? ORDER BY fence LIMIT ?
"""
_DELETE_RUN = "DELETE FROM runs WHERE job = ? AND slot = ?"
_DELETE_RECORD = "DELETE FROM results WHERE fence = ?"
_MARK = """
    INSERT INTO jobs(name, schedule, first_seen, last_seen, pruned) VALUES (?, '', ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET pruned = max(ifnull(pruned, excluded.pruned), excluded.pruned)
"""


@dataclass(frozen=True, slots=True)
class Removals:
    """One batch of what may go, by whose retentions. ``more`` says that it is not all."""

    rows: tuple[RunRow, ...]
    fences: tuple[int, ...]
    retentions: tuple[Retention, ...]
    more: bool


def find_removals(
    connection: sqlite3.Connection, moment: Moment, retentions: Sequence[Retention]
) -> Removals:
    """Return what may go, at most PRUNE_BATCH rows in all."""
    rows: list[RunRow] = []
    fences: list[int] = []
    concerned: list[Retention] = []
    room = PRUNE_BATCH + 1  # one more than may go says that something is left
    for retention in retentions:
        old_rows = _old_runs(connection, moment, retention, room)
        old_fences = _old_records(connection, moment, retention, room - len(old_rows))
        if old_rows or old_fences:
            concerned.append(retention)
        rows += old_rows
        fences += old_fences
        room -= len(old_rows) + len(old_fences)
        if room == 0:
            (fences or rows).pop()
            break
    return Removals(tuple(rows), tuple(fences), tuple(concerned), more=room == 0)


def remove(connection: sqlite3.Connection, moment: Moment, removals: Removals) -> None:
    """Remove them, noting the newest slot. An attempt whose end nobody saw leaves a record."""
    rows = removals.rows
    insert_results(connection, [lost_result(row, moment) for row in rows if row.state == "claimed"])
    connection.executemany(_DELETE_RUN, [(row.job, row.slot) for row in rows])
    connection.executemany(_DELETE_RECORD, [(fence,) for fence in removals.fences])
    newest = {row.job: row.slot for row in sorted(rows, key=lambda row: row.slot)}
    connection.executemany(
        _MARK, [(job, moment.wall, moment.wall, slot) for job, slot in newest.items()]
    )


def _old_runs(
    connection: sqlite3.Connection, moment: Moment, retention: Retention, limit: int
) -> list[RunRow]:
    newest = connection.execute(_NEWEST_SLOT, (retention.job,)).fetchall()[0][0]
    if newest is None:
        return []
    before = moment.wall - retention.runs * 1000
    found = connection.execute(
        _OLD_RUNS, (retention.job, min(newest, before), before, limit)
    ).fetchall()
    rows = [RunRow(*values) for values in found]
    return [row for row in rows if prunable(row, newest, retention.runs, moment)]


def _old_records(
    connection: sqlite3.Connection, moment: Moment, retention: Retention, limit: int
) -> list[int]:
    beyond = _fence_at(connection, retention.job, min(retention.records, MAX_RECORDS))
    if beyond is None:
        return []
    too_many = _fence_at(connection, retention.job, MAX_RECORDS) or 0
    before = moment.wall - retention.age * 1000
    oldest = connection.execute(_OLDEST_RECORDS, (retention.job, beyond, limit)).fetchall()
    return [fence for fence, ended_at in oldest if fence <= too_many or ended_at < before]


def _fence_at(connection: sqlite3.Connection, job: str, offset: int) -> int | None:
    found = connection.execute(_RECORD_AT, (job, offset)).fetchall()
    return found[0][0] if found else None
