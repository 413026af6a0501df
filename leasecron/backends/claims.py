"""The claim table, as pure functions that every store with leases shares.

A store loads rows into a :class:`RunTable`, reads its clock once into a :class:`Moment` while it
holds its write lock, and decides claim by claim. What has to be kept comes back through
``table.put`` and ``table.record``; the store writes it in the same transaction.
"""

from __future__ import annotations

import os
from operator import attrgetter
from typing import Final, Literal

from leasecron.backends.rows import (
    ENDED,
    LEASE_ENDED,
    Moment,
    RunRow,
    RunTable,
    Standing,
    alive,
    end_lease,
    lost_result,
    milliseconds,
    renew_lease,
    replaces,
)
from leasecron.model import WAITING, Claim, ClaimAnswer, NewRun, RunResult, Trigger, from_ms

ABANDONED: Final = "a run has used up its attempts"
"""The note of a pause that no holder could write, since none was left."""

_Change = Literal["win", "again", "replace", "abandon", "wait"]


def answer_by_row(row: RunRow | Standing, moment: Moment, *, own: bool) -> ClaimAnswer | None:
    """Return what a run's row alone answers to a token, its ``own`` or another, if it does.

    The answer holds whatever else a call claims: a run that ended does not begin again, and claims
    of a call that find a run at work are as if they had come first.
    """
    if row.state in ENDED:
        return ClaimAnswer("done", holder=row.instance)
    if not own and alive(row, moment):
        return ClaimAnswer("running", attempt=row.attempt, holder=row.instance)
    return None


def answer_free(claim: Claim, slot: int, moment: Moment) -> ClaimAnswer | None:
    """Return the answer to a claim where no run of its job is open or was pruned; None if it wins.

    Most claims that win are like that, and so are told apart without a look at any table.
    """
    if claim.mode == "takeover":
        return ClaimAnswer("none")
    if moment.wall - slot > claim.max_late * 1000:
        return ClaimAnswer("late")
    return None


def answer_unchanged(
    claim: Claim, slot: int, table: RunTable, moment: Moment
) -> ClaimAnswer | None:
    """Return the answer of a claim that changes nothing, or None where it needs the write lock."""
    row = table.row(claim.job, slot)
    verdict = _judge(claim, slot, row, table, moment)
    return verdict if isinstance(verdict, ClaimAnswer) else None


def decide(claim: Claim, slot: int, table: RunTable, moment: Moment) -> ClaimAnswer:
    """Answer one claim and make the changes that the answer means. ``slot`` is in milliseconds."""
    row = table.row(claim.job, slot)
    verdict = _judge(claim, slot, row, table, moment)
    if verdict == "win":
        return _win(claim, slot, row, table, moment)
    if verdict == "wait":
        return _wait(claim, slot, table, moment)
    if isinstance(verdict, ClaimAnswer):
        return verdict
    assert row is not None
    if verdict == "again":
        # The answer to an earlier try was lost. Its holder trusts the lease from this call on.
        renew_lease(row, claim.lease, moment)
        table.put(row)
        answer = ClaimAnswer("won", attempt=row.attempt, fence=row.fence, retries=row.retries)
        if row.attempt == 1 and row.trigger != claim.trigger:
            answer.trigger = row.trigger  # type: ignore[assignment]  # as it was put in
        return answer
    abandoned = verdict == "abandon"
    if abandoned and claim.pause_on_failure:
        table.pause(claim.job, ABANDONED)
    closed = close_run(row, "abandoned" if abandoned else "replaced", table, moment)
    return ClaimAnswer("done", holder=row.instance, closed=closed, abandoned=abandoned)


def _judge(
    claim: Claim, slot: int, row: RunRow | None, table: RunTable, moment: Moment
) -> ClaimAnswer | _Change:
    """Find the first row of the claim table that fits."""
    if row is None:
        return _judge_unclaimed(claim, slot, table, moment)
    own = row.token == claim.token
    answer = answer_by_row(row, moment, own=own)
    if answer is not None:
        return answer
    if own and alive(row, moment):
        return "again"
    if row.cancelled or _is_replaced(claim, slot, row, table, moment):
        return "replace"
    # An attempt that nobody released has lost its lease, which is counted once it is superseded.
    if row.lost + (row.state == "claimed") >= claim.max_attempts:
        return "abandon"
    if table.is_paused(claim.job, None):
        return ClaimAnswer("paused")
    return _overlap(claim, slot, table) or "win"


def _is_replaced(claim: Claim, slot: int, row: RunRow, table: RunTable, moment: Moment) -> bool:
    # A run that somebody asked for is no slot of the schedule, and none makes up for it.
    return row.origin == "scheduled" and table.claimed_between(claim.job, slot, moment.wall)


def _judge_unclaimed(
    claim: Claim, slot: int, table: RunTable, moment: Moment
) -> ClaimAnswer | _Change:
    pruned = None if claim.mode == "takeover" else table.pruned(claim.job)
    if pruned is not None and slot <= pruned <= moment.wall:
        return ClaimAnswer("done")
    if claim.mode == "claim" and table.is_paused(claim.job, slot):
        return ClaimAnswer("paused")
    answer = answer_free(claim, slot, moment)
    if answer is not None:
        return answer
    answer = _overlap(claim, slot, table)
    if answer is not None and (claim.overlap in WAITING or _is_behind_backfill(claim, slot, table)):
        return "wait"
    return answer or "win"


