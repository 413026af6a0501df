"""The runs of a SQLite store as the decisions see them, loaded and written back by the batch.

One statement loads what a whole batch needs: a statement per claim would cost more than the rest.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from leasecron.backends.rows import Moment, OpenRuns, RunRow
from leasecron.backends.sqlite_history import insert_results
from leasecron.backends.sqlite_schema import OPEN
from leasecron.model import RunResult

Key = tuple[str, int]

_NAMES = [field.name for field in fields(RunRow)]
_COLUMNS = ", ".join(f"runs.{name}" for name in _NAMES)
_ROWS = f"""
    SELECT {_COLUMNS} FROM json_each(?) AS asked CROSS JOIN runs
    ON runs.job = json_extract(asked.value, '$[0]')
    AND runs.slot = json_extract(asked.value, '$[1]')
"""
# Left to itself, SQLite may walk through all runs of the job by the primary key.
_OPEN_ROWS = f"""
    SELECT {_COLUMNS} FROM json_each(?) AS asked CROSS JOIN runs INDEXED BY runs_open
    ON runs.job = asked.value AND {OPEN}
"""
_UNFINISHED = f"""
    {_OPEN_ROWS} AND runs.state IN ('claimed', 'released') ORDER BY runs.slot, runs.job
"""
_PRUNED = """
    SELECT jobs.name, jobs.pruned FROM json_each(?) AS asked CROSS JOIN jobs
    ON jobs.name = asked.value WHERE jobs.pruned IS NOT NULL
"""
_CLAIMED_BETWEEN = "SELECT 1 FROM runs WHERE job = ? AND slot > ? AND slot <= ? LIMIT 1"
_INSERT = f"INSERT INTO runs({', '.join(_NAMES)}) VALUES ({', '.join('?' * len(_NAMES))})"
_UPDATE = f"UPDATE runs SET {' = ?, '.join(_NAMES[2:])} = ? WHERE job = ? AND slot = ?"
_NEXT_FENCE = "SELECT value FROM meta WHERE key = 'next_fence'"
_SET_NEXT_FENCE = "UPDATE meta SET value = ? WHERE key = 'next_fence'"
_in_order = attrgetter(*_NAMES)
_key_last = attrgetter(*_NAMES[2:], *_NAMES[:2])


class LoadedRuns:
    """The rows of one batch, read in one transaction; ``flush`` writes what was changed."""

    def __init__(self, connection: sqlite3.Connection, moment: Moment) -> None:
        self._connection = connection
        self._moment = moment
        self._rows: dict[Key, RunRow] = {}
        self._stored: set[Key] = set()
        self._open: dict[str, OpenRuns] = {}
        self._pruned: dict[str, int] = {}
        self._changed: dict[Key, RunRow] = {}
        self._changed_slots: defaultdict[str, set[int]] = defaultdict(set)
        self._results: list[RunResult] = []
        self._fence: int | None = None

    def load(self, keys: Sequence[Key]) -> None:
        """Load the rows of these runs."""
        for values in self._connection.execute(_ROWS, (json.dumps(keys),)).fetchall():
            self._keep(values)

    def load_jobs(self, jobs: Iterable[str]) -> None:
        """Load what a claim must know of its job; after ``load``."""
        asked = (json.dumps(list(jobs)),)
        for values in self._connection.execute(_OPEN_ROWS, asked).fetchall():
            row = self._keep(values)
            self._put_open(row)
        self._pruned.update(self._connection.execute(_PRUNED, asked).fetchall())

    def _keep(self, values: Sequence[Any]) -> RunRow:
        key = (values[0], values[1])
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = RunRow(*values)
            self._stored.add(key)
        return found

    def row(self, job: str, slot: int) -> RunRow | None:
        return self._rows.get((job, slot))

    def open_runs(self, job: str) -> OpenRuns | None:
        return self._open.get(job)

    def claimed_between(self, job: str, after: int, until: int) -> bool:
        if any(after < slot <= until for slot in self._changed_slots[job]):
            return True
        return bool(self._connection.execute(_CLAIMED_BETWEEN, (job, after, until)).fetchall())

    def pruned(self, job: str) -> int | None:
        return self._pruned.get(job)

    def next_fence(self) -> int:
        if self._fence is None:
            self._fence = int(self._connection.execute(_NEXT_FENCE).fetchall()[0][0])
        self._fence += 1
        return self._fence - 1

    def put(self, row: RunRow) -> None:
        key = (row.job, row.slot)
        self._rows[key] = self._changed[key] = row
        self._changed_slots[row.job].add(row.slot)
        self._put_open(row)

    def _put_open(self, row: RunRow) -> None:
        found = self._open.get(row.job)
        if found is None:
            found = self._open[row.job] = OpenRuns((), self._moment)
        found.put(row)

    def record(self, result: RunResult) -> None:
        self._results.append(result)

    def flush(self) -> None:
        """Write all that was put and recorded."""
        changed = self._changed.items()
        new = [_in_order(row) for key, row in changed if key not in self._stored]
        old = [_key_last(row) for key, row in changed if key in self._stored]
        if new:
            self._connection.executemany(_INSERT, new)
        if old:
            self._connection.executemany(_UPDATE, old)
        if self._fence is not None:
            self._connection.execute(_SET_NEXT_FENCE, (self._fence,))
        insert_results(self._connection, self._results)


def unfinished_rows(connection: sqlite3.Connection, jobs: Sequence[str]) -> list[RunRow]:
    """Return the runs of these jobs that have not ended, oldest slot first."""
    found = connection.execute(_UNFINISHED, (json.dumps(list(set(jobs))),)).fetchall()
    return [RunRow(*values) for values in found]
