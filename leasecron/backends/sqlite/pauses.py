"""The pauses of a SQLite store's jobs.

Those of one job do not overlap, and the row of a job says up to when the newest reaches. Whoever
changes pauses changes that too, in the same transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from leasecron.backends.rows import Keys, Moment, pauses_kept, valid_text
from leasecron.backends.sqlite.batches import columns, execute_columns, execute_rows, in_rows
from leasecron.model import LARGEST_INTEGER, Pause, Retention, from_ms

LASTING: Final = LARGEST_INTEGER
"""Up to when a pause reaches that has not ended."""

_IN_PAUSES = f"""
    WITH asked(job, slot) AS (VALUES {{rows}})
    SELECT {columns("asked.job", "asked.slot")} FROM asked WHERE EXISTS (
        SELECT 1 FROM pauses WHERE pauses.job = asked.job
        AND pauses.paused_at <= asked.slot AND pauses.resumed_at >= asked.slot
    )
"""
# One that ended in this moment, or by a clock that was ahead, goes on.
_PAUSE = """
    WITH now(wall) AS (VALUES (?)), asked(job, note) AS (VALUES {rows})
    INSERT INTO pauses(job, paused_at, resumed_at, note)
    SELECT asked.job, ifnull((
        SELECT max(ended.paused_at) FROM pauses AS ended
        WHERE ended.job = asked.job AND ended.resumed_at >= now.wall
    ), now.wall), NULL, asked.note FROM asked CROSS JOIN now WHERE NOT EXISTS (
        SELECT 1 FROM pauses WHERE pauses.job = asked.job AND pauses.resumed_at IS NULL
    )
    ON CONFLICT (job, paused_at) DO UPDATE SET resumed_at = NULL, note = excluded.note
"""
_NOTE_PAUSE = f"""
    INSERT INTO jobs(name, schedule, first_seen, last_seen, paused_until)
    SELECT column1, '', column2, column2, {LASTING} FROM (VALUES {{rows}}) WHERE true
    ON CONFLICT (name) DO UPDATE SET paused_until = excluded.paused_until
"""
_RESUME = """
    UPDATE pauses SET resumed_at = max(paused_at, ?) WHERE job = ? AND resumed_at IS NULL
"""
_NOTE_RESUME = """
    UPDATE jobs SET paused_until = (SELECT max(resumed_at) FROM pauses WHERE job = jobs.name)
    WHERE name = ?
"""
_KNOWS = "SELECT EXISTS (SELECT 1 FROM jobs WHERE name = ?)"
_OF_JOB = f"""
    SELECT {columns("paused_at", "resumed_at", "note")} FROM (
        SELECT * FROM pauses WHERE job = ? ORDER BY paused_at DESC
    )
"""
_OLD = f"""
    WITH asked(job, before) AS (VALUES {{rows}})
    SELECT {columns("pauses.job", "pauses.paused_at")} FROM asked CROSS JOIN pauses
    ON pauses.job = asked.job AND pauses.resumed_at < asked.before
"""
_DELETE = "DELETE FROM pauses WHERE (job, paused_at) IN (VALUES {rows}) AND resumed_at IS NOT NULL"


def slots_in_pauses(connection: sqlite3.Connection, keys: Keys) -> set[tuple[str, int]]:
    """Return the runs whose slots lie in pauses that have ended."""
    return {(job, slot) for job, slot in execute_columns(connection, _IN_PAUSES, keys)}


def insert_pauses(connection: sqlite3.Connection, notes: Mapping[str, str], moment: Moment) -> None:
    """Pause jobs from now on, each with its note; one that is paused keeps its pause as it is."""
    rows = [(job, valid_text(note)) for job, note in notes.items()]
    execute_rows(connection, _PAUSE, rows, (moment.wall,))
    execute_rows(connection, _NOTE_PAUSE, [(job, moment.wall) for job in notes])


def pause_job(connection: sqlite3.Connection, moment: Moment, job: str, note: str) -> bool:
    """Pause a job; False where the store does not know it."""
    known = _knows(connection, job)
    if known:
        insert_pauses(connection, {job: note}, moment)
    return known


def resume_job(connection: sqlite3.Connection, moment: Moment, job: str) -> bool:
    """End the pause of a job, if there is one; False where the store does not know the job."""
    connection.execute(_RESUME, (moment.wall, job))
    connection.execute(_NOTE_RESUME, (job,))
    return _knows(connection, job)


def pauses_of(connection: sqlite3.Connection, job: str) -> list[Pause]:
    """Return the pauses of a job, newest first."""
    found = in_rows(connection.execute(_OF_JOB, (job,)).fetchall()[0])
    return [to_pause(job, *values) for values in found]


def to_pause(job: str, paused_at: int, resumed_at: int | None, note: str) -> Pause:
    """Return the pause of a row."""
    ended = None if resumed_at is None else from_ms(resumed_at)
    return Pause(job, from_ms(paused_at), ended, note)


def old_pauses(
    connection: sqlite3.Connection, retentions: Iterable[Retention], moment: Moment
) -> list[tuple[str, int]]:
    """Return jobs and beginnings of the pauses that need not be kept."""
    asked = [(each.job, moment.wall - pauses_kept(each)) for each in retentions]
    return execute_rows(connection, _OLD, asked)


def delete_pauses(connection: sqlite3.Connection, keys: Sequence[tuple[str, int]]) -> None:
    """Remove pauses, of those that have ended and did not go on since."""
    execute_rows(connection, _DELETE, keys)


def _knows(connection: sqlite3.Connection, job: str) -> bool:
    return bool(connection.execute(_KNOWS, (job,)).fetchall()[0][0])
