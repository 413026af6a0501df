"""The runs of a SQLite store as the decisions see them, loaded and written back by the batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any

from leasecron.backends.rows import ENDED, Keys, Moment, OpenRuns, RunRow, replaces
from leasecron.backends.sqlite.batches import columns, execute_columns, execute_rows
from leasecron.backends.sqlite.history import insert_results
from leasecron.backends.sqlite.pauses import LASTING, insert_pauses, slots_in_pauses
from leasecron.backends.sqlite.schema import OPEN, REPLACES
from leasecron.model import Ending, RunResult, to_ms

Key = tuple[str, int]

_NAMES = [field.name for field in fields(RunRow)]
_OF_A_FIRST_ATTEMPT = [field.name for field in fields(RunRow) if field.default is MISSING]
COLUMNS = columns(*(f"runs.{name}" for name in _NAMES))
"""What selects the rows of runs, as :func:`~leasecron.backends.sqlite.batches.in_rows` reads."""

_ROWS = f"""
    WITH asked(job, slot) AS (VALUES {{rows}})
    SELECT {COLUMNS} FROM asked CROSS JOIN runs
    ON runs.job = asked.job AND runs.slot = asked.slot
"""
_OPEN_ROWS = f"""
    WITH asked(job) AS (VALUES {{rows}})
    SELECT {COLUMNS} FROM asked CROSS JOIN runs INDEXED BY runs_open
    ON runs.job = asked.job AND {OPEN}
"""
_MARKS = f"""
    WITH asked(job, slot) AS (VALUES {{rows}})
    SELECT {columns("jobs.name", "jobs.pruned", "jobs.newest", "jobs.paused_until")}
    FROM asked CROSS JOIN jobs ON jobs.name = asked.job
    WHERE jobs.pruned >= asked.slot OR jobs.newest > asked.slot OR jobs.paused_until >= asked.slot
"""
_KNOWN = f"""
    WITH asked(job, slot) AS (VALUES {{rows}})
    SELECT {columns("asked.job")} FROM asked WHERE EXISTS (
        SELECT 1 FROM runs WHERE runs.slot = asked.slot AND runs.job = asked.job
    ) OR EXISTS (
        SELECT 1 FROM runs INDEXED BY runs_open WHERE runs.job = asked.job AND {OPEN}
    ) OR EXISTS (
        SELECT 1 FROM jobs WHERE jobs.name = asked.job
        AND (jobs.pruned >= asked.slot OR jobs.paused_until >= asked.slot)
    )
"""
_CLAIMED_BETWEEN = f"""
    SELECT 1 FROM runs WHERE slot > ? AND slot <= ? AND job = ? AND {REPLACES} LIMIT 1
"""
_PUT = f"""
    INSERT INTO runs({", ".join(_NAMES)}) VALUES {{rows}} ON CONFLICT (slot, job)
    DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _NAMES[2:])}
"""
_FIRST_ATTEMPTS = f"""
    INSERT INTO runs({", ".join(_OF_A_FIRST_ATTEMPT)})
    SELECT column1, column2, 'claimed', column3, 1, 0, column4, NULL, column5, column6,
    ?, ? + column7, ?, ? + column7 FROM (VALUES {{rows}})
"""
_FINISH = """
    UPDATE runs SET state = ?, boot = '', lease_mono = 0,
    lease_until = CASE WHEN boot IS '' THEN lease_until ELSE min(lease_until, ?) END
    WHERE rowid IN (
        SELECT runs.rowid FROM (VALUES {rows}) AS asked CROSS JOIN runs
        ON runs.job = asked.column1 AND runs.slot = asked.column2
        WHERE runs.token = asked.column3 AND runs.state IN ('claimed', 'released')
    )
"""
_DELETE = """
    DELETE FROM runs WHERE rowid IN (
        SELECT runs.rowid FROM (VALUES {rows}) AS asked CROSS JOIN runs
        ON runs.job = asked.column1 AND runs.slot = asked.column2
    )
