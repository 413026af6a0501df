"""What may be removed from a SQLite store, found by reading and removed under the write lock.

A row of a run goes when it can decide nothing any more: not the newest of its job by schedule, its
lease over, and both its slot and the end of its lease long past. Records of the history go by
number and age, and pauses that have ended by age.

The rows are in the order of their slots, so those that are old stand together, with those between
them that other jobs keep for longer. A pass goes over all of them in many calls, each of which
looks at a bounded number of rows, whether they may go or not.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from leasecron.backends.base import PRUNE_BATCH
from leasecron.backends.rows import Keys, Moment, RunRow, lost_result, prunable
from leasecron.backends.sqlite.batches import columns, execute_rows, in_rows
from leasecron.backends.sqlite.history import insert_results
from leasecron.backends.sqlite.pauses import delete_pauses, old_pauses
from leasecron.backends.sqlite.runs import Key, delete_rows, load_rows
from leasecron.model import MAX_RECORDS, Retention

WALK = 4_000
"""Rows of runs that a call looks at, in the index alone."""

JOBS = 20
"""Jobs whose pauses and history a call looks at: it counts the records of each."""

_FEW = 32
"""Oldest records of a job that may be young, as that of a run that took days, while others go."""

_KEYS = f"""
    SELECT {columns("slot", "job")} FROM (
        SELECT slot, job FROM runs WHERE (slot, job) > (?, ?) AND slot < ?
        ORDER BY slot, job LIMIT ?
    )
"""
_NEWEST = f"""
    WITH asked(job) AS (VALUES {{rows}})
    SELECT {columns("jobs.name", "jobs.newest")} FROM asked CROSS JOIN jobs
    ON jobs.name = asked.job WHERE jobs.newest IS NOT NULL
"""
_RECORD_AT = "SELECT fence FROM results WHERE job = ? ORDER BY fence DESC LIMIT 1 OFFSET ?"
_OLDEST_RECORDS = f"""
    SELECT {columns("fence", "ended_at")} FROM (
        SELECT fence, ended_at FROM results WHERE job = ? AND fence <= ? ORDER BY fence LIMIT ?
    )
"""
_DELETE_RECORDS = "DELETE FROM results WHERE fence IN (VALUES {rows})"
_MARK = """
    INSERT INTO jobs(name, schedule, first_seen, last_seen, pruned)
    SELECT column1, '', column3, column3, column2 FROM (VALUES {rows}) WHERE true
    ON CONFLICT (name) DO UPDATE SET pruned = max(ifnull(pruned, excluded.pruned), excluded.pruned)
