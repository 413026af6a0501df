"""A held lease as its holder sees it: pure state, apart from threads and stores.

The store decides how long a lease is good for. The holder trusts it for less: from the moment
*before* the call that won or renewed it was made, minus a margin. So a holder that was paused knows
that it can no longer trust its lease before any other instance may have taken it.
"""

from __future__ import annotations

from leasecron.model import Claim, LeaseRef


class Lease:
    """One won claim and how long it can be trusted."""

    __slots__ = (
        "_margin",
        "claim",
        "heartbeat",
        "lost",
        "next_beat",
        "queued",
        "trusted_until",
    )

    def __init__(self, claim: Claim, heartbeat: float, asked_at: float) -> None:
        self.claim = claim
        self.heartbeat = heartbeat
        self.queued = False  # at most one heartbeat of a run waits in the queue
        self.lost = False  # the store has said that the lease is over or has another owner
        self._margin = min(1.0, claim.lease / 10)
        self.next_beat = asked_at + heartbeat
        self.trusted_until = 0.0
        self.renewed(asked_at)

    @property
    def ref(self) -> LeaseRef:
        """What a heartbeat says to the store; most runs are over before their first."""
        claim = self.claim
        return LeaseRef(claim.job, claim.slot, claim.token, claim.lease)

    def renewed(self, asked_at: float) -> None:
        """Trust the lease anew, counted from the monotonic time before the call that renewed it."""
        self.trusted_until = asked_at + self.claim.lease - self._margin

    def trusted(self, now: float) -> bool:
        """Say whether nobody else can hold the run at the monotonic time ``now``."""
        return now < self.trusted_until

    def beat_due(self, now: float) -> bool:
        """Say whether to send a heartbeat now; if so, the next one is due an interval later."""
        if now < self.next_beat:
            return False
        self.next_beat = now + self.heartbeat
        return not self.queued