def _overlap(claim: Claim, slot: int, table: RunTable) -> ClaimAnswer | None:
    """Return the answer where another run of the job stands in the way."""
    runs = None if claim.overlap == "allow" else table.open_runs(claim.job)
    if runs is None:
        return None
    others = [row for row in runs.live.values() if row.slot != slot]
    if claim.overlap == "queue" and not others:
        # An older run that was begun and given back, or whose holder is gone, has not ended.
        others = [row for row in runs.over.values() if row.slot < slot and _goes_on(row)]
    if not others:
        return None
    other = min(others, key=attrgetter("slot"))
    return ClaimAnswer("overlap", holder=other.instance, other=from_ms(other.slot))


def _is_behind_backfill(claim: Claim, slot: int, table: RunTable) -> bool:
    """Say whether only runs of backfills stand in the way: then the newest slot waits."""
    runs = table.open_runs(claim.job)
    live = () if runs is None else runs.live.values()
    return all(row.origin == "backfill" for row in live if row.slot != slot)


def _goes_on(row: RunRow) -> bool:
    """Say whether a run whose lease is over was begun and is to be taken over."""
    return row.attempt > 0 and row.state not in ENDED and not row.cancelled


def _wait(claim: Claim, slot: int, table: RunTable, moment: Moment) -> ClaimAnswer:
    """Keep a slot that has to wait for an older run; of those that wait, only the newest will run.

    With ``overlap="cancel"`` the older runs of the schedule are told to make way.
    """
    answer = _overlap(claim, slot, table)
    runs = table.open_runs(claim.job)
    assert answer is not None
    assert runs is not None
    waiting = new_row(NewRun(claim.job, claim.slot, claim.instance, claim.trigger), slot, moment)
    others = [row for row in runs.over.values() if not row.attempt and row.origin == "scheduled"]
    for row in others:
        if row.slot < slot:
            close_run(row, "replaced", table, moment)
    is_newest = not any(row.slot > slot for row in others)
    if not is_newest or table.claimed_between(claim.job, slot, moment.wall):
        waiting.state = "replaced"
        answer = ClaimAnswer("done", holder=claim.instance)
    elif claim.overlap == "cancel":
        # One whose lease is over too: it is not taken over then.
        goes_on = [row for row in runs.over.values() if _goes_on(row)]
        for row in [*runs.live.values(), *goes_on]:
            if row.slot < slot and replaces(row) and not row.cancelled:
                row.cancelled = True
                table.put(row)
    table.put(waiting)
    return answer


def new_row(run: NewRun, slot: int, moment: Moment) -> RunRow:
    """Return the row of a run that nobody has begun."""
    return RunRow(
        job=run.job,
        slot=slot,
        state="released",
        token="",
        attempt=0,
        lost=0,
        fence=0,
        released_fence=None,
        instance=run.instance,
        trigger=run.trigger,
        claimed_at=moment.wall,
        lease_until=moment.wall,
        boot=LEASE_ENDED,
        lease_mono=0,
        origin="scheduled" if run.trigger not in ("manual", "backfill") else run.trigger,
    )


def _win(
    claim: Claim, slot: int, row: RunRow | None, table: RunTable, moment: Moment
) -> ClaimAnswer:
    attempt, lost, released_fence, retries = 1, 0, None, 0
    trigger, origin = claim.trigger, "scheduled"
    asked_for: Trigger | None = None
    closed: tuple[RunResult, ...] = ()
    if row is not None:
        closed = _count_lost(row, table, moment)
        attempt, lost, released_fence = row.attempt + 1, row.lost, row.released_fence
        retries, origin = row.retries, row.origin
        if attempt == 1:
            # A store gives back what was put in.
            trigger = asked_for = row.trigger  # type: ignore[assignment]
    fence = table.next_fence()
    lease = milliseconds(claim.lease)
    won = RunRow(
        job=claim.job,
        slot=slot,
        state="claimed",
        token=claim.token,
        attempt=attempt,
        lost=lost,
        fence=fence,
        released_fence=released_fence,
        instance=claim.instance,
        trigger=trigger,
        claimed_at=moment.wall,
        lease_until=moment.wall + lease,
        boot=moment.boot,
        lease_mono=moment.mono + lease,
        retries=retries,
        origin=origin,
    )
    runs = table.open_runs(claim.job)
    if runs is not None:
        for other in sorted(runs.over):
            if other != slot:
                closed += _settle(runs.over[other], claim, won, table, moment)
    table.put(won)
    # By position, as the row: by name it takes three times as long, of each claim that is won.
    answer = ClaimAnswer("won", attempt, fence, None, None, None, closed)
    if row is not None:
        answer.retries, answer.trigger = retries, asked_for
    return answer


def _settle(
    row: RunRow, claim: Claim, won: RunRow, table: RunTable, moment: Moment
) -> tuple[RunResult, ...]:
    """Leave nothing behind a won claim that its holder could still believe in.

    Another observer may see the same lease as alive and renew it. So an older run is closed with a
    fresh token, and a lease that the winner takes for over is ended for everybody.
    """
    if row.state not in ENDED and row.slot < won.slot and won.origin == row.origin == "scheduled":
        return close_run(row, "replaced", table, moment)
    if row.boot != LEASE_ENDED and (claim.overlap != "allow" or row.state in ENDED):
        end_lease(row, moment)
        table.put(row)
    return ()


def close_run(row: RunRow, state: str, table: RunTable, moment: Moment) -> tuple[RunResult, ...]:
    """End a run in its holder's place; the fresh token makes all that he still says stale."""
    closed = _count_lost(row, table, moment)
    row.state = state
    row.token = os.urandom(16).hex()
    row.cancelled = False
    end_lease(row, moment)
    table.put(row)
    return closed


def _count_lost(row: RunRow, table: RunTable, moment: Moment) -> tuple[RunResult, ...]:
    """Record the latest attempt as lost, unless it was released."""
    if row.state != "claimed":
        return ()
    row.lost += 1
    result = lost_result(row, moment)
    table.record(result)
    return (result,)
