"""What all processes of a simulated cluster say to their store, and what it answers, in order.

Promises about the order of things are checked here, at the moment at which one would be broken: a
handler begins only some time after the store has said yes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from leasecron.model import NewRun, OneOff
from leasecron.testing.backfill_witness import BackfillWitness
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.witnessed import Asked


class Witness(BackfillWitness):
    """Hears every call that reaches the store, and every answer before it can be lost."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
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
        elif arguments:
            self._of_backfill(operation, arguments[0], answer)

    def arrives(self, operation: str, arguments: Sequence[Any], answer: Any) -> None:
        """Take note that the answer has reached the process that asked."""
        if operation == "heartbeat":
            for ref, said in zip(arguments[0], answer, strict=True):
                holding = self._by_token.get(ref.token)
                if said == "replaced" and holding is not None and holding.told is None:
                    holding.told = self._clock.now()

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

    def _resumed(self, job: str) -> None:
        pause = self._paused.pop(job, None)
        if pause is not None:
            pause.until = self._now.wall
