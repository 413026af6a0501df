"""The jobs that a SQLite store knows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from leasecron.backends.rows import Moment
from leasecron.backends.sqlite.batches import columns, execute_rows, in_rows
from leasecron.model import Declaration, JobState, OneOff, from_ms, to_ms

_DECLARE = """
    INSERT INTO jobs(name, schedule, first_seen, last_seen) VALUES {rows}
    ON CONFLICT (name) DO UPDATE SET schedule = excluded.schedule, last_seen = excluded.last_seen
"""
_FIRST_SEEN = f"""
    SELECT {columns("name", "first_seen")} FROM jobs WHERE name IN (VALUES {{rows}})
"""
_FIX = """
    INSERT INTO jobs(name, schedule, first_seen, last_seen, once_at) VALUES {rows}
    ON CONFLICT (name) DO UPDATE SET once_at = ifnull(once_at, excluded.once_at)
"""
_FIXED = f"SELECT {columns('name', 'once_at')} FROM jobs WHERE name IN (VALUES {{rows}})"
_COLUMNS = columns("name", "schedule", "first_seen", "last_seen", "paused_at", "note")
_ALL = f"""
    SELECT {_COLUMNS} FROM (
        SELECT * FROM jobs LEFT JOIN pauses
        ON pauses.job = jobs.name AND pauses.resumed_at IS NULL ORDER BY name
    )
"""


def declare_jobs(
    connection: sqlite3.Connection, moment: Moment, jobs: Sequence[Declaration]
) -> list[datetime]:
    """Note that the jobs exist; return when each was first seen."""
    now = moment.wall
    rows = [(declared.job, declared.schedule, now, now) for declared in jobs]
    execute_rows(connection, _DECLARE, rows)
    seen = dict(execute_rows(connection, _FIRST_SEEN, [row[:1] for row in rows]))
    instants = {at: from_ms(at) for at in seen.values()}  # one object for all that are new
    return [instants[seen[declared.job]] for declared in jobs]


def fix_instants(
    connection: sqlite3.Connection, moment: Moment, jobs: Sequence[OneOff]
) -> list[datetime]:
    """Return the instant of each job, which is the one that was given first."""
    rows = [(each.job, "", moment.wall, moment.wall, to_ms(each.at)) for each in jobs]
    execute_rows(connection, _FIX, rows)
    fixed = dict(execute_rows(connection, _FIXED, [row[:1] for row in rows]))
    return [from_ms(fixed[each.job]) for each in jobs]


def all_jobs(connection: sqlite3.Connection, _moment: Moment) -> list[JobState]:
    """Return the jobs by name."""
    found = in_rows(connection.execute(_ALL).fetchall()[0])
    return [
        JobState(
            name,
            schedule,
            from_ms(first_seen),
            from_ms(last_seen),
            None if paused_at is None else from_ms(paused_at),
            note,
        )
        for name, schedule, first_seen, last_seen, paused_at, note in found
    ]