"""


@dataclass(frozen=True, slots=True)
class Pass:
    """How far a pass has come: ``after`` which row, and with the pauses and history of which jobs.

    Once all rows have been looked at, ``after`` is None.
    """

    after: tuple[int, str] | None = (-(2**63), "")
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class Removals:
    """What one call may remove, and how far the pass has come with it: None where it is over."""

    runs: Sequence[Key]
    fences: Sequence[int]
    pauses: Sequence[tuple[str, int]]
    pass_: Pass | None

    @property
    def is_empty(self) -> bool:
        return not (self.runs or self.fences or self.pauses)


def find_removals(
    connection: sqlite3.Connection, moment: Moment, retentions: Sequence[Retention], begun: Pass
) -> Removals:
    """Return what may go, at most PRUNE_BATCH rows in all."""
    runs, after = _old_runs(connection, moment, retentions, begun)
    asked = retentions[begun.jobs : begun.jobs + JOBS]
    ended = old_pauses(connection, asked, moment)
    pauses = ended[: PRUNE_BATCH - len(runs)]
    fences: list[int] = []
    done = begun.jobs
    for retention in asked if len(pauses) == len(ended) else ():
        room = PRUNE_BATCH - len(runs) - len(pauses) - len(fences)
        found = _old_records(connection, moment, retention, room + 1)
        fences += found[:room]
        if len(found) > room:
            break
        done += 1
    over = after is None and done >= len(retentions)
    pass_ = None if over else replace(begun, after=after, jobs=done)
    return Removals(runs, fences, pauses, pass_)


def remove(
    connection: sqlite3.Connection,
    moment: Moment,
    retentions: Sequence[Retention],
    removals: Removals,
) -> None:
    """Remove what was found. Runs are judged again: one may have been taken over since then.

    The newest slots of the schedule that went are noted. An attempt whose end nobody saw leaves a
    record.
    """
    rows = _prunable(connection, moment, retentions, removals.runs)
    insert_results(connection, [lost_result(row, moment) for row in rows if row.state == "claimed"])
    delete_rows(connection, [(row.job, row.slot) for row in rows])
    execute_rows(connection, _DELETE_RECORDS, [(fence,) for fence in removals.fences])
    delete_pauses(connection, removals.pauses)
    of_schedule = [row for row in rows if row.origin != "manual"]
    newest = {row.job: row.slot for row in sorted(of_schedule, key=attrgetter("slot"))}
    marks = [(job, slot, moment.wall) for job, slot in newest.items()]
    execute_rows(connection, _MARK, marks)


def _old_runs(
    connection: sqlite3.Connection, moment: Moment, retentions: Sequence[Retention], begun: Pass
) -> tuple[Sequence[Key], tuple[int, str] | None]:
    """Return the runs whose rows may go, and after which one the pass goes on."""
    if begun.after is None:
        return (), None
    before = {each.job: moment.wall - each.runs * 1000 for each in retentions}
    values = (*begun.after, max(before.values()), WALK)
    walked = in_rows(connection.execute(_KEYS, values).fetchall()[0])
    old = [(job, slot) for slot, job in walked if slot < before.get(job, slot)]
    after = walked[-1] if len(walked) == WALK else None
    if len(old) > PRUNE_BATCH:
        old = old[:PRUNE_BATCH]
        after = old[-1][::-1]
    rows = _prunable(connection, moment, retentions, old)
    return [(row.job, row.slot) for row in rows], after


def _prunable(
    connection: sqlite3.Connection,
    moment: Moment,
    retentions: Sequence[Retention],
    keys: Sequence[Key],
) -> list[RunRow]:
    given = Keys([job for job, _slot in keys], [slot for _job, slot in keys])
    rows = load_rows(connection, given).values()
    newest = dict(execute_rows(connection, _NEWEST, [(job,) for job in {row.job for row in rows}]))
    keep = {each.job: each.runs for each in retentions}
    return [
        row for row in rows if prunable(row, newest.get(row.job, -math.inf), keep[row.job], moment)
    ]


def _old_records(
    connection: sqlite3.Connection, moment: Moment, retention: Retention, limit: int
) -> list[int]:
    beyond = _fence_at(connection, retention.job, min(retention.records, MAX_RECORDS))
    if beyond is None:
        return []
    before = moment.wall - retention.age * 1000
    too_many = _fence_at(connection, retention.job, MAX_RECORDS) or 0
    # Mostly all are young. That a few say so is enough: each stands in a page of its own.
    oldest = _oldest_records(connection, retention.job, beyond, min(limit, _FEW))
    if too_many or any(ended_at < before for _fence, ended_at in oldest):
        oldest = _oldest_records(connection, retention.job, beyond, limit)
    return [fence for fence, ended_at in oldest if fence <= too_many or ended_at < before]


def _oldest_records(
    connection: sqlite3.Connection, job: str, until: int, limit: int
) -> list[tuple[int, int]]:
    return in_rows(connection.execute(_OLDEST_RECORDS, (job, until, limit)).fetchall()[0])


def _fence_at(connection: sqlite3.Connection, job: str, offset: int) -> int | None:
    found = connection.execute(_RECORD_AT, (job, offset)).fetchall()
    return found[0][0] if found else None