"""
_NEXT_FENCE = "SELECT value FROM meta WHERE key = 'next_fence'"
_SET_NEXT_FENCE = "UPDATE meta SET value = ? WHERE key = 'next_fence'"
_in_order = attrgetter(*_NAMES)


class LoadedRuns:
    """The rows of one batch, read in one transaction; ``flush`` writes what was changed.

    ``version`` says which state of the file was read: it differs where another connection has
    written in between, and only there.
    """

    def __init__(self, connection: sqlite3.Connection, moment: Moment) -> None:
        self._connection = connection
        self._moment = moment
        self._rows: dict[Key, RunRow] = {}
        self._changed: dict[Key, RunRow] = {}
        self._of_job: dict[str, tuple[RunRow, ...]] = {}  # those that are open, or were changed
        self._open: dict[str, OpenRuns] = {}
        self._pruned: dict[str, int] = {}
        self._newest: dict[str, int] = {}
        self._paused_until: dict[str, int] = {}
        self._in_pauses: set[Key] = set()  # that have ended
        self._pauses: dict[str, str] = {}
        self._results: list[RunResult] = []
        self._fence: int | None = None
        self.version: int | None = None

    def load(self, keys: Keys) -> None:
        """Load the rows of these runs."""
        self._rows.update(load_rows(self._connection, keys))

    def load_jobs(self, keys: Keys) -> None:
        """Load what the claims of these runs must know of their jobs; after ``load``."""
        jobs = [*dict.fromkeys(keys.jobs)]
        for values in execute_columns(self._connection, _OPEN_ROWS, [jobs]):
            row = self._rows.setdefault((values[0], values[1]), RunRow(*values))
            self._of_job[row.job] = (*self._of_job.get(row.job, ()), row)
        for job, pruned, newest, paused in execute_columns(self._connection, _MARKS, keys):
            self._newest[job] = newest
            if pruned is not None:
                self._pruned[job] = pruned
            if paused is not None:
                self._paused_until[job] = paused
        if self._paused_until:
            self._in_pauses = slots_in_pauses(self._connection, keys)
        self.version = data_version(self._connection)

    def holds(self, keys: Keys) -> bool:
        """Say, under the write lock, whether ``load_jobs`` of these runs would give the same again.

        True where nobody has written since. Where somebody has, it is asked only about runs of jobs
        that had none to be loaded, one of each job, as those are that are due: that is one question
        and quickly answered, while others stand in line for the lock. How new the others are is of
        no matter to a run that has no row.
        """
        if data_version(self._connection) == self.version:
            return True
        if self._rows:  # of which each may stand otherwise by now
            return False
        if len({*keys.jobs}) < len(keys.jobs):  # where one waits for another, newer ones matter
            return False
        return not execute_columns(self._connection, _KNOWN, keys)

    def see(self, moment: Moment) -> None:
        """Judge by another moment from now on, before anything was changed."""
        self._moment = moment
        self._open.clear()

    @property
    def is_blank(self) -> bool:
        """Whether of no job asked for any run is open or was pruned, nor a pause matters."""
        return not (self._rows or self._newest)

    def row(self, job: str, slot: int) -> RunRow | None:
        return self._rows.get((job, slot))

    def open_runs(self, job: str) -> OpenRuns | None:
        rows = self._of_job.get(job)
        if rows is None:
            return None
        found = self._open.get(job)
        if found is None:
            found = self._open[job] = OpenRuns(rows, self._moment)
        return found

    def claimed_between(self, job: str, after: int, until: int) -> bool:
        rows = self._of_job.get(job, ())
        if any(after < row.slot <= until and replaces(row) for row in rows):
            return True
        newest = self._newest.get(job)
        if newest is None or newest <= after:
            return False
        # Only now the runs are asked, by a range of slots: the newest may be one to come, since the
        # clock was set back, or of a backfill.
        return bool(self._connection.execute(_CLAIMED_BETWEEN, (after, until, job)).fetchall())

    def pruned(self, job: str) -> int | None:
        return self._pruned.get(job)

    def is_paused(self, job: str, slot: int | None) -> bool:
        if self._paused_until.get(job) == LASTING:
            return True
        return slot is not None and (job, slot) in self._in_pauses

    def pause(self, job: str, note: str) -> None:
        if self._paused_until.get(job) != LASTING:
            self._paused_until[job] = LASTING
            self._pauses[job] = note

    def next_fence(self) -> int:
        if self._fence is None:
            self._fence = next_fence(self._connection)
        self._fence += 1
        return self._fence - 1

    def put(self, row: RunRow) -> None:
        job, key = row.job, (row.job, row.slot)
        if self._rows.get(key) is not row or key not in self._changed:
            self._of_job[job] = (*self._of_job.get(job, ()), row)
        self._rows[key] = self._changed[key] = row
        if job in self._open:
            self._open[job].put(row)

    def record(self, result: RunResult) -> None:
        self._results.append(result)

    def flush(self) -> None:
        """Write all that was put and recorded."""
        execute_rows(self._connection, _PUT, [*map(_in_order, self._changed.values())])
        if self._fence is not None:
            set_next_fence(self._connection, self._fence)
        insert_results(self._connection, self._results)
        if self._pauses:
            insert_pauses(self._connection, self._pauses, self._moment)


def load_rows(connection: sqlite3.Connection, keys: Keys) -> dict[Key, RunRow]:
    """Return the rows of these runs, of those that have one."""
    rows = [RunRow(*values) for values in execute_columns(connection, _ROWS, keys)]
    return {(row.job, row.slot): row for row in rows}


def delete_rows(connection: sqlite3.Connection, keys: Sequence[Key]) -> None:
    """Remove the rows of these runs."""
    execute_rows(connection, _DELETE, keys)


def insert_first_attempts(
    connection: sqlite3.Connection, attempts: Sequence[Sequence[Any]], moment: Moment
) -> None:
    """Insert the rows of runs that had none.

    The attempts are given by column: jobs, slots, tokens, fences, instances, triggers, and leases
    in milliseconds. The rest of a row is alike for all, and half of what it costs to hand it over.
    """
    alike = (moment.wall, moment.wall, moment.boot, moment.mono)
    execute_columns(connection, _FIRST_ATTEMPTS, attempts, alike)


def next_fence(connection: sqlite3.Connection) -> int:
    """Return the fence of the next claim that is won."""
    return int(connection.execute(_NEXT_FENCE).fetchall()[0][0])


def set_next_fence(connection: sqlite3.Connection, fence: int) -> None:
    """Keep the fence of the next claim that is won."""
    connection.execute(_SET_NEXT_FENCE, (fence,))


def finish_owned(connection: sqlite3.Connection, endings: Sequence[Ending], moment: Moment) -> bool:
    """Finish runs as :func:`~leasecron.backends.holders.finish` does, without loading them.

    False where that was not possible for all: those that are finished now can be finished again.
    """
    rows: dict[str, list[tuple[str, int, str]]] = {"success": [], "failed": []}
    for ending in endings:
        if ending.keep_lease or ending.pause is not None or ending.status == "interrupted":
            return False
        state = "success" if ending.status == "success" else "failed"
        rows[state].append((ending.job, to_ms(ending.slot), ending.token))
    before = connection.total_changes
    for state, ended in rows.items():
        execute_rows(connection, _FINISH, ended, (state, moment.wall))
    return connection.total_changes - before == len(endings)


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has written, seen in a transaction."""
    return int(connection.execute("PRAGMA data_version").fetchall()[0][0])


def unfinished_rows(connection: sqlite3.Connection, jobs: Sequence[str]) -> list[RunRow]:
    """Return the runs of these jobs that have not ended, oldest slot first."""
    found = execute_rows(connection, _OPEN_ROWS, [(job,) for job in set(jobs)])
    rows = [RunRow(*values) for values in found]
    open_rows = [row for row in rows if row.state not in ENDED]
    return sorted(open_rows, key=attrgetter("slot", "job"))
