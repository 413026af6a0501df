"""The claim table, as pure functions that every store with leases shares.

A store loads rows into a :class:`RunTable`, reads its clock once into a :class:`Moment` while it
holds its write lock, and decides claim by claim. What has to be kept comes back through
``table.put`` and ``table.record``; the store writes it in the same transaction.
"""

from __future__ import annotations

import os
from typing import Literal

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
)
from leasecron.model import Claim, ClaimAnswer, RunResult, from_ms

_Change = Literal["win", "again", "replace", "abandon"]


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
    if isinstance(verdict, ClaimAnswer):
        return verdict
    assert row is not None
    if verdict == "again":
        # The answer to an earlier try was lost. Its holder trusts the lease from this call on.
        renew_lease(row, claim.lease, moment)
        table.put(row)
        return ClaimAnswer("won", attempt=row.attempt, fence=row.fence)
    abandoned = verdict == "abandon"
    closed = _close(row, "abandoned" if abandoned else "replaced", table, moment)
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
    if table.claimed_between(claim.job, slot, moment.wall):
        return "replace"
    # An attempt that nobody released has lost its lease, which is counted once it is superseded.
    if row.lost + (row.state == "claimed") >= claim.max_attempts:
        return "abandon"
    return _overlap(claim, slot, table) or "win"


def _judge_unclaimed(
    claim: Claim, slot: int, table: RunTable, moment: Moment
) -> ClaimAnswer | _Change:
    pruned = None if claim.mode == "takeover" else table.pruned(claim.job)
    if pruned is not None and slot <= pruned <= moment.wall:
        return ClaimAnswer("done")
    return answer_free(claim, slot, moment) or _overlap(claim, slot, table) or "win"


def _overlap(claim: Claim, slot: int, table: RunTable) -> ClaimAnswer | None:
    runs = None if claim.overlap == "allow" else table.open_runs(claim.job)
    if runs is None:
        return None
    other = min((other for other in runs.live if other != slot), default=None)
    if other is None:
        return None
    return ClaimAnswer("overlap", holder=runs.live[other].instance, other=from_ms(other))


def _win(
    claim: Claim, slot: int, row: RunRow | None, table: RunTable, moment: Moment
) -> ClaimAnswer:
    attempt, lost, released_fence = 1, 0, None
    closed: tuple[RunResult, ...] = ()
    if row is not None:
        closed = _count_lost(row, table, moment)
        attempt, lost, released_fence = row.attempt + 1, row.lost, row.released_fence
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
        trigger=claim.trigger,
        claimed_at=moment.wall,
        lease_until=moment.wall + lease,
        boot=moment.boot,
        lease_mono=moment.mono + lease,
    )
    runs = table.open_runs(claim.job)
    if runs is not None:
        for other in sorted(runs.over):
            if other != slot:
                closed += _settle(runs.over[other], claim, slot, table, moment)
    table.put(won)
    # By position, as the row: by name it takes three times as long, of each claim that is won.
    return ClaimAnswer("won", attempt, fence, None, None, None, closed)


def _settle(
    row: RunRow, claim: Claim, slot: int, table: RunTable, moment: Moment
) -> tuple[RunResult, ...]:
    """Leave nothing behind a won claim that its holder could still believe in.

    Another observer may see the same lease as alive and renew it. So an older run is closed with a
    fresh token, and a lease that the winner takes for over is ended for everybody.
    """
    if row.state not in ENDED and row.slot < slot:
        return _close(row, "replaced", table, moment)
    if row.boot != LEASE_ENDED and (claim.overlap == "skip" or row.state in ENDED):
        end_lease(row, moment)
        table.put(row)
    return ()


def _close(row: RunRow, state: str, table: RunTable, moment: Moment) -> tuple[RunResult, ...]:
    """End a run in its holder's place; the fresh token makes all that he still says stale."""
    closed = _count_lost(row, table, moment)
    row.state = state
    row.token = os.urandom(16).hex()
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
