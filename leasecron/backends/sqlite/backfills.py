"""The backfills of a SQLite store: the newest of each job, and how it goes on."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, fields
from datetime import datetime

from leasecron.backends.backfills import BackfillRow, advance, backfill_state, end_backfill
from leasecron.backends.rows import Keys, Moment
from leasecron.backends.sqlite.batches import columns, in_rows
from leasecron.backends.sqlite.runs import LoadedRuns
from leasecron.model import (
    Advance,
    AdvanceAnswer,
    BackfillState,
    NewBackfill,
    from_ms,
    to_ms,
)

_NAMES = [field.name for field in fields(BackfillRow)]
_FOUND = columns(*_NAMES)
_OF_JOB = f"SELECT {_FOUND} FROM backfills WHERE job = ?"
_GOING_ON = f"""
    SELECT {_FOUND} FROM (
        SELECT * FROM backfills INDEXED BY backfills_open WHERE ended_at IS NULL ORDER BY job
    )
"""
_PUT = f"""
    INSERT OR REPLACE INTO backfills({", ".join(_NAMES)})
    VALUES ({", ".join("?" * len(_NAMES))})
"""
_SUCCEEDED = f"""
    SELECT {columns("slot")} FROM (
        SELECT slot FROM runs WHERE slot >= ? AND slot < ? AND job = ? AND state = 'success'
        UNION SELECT slot FROM results INDEXED BY results_job
        WHERE job = ? AND slot >= ? AND slot < ? AND status = 'success' ORDER BY slot
    )
"""


class LoadedBackfill(LoadedRuns):
    """The backfill of a job, and the runs that its next step is about."""

    def __init__(self, connection: sqlite3.Connection, moment: Moment, job: str) -> None:
        super().__init__(connection, moment)
        self._backfill = _row_of(connection, job)
        self._is_changed = False

    def load_slots(self, job: str, *slots: int | None) -> None:
        """Load the runs of these slots, and what of the job is open or paused."""
        known = [slot for slot in slots if slot is not None] or [0]
        keys = Keys([job] * len(known), known)
        self.load(keys)
        self.load_jobs(keys)

    def backfill(self, _job: str) -> BackfillRow | None:
        return self._backfill

    def put_backfill(self, row: BackfillRow) -> None:
        self._backfill, self._is_changed = row, True

    def flush(self) -> None:
        """Write all that was put and recorded."""
        super().flush()
        if self._is_changed and self._backfill is not None:
            self._connection.execute(_PUT, astuple(self._backfill))


def begin_backfill(
    connection: sqlite3.Connection, moment: Moment, asked: NewBackfill
) -> BackfillState:
    """Begin a backfill unless one of the job goes on; return the one that goes on then."""
    row = _row_of(connection, asked.job)
    if row is None or row.ended_at is not None:
        asked_at = moment.wall if row is None else max(moment.wall, row.asked_at + 1)
        since, until = to_ms(asked.start), to_ms(asked.end)
        row = BackfillRow(asked.job, since, until, asked.total, asked.instance, asked_at)
        connection.execute(_PUT, astuple(row))
    return backfill_state(row)


def advance_backfill(
    connection: sqlite3.Connection, moment: Moment, asked: Advance
) -> AdvanceAnswer:
    """Go on with a backfill."""
    slot = None if asked.slot is None else to_ms(asked.slot)
    cursor = None if asked.cursor is None else to_ms(asked.cursor)
    table = LoadedBackfill(connection, moment, asked.job)
    table.load_slots(asked.job, slot, cursor)
    answer = advance(asked, slot, cursor, table, moment)
    table.flush()
    return answer


def cancel_backfill(
    connection: sqlite3.Connection, moment: Moment, job: str, asked_at: datetime
) -> bool:
    """End the backfill that was asked for then, before its time; False where it does not go on."""
    table = LoadedBackfill(connection, moment, job)
    row = table.backfill(job)
    if row is None or row.ended_at is not None or row.asked_at != to_ms(asked_at):
        return False
    table.load_slots(job, row.cursor)
    end_backfill(row, table, moment)
    table.flush()
    return True


def open_backfills(connection: sqlite3.Connection, _moment: Moment) -> list[BackfillState]:
    """Return the backfills that go on, by job."""
    found = in_rows(connection.execute(_GOING_ON).fetchall()[0])
    return [backfill_state(BackfillRow(*values)) for values in found]


def newest_backfill(
    connection: sqlite3.Connection, _moment: Moment, job: str
) -> BackfillState | None:
    """Return the newest backfill of a job."""
    row = _row_of(connection, job)
    return None if row is None else backfill_state(row)


def succeeded_slots(
    connection: sqlite3.Connection, _moment: Moment, job: str, start: datetime, end: datetime
) -> list[datetime]:
    """Return the slots of a range that succeeded, by the runs and by the history."""
    since, until = to_ms(start), to_ms(end)
    values = (since, until, job, job, since, until)
    found = in_rows(connection.execute(_SUCCEEDED, values).fetchall()[0])
    return [from_ms(slot) for (slot,) in found]


def _row_of(connection: sqlite3.Connection, job: str) -> BackfillRow | None:
    found = in_rows(connection.execute(_OF_JOB, (job,)).fetchall()[0])
    return BackfillRow(*found[0]) if found else None
