"""How a backfill goes on from slot to slot, as pure functions that stores with leases share.

A backfill is a row of its own: a range, and the slot that it has come to. Whoever knows the
schedule says which slot is next; the store puts that run in, for anybody to begin, if nobody was
faster and the run before it has ended. So one slot is run at a time, by any instance, and a crash
between any two steps costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from leasecron.backends.claims import close_run, new_row
from leasecron.backends.rows import ENDED, Moment, RunRow, RunTable
from leasecron.model import Advance, AdvanceAnswer, BackfillState, NewRun, from_ms


@dataclass(slots=True)
class BackfillRow:
    """The newest backfill of a job. Instants are integer milliseconds.

    ``until`` is the first slot that is not in it, ``cursor`` the slot that it has come to, or None.
    """

    job: str
    since: int
    until: int
    total: int
    instance: str
    asked_at: int
    cursor: int | None = None
    succeeded: int = 0
    failed: int = 0
    ended_at: int | None = None


class BackfillTable(RunTable, Protocol):
    """The rows that a step of a backfill may look at and change."""

    def backfill(self, job: str) -> BackfillRow | None:
        """Return the newest backfill of the job."""

    def put_backfill(self, row: BackfillRow) -> None:
        """Keep a row that is new or was changed."""


def advance(
    asked: Advance, slot: int | None, cursor: int | None, table: BackfillTable, moment: Moment
) -> AdvanceAnswer:
    """Go on to ``slot``, or come to the end with None, from ``cursor``; both in milliseconds."""
    row = table.backfill(asked.job)
    if row is None or row.ended_at is not None or row.cursor != cursor:
        return "stale"
    if from_ms(row.asked_at) != asked.asked_at or _is_at_work(asked.job, table):
        return "stale"
    if slot is not None:
        if table.is_paused(asked.job, None):
            return "paused"
        if _has_to_wait(asked.job, slot, table):
            return "busy"
    _count(row, table)
    row.cursor = slot
    if slot is None:
        row.cursor, row.ended_at = cursor, moment.wall
        table.put_backfill(row)
        return "ended"
    table.put_backfill(row)
    found = table.row(asked.job, slot)
    if found is not None and found.state == "success":
        return "skipped"
    if found is not None and found.state not in ENDED:
        close_run(found, "replaced", table, moment)
    table.put(_run_again(asked, slot, row, found, moment))
    return "waiting"


def end_backfill(row: BackfillRow, table: BackfillTable, moment: Moment) -> None:
    """End a backfill before its time: what was not begun is not, and a live run goes on."""
    found = None if row.cursor is None else table.row(row.job, row.cursor)
    if found is not None and found.origin == "backfill":
        if not found.attempt and found.state not in ENDED:
            close_run(found, "replaced", table, moment)
        else:
            _count(row, table)
    row.ended_at = moment.wall
    table.put_backfill(row)


def backfill_state(row: BackfillRow) -> BackfillState:
    """Return what is told of a backfill."""
    return BackfillState(
        row.job,
        from_ms(row.since),
        from_ms(row.until),
        row.total,
        row.instance,
        from_ms(row.asked_at),
        None if row.cursor is None else from_ms(row.cursor),
        row.succeeded,
        row.failed,
        None if row.ended_at is None else from_ms(row.ended_at),
    )


def _is_at_work(job: str, table: BackfillTable) -> bool:
    """Say whether the run that the backfill put in last has not ended, or still has its lease."""
    runs = table.open_runs(job)
    if runs is None:
        return False
    unfinished = [row for row in runs.over.values() if row.state not in ENDED]
    return any(row.origin == "backfill" for row in (*runs.live.values(), *unfinished))


def _has_to_wait(job: str, slot: int, table: BackfillTable) -> bool:
    """Say whether a slot of the schedule waits, which goes first, or this one is being run."""
    runs = table.open_runs(job)
    if runs is None:
        return False
    return slot in runs.live or any(
        row.origin == "scheduled" and not row.attempt and row.state not in ENDED
        for row in runs.over.values()
    )


def _count(row: BackfillRow, table: BackfillTable) -> None:
    """Count how the run ended that the backfill has come to."""
    found = None if row.cursor is None else table.row(row.job, row.cursor)
    if found is None:
        return
    if found.state == "success":  # by the backfill or, meanwhile, by itself
        row.succeeded += 1
    elif found.origin == "backfill" and found.state in ENDED:
        row.failed += 1


def _run_again(
    asked: Advance, slot: int, backfill: BackfillRow, found: RunRow | None, moment: Moment
) -> RunRow:
    """Return the row of a slot's run as one that nobody has begun.

    Its attempts begin anew. The fences of those before stay, for their records.
    """
    run = NewRun(asked.job, from_ms(slot), backfill.instance, "backfill")
    row = new_row(run, slot, moment)
    if found is not None:
        row.fence, row.released_fence = found.fence, found.released_fence
    return row
