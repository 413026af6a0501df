"""The runs of a SQLite store that somebody asks for, and how a run stands."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from leasecron.backends.claims import new_row
from leasecron.backends.rows import (
    Keys,
    Moment,
    RunRow,
    keys_of,
    may_be,
    run_state,
    unfinished_state,
)
from leasecron.backends.sqlite.batches import in_rows
from leasecron.backends.sqlite.history import result_of
from leasecron.backends.sqlite.runs import COLUMNS, LoadedRuns, delete_rows, load_rows
from leasecron.backends.sqlite.schema import ASKED_FOR
from leasecron.model import LeaseState, NewRun, RunState, to_ms

_ASKED_FOR = f"SELECT {COLUMNS} FROM runs INDEXED BY runs_asked_for WHERE {ASKED_FOR}"


def add_runs(connection: sqlite3.Connection, moment: Moment, runs: Sequence[NewRun]) -> list[bool]:
    """Put in runs that nobody has begun; False where the schedule has a run at that slot."""
    table = LoadedRuns(connection, moment)
    keys = keys_of(runs)
    table.load(keys)
    answers = []
    for run, slot in zip(runs, keys.slots, strict=True):
        row = table.row(run.job, slot)
        if row is None:
            table.put(new_row(run, slot, moment))
        answers.append(row is None or may_be(run, row))
    table.flush()
    return answers


def withdraw_runs(
    connection: sqlite3.Connection, _moment: Moment, runs: Sequence[NewRun]
) -> list[bool]:
    """Take back runs that were put in; False where one has been begun or is not there."""
    keys = keys_of(runs)
    rows = load_rows(connection, keys)
    waiting = {key for key, row in rows.items() if not row.attempt and row.origin != "scheduled"}
    delete_rows(connection, [*waiting])
    answers = []
    for key in zip(*keys, strict=True):
        answers.append(key in waiting)
        waiting.discard(key)
    return answers


def runs_asked_for(connection: sqlite3.Connection, moment: Moment) -> list[LeaseState]:
    """Return the runs that were put in and have not ended, oldest slot first."""
    found = in_rows(connection.execute(_ASKED_FOR).fetchall()[0])
    rows = sorted((RunRow(*values) for values in found), key=attrgetter("slot", "job"))
    return [unfinished_state(row, moment) for row in rows]


def state_of(
    connection: sqlite3.Connection, _moment: Moment, job: str, slot: datetime
) -> RunState | None:
    """Return how a run stands, or None where the store does not know it."""
    at = to_ms(slot)
    row = load_rows(connection, Keys([job], [at])).get((job, at))
    return None if row is None else run_state(row, result_of(connection, job, row.fence))
