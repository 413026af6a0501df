"""What all processes of a simulated cluster say to their store, and what it answers, in order.

Promises about the order of things are checked here, at the moment at which one would be broken: a
handler begins only some time after the store has said yes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from leasecron.model import Advance, NewRun, OneOff
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.run_witness import RunWitness
from leasecron.testing.witnessed import Asked, WitnessedRun


class Witness(RunWitness):
    """Hears every call that reaches the store, and every answer before it can be lost."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._before: list[WitnessedRun] = []  # of slots that a backfill has run again
        self._anew: dict[tuple[str, datetime], list[int]] = {}  # the last fence before each time
        self._backfilled: dict[str, WitnessedRun] = {}
        self._hearers: dict[str, Callable[[Any, Any, Asked], None]] = {
            "claim": self._claimed,
            "heartbeat": self._beaten,
            "finish": self._finished,
            "release": self._released,
            "retry": self._counted,
            "add_runs": self._put_in,
            "withdraw": self._withdrawn,
            "fix": self._fix,
        }

    def asks(self, operation: str, arguments: Sequence[Any]) -> Asked:
        """Take note of a call that is about to be made."""
        self._number += 1
        self._now = self._read()
        match operation:
            case "finish" | "release":
                self._ending |= {ending.token for ending in arguments[0]}
            case "resume":
                self._resumed(arguments[0])
            case "heartbeat":
                for ref in arguments[0]:
                    holding = self._by_token.get(ref.token)
                    if holding is not None and holding.told and not holding.beat_since:
                        holding.beat_since = self._now.wall
        return Asked(self._number, self._now)

    def hears(self, operation: str, arguments: Sequence[Any], answer: Any, asked: Asked) -> None:
        """Take note of what the store has answered to a call."""
        self._number += 1
        self._now = self._read()
        hear = self._hearers.get(operation)
        if hear is not None:
            for item, said in zip(arguments[0], answer, strict=True):
                hear(item, said, asked)
        elif operation == "pause" and answer:
            self.paused(arguments[0])
        elif operation == "resume":
            self._resumed(arguments[0])
        elif operation == "advance" and answer == "waiting":
            self._begins_anew(arguments[0])
        elif operation == "cancel_backfill":
            self._backfill_cancelled(arguments[0])

    def arrives(self, operation: str, arguments: Sequence[Any], answer: Any) -> None:
        """Take note that the answer has reached the process that asked."""
        if operation == "heartbeat":
            for ref, said in zip(arguments[0], answer, strict=True):
                holding = self._by_token.get(ref.token)
                if said == "replaced" and holding is not None and holding.told is None:
                    holding.told = self._clock.now()

    def all_runs(self) -> list[WitnessedRun]:
        """Return those too that a backfill has begun anew since."""
        return [*self._before, *self.runs.values()]

    def begun_anew(self, job: str, slot: datetime, fence: int | None) -> int:
        """Return how often a run had been begun anew before the attempt of that fence."""
        return sum(fence is not None and fence > last for last in self._anew.get((job, slot), ()))

    # What people say

    def _put_in(self, new: NewRun, done: object, _asked: Asked) -> None:
        run = self._run(new.job, new.slot)
        if done and run.put_in is None:
            run.put_in, run.asked_for = self._now.wall, True

    def _withdrawn(self, new: NewRun, done: object, _asked: Asked) -> None:
        if done:
            self.runs.pop((new.job, new.slot), None)

    def _fix(self, one_off: OneOff, at: datetime, _asked: Asked) -> None:
        first = self.fixed.setdefault(one_off.job, at)
        if at != first:
            self._breaks(f"fixed anew, at {at.isoformat()}: {self._run(one_off.job, first).name}")

    def _begins_anew(self, asked: Advance) -> None:
        """Take note of the run of a slot that a backfill has put in, whatever it was before."""
        assert asked.slot is not None
        key = (asked.job, asked.slot)
        before = self.runs.pop(key, None)
        if before is not None:
            if before.succeeded:
                self._breaks(f"run again after it had succeeded: {before.name}")
            self._over(before)
            self._before.append(before)
            if before.holdings:
                self._anew.setdefault(key, []).append(before.holdings[-1].fence or 0)
        run = self._run(*key)
        run.put_in, run.asked_for = self._now.wall, True
        self._backfilled[asked.job] = run

    def _backfill_cancelled(self, job: str) -> None:
        run = self._backfilled.pop(job, None)
        if run is not None and not run.holdings:
            self._over(run)

    def _resumed(self, job: str) -> None:
        pause = self._paused.pop(job, None)
        if pause is not None:
            pause.until = self._now.wall
