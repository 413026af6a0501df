"""What a SQLite store holds: rows, and the leases that are alive."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import fields

from leasecron.backends.checks import Check
from leasecron.backends.rows import ENDED, Moment, RunRow, alive
from leasecron.backends.sqlite.schema import OPEN
from leasecron.model import from_ms

SHOWN = 20
"""Leases that get a line of their own."""

_MOST = 1_000_000
_COLUMNS = ", ".join(field.name for field in fields(RunRow))
_OPEN_ROWS = f"SELECT {_COLUMNS} FROM runs INDEXED BY runs_open WHERE {OPEN} LIMIT {_MOST}"
_TABLES = ("jobs", "runs", "results")


def contents_of(connection: sqlite3.Connection, moment: Moment) -> list[Check]:
    """Count the rows and show the live leases, newest first."""
    found = connection.execute(_OPEN_ROWS).fetchall()
    open_rows = [RunRow(*values) for values in found]
    live = sorted((row for row in open_rows if alive(row, moment)), key=lambda row: -row.slot)
    waiting = [row for row in open_rows if row.state not in ENDED and not alive(row, moment)]
    return [_check_rows(connection), _check_leases(live, waiting), *_leases(live, moment)]


def _check_rows(connection: sqlite3.Connection) -> Check:
    counted = ", ".join(f"{_count(connection, table)} {table}" for table in _TABLES)
    reason = "what need not be kept is pruned by the instances"
    return Check("rows", "good", counted, reason)


def _count(connection: sqlite3.Connection, table: str) -> str:
    # Bounded: a long look would keep SQLite from shortening its log.
    statement = f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {_MOST})"
    count = int(connection.execute(statement).fetchall()[0][0])
    return f"{count:,} or more" if count == _MOST else f"{count:,}"


def _check_leases(live: Sequence[RunRow], waiting: Sequence[RunRow]) -> Check:
    found = f"{len(live)} live"
    if not waiting:
        return Check("leases", "good", found, "no run waits for a backup")
    reason = (
        f"{len(waiting)} unfinished without one, which backups take over or newer slots replace"
    )
    return Check("leases", "good", found, reason)


def _leases(live: Sequence[RunRow], moment: Moment) -> list[Check]:
    checks = [Check("lease", "good", _who(row), _age(row, moment)) for row in live[:SHOWN]]
    if len(live) > SHOWN:
        checks.append(Check("lease", "good", f"{len(live) - SHOWN} more", "not shown"))
    return checks


def _who(row: RunRow) -> str:
    slot = from_ms(row.slot).isoformat(sep=" ")
    return f"{row.job} at {slot}, attempt {row.attempt} by {row.instance}"


def _age(row: RunRow, moment: Moment) -> str:
    age = (moment.wall - row.claimed_at) / 1000
    same_boot = row.boot is not None and row.boot == moment.boot
    left = row.lease_mono - moment.mono if same_boot else row.lease_until - moment.wall
    after = "" if row.state == "claimed" else f", kept by a handler after its run was {row.state}"
    return f"claimed {age:.1f} s ago, {left / 1000:.1f} s left{after}"
