"""How often an instance asks for slots: the more instances there are, the less often each.

All instances ask for each slot, and one of them wins it. Were each of them to ask at once, there
would be as many calls for a slot as instances. So claims gather for a gap that grows with the
number of rivals: all instances together then ask some 200 times a second, however many they are,
and the first to ask does so a few milliseconds after the slot.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from leasecron.clock import Clock
from leasecron.model import Claim, ClaimAnswer

STEP = 0.005
"""Seconds between two calls of all instances together."""

LONGEST_GAP = 1.0
"""Seconds between two calls of one instance on average, which can be twice as long."""

ENOUGH = 100
"""Claims that are worth a call: whoever had so many in one goes on with the next ones at once."""

REMEMBER = 600.0
"""Seconds until a rival that has won nothing more counts as gone."""


class Pace:
    """When the claims that wait are made next; used by the store thread only.

    Rivals are the instances that this one has lost to. It is they that are counted, and not how
    often it lost: whoever asks less often wins less often too, but is still heard of.
    """

    def __init__(self, clock: Clock) -> None:
        self.next_at = 0.0  # by the monotonic clock
        self._clock = clock
        self._rivals: OrderedDict[str, float] = OrderedDict()  # when last lost to, oldest first

    def add(self, claim: Claim) -> None:
        """Let a takeover wait for nothing, and no slot for so long that it would be late."""
        now = self._clock.monotonic()
        if self.next_at <= now:
            return
        left = claim.max_late - (self._clock.wall() - claim.slot.timestamp())
        if claim.mode == "takeover":
            self.hurry()
        else:
            self.next_at = min(self.next_at, now + max(0.0, left / 4))

    def hurry(self) -> None:
        """Have all that wait be asked for at once."""
        self.next_at = 0.0

    def hear(self, instance: str, answers: Iterable[ClaimAnswer]) -> None:
        """Note who else has won runs."""
        now = self._clock.monotonic()
        for holder in {answer.holder for answer in answers}:
            if holder is not None and holder != instance:
                self._rivals[holder] = now
                self._rivals.move_to_end(holder)

    def rest(self, asked: int) -> None:
        """Begin the next gap after a call of so many claims: nothing waits any more."""
        now = self._clock.monotonic()
        while self._rivals and next(iter(self._rivals.values())) < now - REMEMBER:
            self._rivals.popitem(last=False)
        gap = min(LONGEST_GAP, STEP * len(self._rivals))
        # Anywhere in twice the gap: those that begin together at a slot scatter at once.
        self.next_at = (
            now + 2 * gap * self._clock.random.random() if gap and asked < ENOUGH else 0.0
        )
