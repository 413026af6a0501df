"""Finding the runs that somebody asked for, in this process or in any other.

A store that tells of them is asked when it does, and now and then all the same; every other one is
asked each second. All instances so learn of all such runs of their jobs: one of them begins it, and
the others stand by for it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from leasecron.backfilling import Backfilling
from leasecron.clock import Clock
from leasecron.deadlines import Timer
from leasecron.events import EventBus
from leasecron.jobs import DeclaredJob, declaration_of
from leasecron.model import BackfillState, LeaseState
from leasecron.runner import Runner
from leasecron.runs import Key
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers

TRY_AGAIN = 1.0
"""Seconds after which a store is asked again that failed, or in which runs wait."""

_AT_ONCE = 0.03  # seconds within which all instances look that were told at the same moment
_SHOWN_FOR = 10.0  # seconds, of which whoever has asked for something waits for a sign half


_Answer = tuple[list[LeaseState], list[BackfillState], float | None]


class Inbox:
    """Looks for runs that were asked for, and for backfills; runs in the timers thread.

    ``job_named`` returns the declaration of a job, if this instance has one.
    """

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        store: StoreQueue,
        bus: EventBus,
        runner: Runner,
        job_named: Callable[[str], DeclaredJob | None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._bus = bus
        self._runner = runner
        self._job_named = job_named
        self._asked = False  # and the answer has yet to come
        self._again = False  # what was told since then may not be in it
        self._later: Timer | None = None
        self._due = 0.0  # when it looks again, if it does
        self._failing = False
        self._known: set[Key] = set()  # at the last look
        self._waiting: set[Key] = set()  # were not begun then
        self._shown: dict[Key, float] = {}  # since when
        self._backfilling = Backfilling(
            clock, timers, store, bus, job_named, self.look_soon, self._show
        )

    def look(self) -> None:
        """Ask the store now, and from then on as often as it has to be."""
        try:
            self._ask()
        except Exception:
            self._look_all_the_same()
            raise

    def told(self, job: str, slot: datetime) -> None:
        """Take note of a run that was given back or asked for, or of a backfill from it on."""
        if self._job_named(job) is None:
            return
        # What is watched was given back, most likely, but a backfill may begin with its slot.
        within = TRY_AGAIN if self._runner.released(job, slot) else _AT_ONCE
        self._look_in(self._clock.random.random() * within)

    def run_ended(self, key: Key) -> None:
        """Take note that a run has ended here: a backfill goes on at once."""
        if key in self._known:
            self.look_soon()

    def look_soon(self) -> None:
        """Ask the store as soon as what goes on now is done."""
        self._look_in(0.0)

    def _look_in(self, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        later = self._later
        if later is not None:
            if self._due <= due:
                return
            self._later = None
            self._timers.cancel(later)
        self._due = due
        self._later = self._timers.at(due, self.look)

    def _look_all_the_same(self) -> None:
        """Go on with the looks after an error: nothing else would begin them again."""
        self._asked = False
        self._later = None  # it may be the one whose look has failed
        self._look_in(TRY_AGAIN)

    def _ask(self) -> None:
        self._later = None
        if self._asked:  # but maybe too early to know of what was told since
            self._again = True
            return
        self._asked = True
        self._store.submit_other(
            "asked_for",
            lambda store: (store.asked_for(), store.backfills(), store.look_every),
            self._timers.post,
            self._answered,
        )

    def _answered(self, answer: _Answer | BaseException, _asked_at: float) -> None:
        try:
            self._found(answer)
        except Exception:
            self._look_all_the_same()
            raise

    def _found(self, answer: _Answer | BaseException) -> None:
        self._asked = False
        if self._again:
            self._again = False
            self._look_in(_AT_ONCE)
        # Instances that were started together do not ask together.
        soon = TRY_AGAIN * (0.75 + self._clock.random.random() / 4)
        if isinstance(answer, BaseException):
            if not self._failing:
                self._bus.error("asked_for", answer)
            self._failing = True
            self._look_in(soon)
            return
        self._failing = False
        states, backfills, every = answer
        waited, self._waiting = self._waiting, set()
        self._known = {(state.job, state.slot) for state in states}
        for state in states:
            job = self._job_named(state.job)
            if job is None:
                continue
            self._runner.meet(job, state)
            if not state.attempt:
                self._waiting.add((job.name, state.slot))
        asked_for = self._waiting | {(each.job, each.asked_at) for each in backfills}
        self._shown = {key: since for key, since in self._shown.items() if key in asked_for}
        for key in sorted(self._waiting & waited):
            self._show(key)
        if self._backfilling.go_on(backfills, states) or self._waiting:
            self._look_in(soon)
        elif every is not None:
            self._look_in(every * soon)

    def _show(self, key: Key) -> None:
        """Let whoever asked for what has to wait see that somebody declares its job.

        That is a write, and after a while nobody waits for it.
        """
        now = self._clock.monotonic()
        job = self._job_named(key[0])
        if job is not None and now - self._shown.setdefault(key, now) < _SHOWN_FOR:
            self._store.submit("declare", declaration_of(job), lambda *_: None)
