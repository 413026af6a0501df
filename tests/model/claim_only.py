"""The model of a store without leases: who won which slot, and which days were pruned.

Times are whole seconds of the file server's clock; a slot may lie a second ahead of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

EARLY = 1
HOUR = 3600
DAY = 24 * HOUR
CACHES = 120
"""Claims are kept for so much longer than they can be won, as clients believe old answers."""


@dataclass(frozen=True, slots=True)
class Said:
    """The answer to a claim."""

    outcome: str
    attempt: int | None = None
    holder: str | None = None
    wait: float | None = None


@dataclass(slots=True)
class ClaimOnly:
    """Slots by whole days of the server's calendar, which begins at zero."""

    winners: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Token and instance by slot."""
    pruned: int = -1000
    """The newest day of which claims were removed."""

    def claim(self, slot: int, token: str, instance: str, now: int, max_late: int) -> Said:
        """Answer a claim. What was won too long ago to be begun now is won no more."""
        if slot > now + EARLY:
            return Said("early", wait=slot - now)
        winner = self.winners.get(slot)
        if winner is not None and winner[0] != token:
            return Said("done", holder=winner[1])
        if now - slot > max_late:
            return Said("late")
        if self.is_pruned(slot, now):
            return Said("done")
        self.winners.setdefault(slot, (token, instance))
        return Said("won", attempt=1)

    def ask(self, slot: int, token: str, now: int, max_late: int) -> Said:
        """Answer a claim in mode takeover, which wins nothing that is free."""
        free = slot <= now + EARLY and slot not in self.winners
        return Said("done") if free else self.claim(slot, token, "", now, max_late)

    def is_pruned(self, slot: int, now: int) -> bool:
        return slot // DAY <= self.pruned and slot // DAY < now // DAY

    def prune(self, now: int, keep: int) -> None:
        """Remove the claims of days that are over for longer than they are kept."""
        newest = max(self.winners, default=0)
        for slot in sorted(self.winners):
            day = slot // DAY
            if (day + 1) * DAY <= now - keep - CACHES:
                self.pruned = max(self.pruned, day)
                if slot != newest:
                    del self.winners[slot]
