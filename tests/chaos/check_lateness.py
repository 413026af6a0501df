"""No run begun late once all that befell the store has been over for a while.

This is what being back means for a store: not only that slots are run, but that they are in time.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from chaos.jobs import FILLED, work_of
from chaos.outages import of_a_server
from chaos.story import Attempt, Story
from chaos.violation import Violation, violation
from leasecron.model import WAITING

BACK = 5.0
"""Seconds after an outage for which runs may still be late."""

LATE = 1.5
"""Seconds after a slot, of which its jitter may take one third."""

IN_TIME, EXPLAINED, LATE_FOR_NOTHING = "in time", "late for a good reason", "late for nothing"

_STARTING = 15.0


@dataclass(slots=True)
class Lateness:
    """Finds first attempts that were late for nothing, and counts the others.

    ``back`` is for how many seconds after an outage of the server slots were still late, at most.
    """

    story: Story
    found: Counter[str] = field(default_factory=Counter)
    back: float = 0.0

    def late(self) -> Iterator[Violation]:
        """Find them."""
        for attempt in self.story.attempts:
            if attempt.attempt > 1 or attempt.retry:  # what came before it took its time
                continue
            waits = work_of(attempt.job).overlap in WAITING or attempt.job == FILLED
            if waits or attempt.trigger == "manual":
                continue
            due = attempt.slot / 1000 - self.story.offset
            if attempt.begun - due <= LATE:
                self.found[IN_TIME] += 1
            elif self._is_explained(attempt, due):
                self.found[EXPLAINED] += 1
                self._note_return(attempt, due)
            else:
                self.found[LATE_FOR_NOTHING] += 1
                text = f"a run was begun {attempt.begun - due:.3f} s after its slot, for nothing"
                yield violation(text, attempt)

    def _is_explained(self, attempt: Attempt, due: float) -> bool:
        """Say whether anything can have kept this process, or everybody, from an earlier begin."""
        return bool(
            self.story.troubles.between(None, due - BACK, attempt.begun)
            or self.story.was_busy(due, attempt.begun)
            or self._is_its_own(attempt, due)
        )

    def _is_its_own(self, attempt: Attempt, due: float) -> bool:
        """Say so of what befell the process alone."""
        up = self.story.lives[attempt.life].up
        troubles = self.story.troubles.between(attempt.life, due, attempt.begun)
        return bool(troubles) or up is None or due < up + _STARTING

    def _note_return(self, attempt: Attempt, due: float) -> None:
        over = max((each.until for each in of_a_server(self.story, due - BACK, due)), default=due)
        since_then = self.story.troubles.between(None, over, attempt.begun)
        if not (any(each.since > over for each in since_then) or self._is_its_own(attempt, due)):
            self.back = max(self.back, due - over)
