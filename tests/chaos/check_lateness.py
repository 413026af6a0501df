"""No run begun late once all that befell the store has been over for a while.

This is what being back means for a store: not only that slots are run, but that they are in time.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from chaos.story import Attempt, Story
from chaos.violation import Violation, violation

BACK = 5.0
"""Seconds after an outage for which runs may still be late."""

LATE = 1.5
"""Seconds after a slot, of which its jitter may take one third."""

IN_TIME, EXPLAINED, LATE_FOR_NOTHING = "in time", "late for a good reason", "late for nothing"

_STARTING = 15.0


@dataclass(slots=True)
class Lateness:
    """Finds first attempts that were late for nothing, and counts the others."""

    story: Story
    found: Counter[str] = field(default_factory=Counter)

    def late(self) -> Iterator[Violation]:
        """Find them."""
        for attempt in self.story.attempts:
            if attempt.attempt > 1:  # that the first one was lost took its time
                continue
            due = attempt.slot / 1000 - self.story.offset
            if attempt.begun - due <= LATE:
                self.found[IN_TIME] += 1
            elif self._is_explained(attempt, due):
                self.found[EXPLAINED] += 1
            else:
                self.found[LATE_FOR_NOTHING] += 1
                text = f"a run was begun {attempt.begun - due:.3f} s after its slot, for nothing"
                yield violation(text, attempt)

    def _is_explained(self, attempt: Attempt, due: float) -> bool:
        """Say whether anything can have kept this process, or everybody, from an earlier begin."""
        troubles = self.story.troubles
        up = self.story.lives[attempt.life].up
        return bool(
            troubles.between(None, due - BACK, attempt.begun)
            or troubles.between(attempt.life, due, attempt.begun)
            or self.story.was_busy(due, attempt.begun)
            or up is None
            or due < up + _STARTING
        )
