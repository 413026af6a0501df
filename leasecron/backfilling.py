"""Going on with backfills: which slot is next, said to the store by whoever knows the schedule.

Every instance that declares the job says so; the store lets one of them be the first. Everything
here runs in the timers thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from leasecron.clock import Clock
from leasecron.events import EventBus
from leasecron.jobs import DeclaredJob
from leasecron.model import Advance, BackfillState, LeaseState
from leasecron.schedules import Schedule, ask_next
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers

_MILLISECOND = timedelta(milliseconds=1)
_AT_ONCE = 1000  # slots that have succeeded, passed by in one step
_PAUSED = 5.0  # seconds after which a step is tried again whose job was paused

_Id = tuple[str, datetime]


def next_missing(
    schedule: Schedule,
    after: datetime,
    end: datetime,
    succeeded: AbstractSet[datetime],
    most: int | None = None,
) -> tuple[datetime | None, datetime]:
    """Return the first slot after ``after`` and before ``end`` that has not succeeded, or None.

    The second answer is how far the look has come: it ends before its time at ``most`` slots.
    """
    seen = after
    looked = 0
    while most is None or looked < most:
        slot = ask_next(schedule, seen)
        if slot is None or slot >= end:
            return None, end
        if slot not in succeeded:
            return slot, slot
        seen, looked = slot, looked + 1
    return None, seen


class Backfilling:
    """Takes the steps of backfills.

    ``look_soon`` has the store asked again how they stand, ``show`` tells it that somebody here
    declares the job of a backfill.
    """

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        store: StoreQueue,
        bus: EventBus,
        job_named: Callable[[str], DeclaredJob | None],
        look_soon: Callable[[], None],
        show: Callable[[_Id], None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._bus = bus
        self._job_named = job_named
        self._look_soon = look_soon
        self._show = show
        self._succeeded: dict[_Id, frozenset[datetime]] = {}
        self._asked: set[_Id] = set()
        self._failing: set[_Id] = set()  # and have told so
        self._not_before: dict[_Id, float] = {}  # the next step, since the job is paused

    def go_on(self, backfills: Iterable[BackfillState], unfinished: Iterable[LeaseState]) -> bool:
        """Take the next step of each backfill of a job that is declared here.

        ``unfinished`` are the runs that were asked for: while one of a backfill is among them, its
        next step has time. Returns whether any backfill goes on.
        """
        busy = {state.job for state in unfinished if state.origin == "backfill"}
        here = [each for each in backfills if self._job_named(each.job) is not None]
        for state in here:
            if state.job in busy:
                self._has_to_wait(state)
            elif _id(state) not in self._asked and self._is_time(state):
                self._step(state, self._begin)
        self._forget_all_but({_id(state) for state in here})
        return bool(here)

    def _is_time(self, state: BackfillState) -> bool:
        return self._clock.monotonic() >= self._not_before.get(_id(state), 0.0)

    def _forget_all_but(self, known: set[_Id]) -> None:
        self._succeeded = {key: slots for key, slots in self._succeeded.items() if key in known}
        self._not_before = {key: at for key, at in self._not_before.items() if key in known}
        self._failing &= known

    def _step(self, state: BackfillState, function: Callable[..., None], *facts: object) -> None:
        """Call ``function``; should that fail, the next look begins anew, and not none ever."""
        try:
            function(state, *facts)
        except Exception:
            self._asked.discard(_id(state))
            raise

    def _begin(self, state: BackfillState) -> None:
        self._asked.add(_id(state))
        if _id(state) in self._succeeded:
            self._advance(state, state.cursor or state.start - _MILLISECOND)
            return
        self._store.submit_other(
            "succeeded",
            lambda backend: backend.succeeded(state.job, state.start, state.end),
            self._timers.post,
            self._step,
            state,
            self._known,
        )

    def _known(
        self, state: BackfillState, answer: list[datetime] | BaseException, _asked_at: float
    ) -> None:
        if isinstance(answer, BaseException):
            self._failed("succeeded", state, answer)
            return
        self._succeeded[_id(state)] = frozenset(answer)
        self._begin(state)

    def _advance(self, state: BackfillState, after: datetime) -> None:
        job, succeeded = self._job_named(state.job), self._succeeded.get(_id(state))
        if job is None or succeeded is None:
            self._asked.discard(_id(state))
            return
        try:
            slot, seen = next_missing(job.schedule, after, state.end, succeeded, _AT_ONCE)
        except Exception as error:  # noqa: BLE001 - a user's schedule may raise anything
            self._failed("schedule", state, error)
            return
        if slot is None and seen < state.end:  # others wait for this thread as well
            self._timers.post(self._step, state, self._advance, seen)
            return
        asked = Advance(state.job, state.asked_at, state.cursor, slot)
        self._store.submit_other(
            "advance",
            lambda backend: backend.advance(asked),
            self._timers.post,
            self._step,
            state,
            self._advanced,
        )

    def _advanced(self, state: BackfillState, answer: object, _asked_at: float) -> None:
        if isinstance(answer, BaseException):
            self._failed("advance", state, answer)
            return
        self._asked.discard(_id(state))
        self._failing.discard(_id(state))
        if answer in ("waiting", "skipped"):
            self._look_soon()
            return
        if answer == "paused":  # each step is a write, and a pause may last for days
            self._not_before[_id(state)] = self._clock.monotonic() + _PAUSED
        self._has_to_wait(state)

    def _has_to_wait(self, state: BackfillState) -> None:
        if state.cursor is None:  # whoever asked for it waits for a sign
            self._show(_id(state))

    def _failed(self, operation: str, state: BackfillState, error: BaseException) -> None:
        """Have the next look begin anew; only the first of many failures is told."""
        self._asked.discard(_id(state))
        if _id(state) not in self._failing:
            self._failing.add(_id(state))
            self._bus.error(operation, error, state.job)


def _id(state: BackfillState) -> _Id:
    return state.job, state.asked_at
