"""The timers thread: deadlines by two clocks, and the one place where anything is decided.

All state of the scheduler, its runs and its watches belongs to this thread; every other thread only
hands over by :meth:`JobTimers.post`. It never calls the store and never a handler, so neither a
locked store nor a hung handler delays a slot or a heartbeat.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from leasecron.clock import MAX_WAIT, WAKING_LATER, Clock
from leasecron.deadlines import Deadlines, Timer
from leasecron.jobs import DeclaredJob
from leasecron.logger import logger
from leasecron.model import from_seconds
from leasecron.schedules import ask_next

JUMP = 0.1
"""Wall and monotonic clock drifting apart by more seconds than this between two reads is a jump."""

ASK_AGAIN = 60.0
"""A schedule that failed is asked again after this many seconds."""

_AT_ONCE = 256  # deadlines, or what others handed over, served before the other is looked at
_SERVE_FOR = 0.05  # seconds for what was handed over: each may start a thread, which can take long
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ArmedSlot(Timer):
    """The timer of the slot that a job waits for; it knows the one after it, where there is one.

    One object of both, since every job has it.
    """

    __slots__ = ("following", "slot")

    def __init__(
        self,
        fire: Callable[[DeclaredJob, datetime], None],
        job: DeclaredJob,
        slot: datetime,
        following: datetime | None,
    ) -> None:
        super().__init__(fire, (job, slot))
        self.slot = slot
        self.following = following


class JobTimers:
    """Arms the next slot of every job by the wall clock; other deadlines are monotonic."""

    def __init__(
        self,
        clock: Clock,
        fire: Callable[[DeclaredJob, datetime], None],
        on_schedule_error: Callable[[DeclaredJob, Exception], None],
        on_jump: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._fire = fire
        self._on_schedule_error = on_schedule_error
        self._on_jump = on_jump
        self._waker = clock.waker()
        self._received: deque[Any] = deque()
        self._slots = Deadlines()
        self._delays = Deadlines()
        self._armed: dict[DeclaredJob, ArmedSlot] = {}
        # Jobs that wait for no slot: theirs have come to an end, or are asked for again by a timer.
        self._unarmed: dict[DeclaredJob, Timer | None] = {}
        wall, self._read_at = self._read_clocks()
        self._offset = wall - self._read_at
        self._arming = True
        self._ended = False
        self._thread: threading.Thread | None = None

    # Any thread

    def start(self) -> None:
        """Start the thread."""
        self._thread = self._clock.start_thread(self._run, "leasecron-timers")

    def in_thread(self) -> bool:
        """Say whether the caller runs in the timers thread, as a user's schedule does."""
        return threading.current_thread() is self._thread

    @property
    def started(self) -> bool:
        """Say whether the thread has been started."""
        return self._thread is not None

    def post(self, function: Callable[..., object], *args: Any) -> None:
        """Have ``function`` called in the timers thread."""
        self._waker.put((function, args))

    def next_slot(self, job: DeclaredJob) -> datetime | None:
        """Return the slot that ``job`` is armed for."""
        armed = self._armed.get(job)
        return None if armed is None or job in self._unarmed else armed.slot

    # The timers thread

    def arm(self, job: DeclaredJob, now: datetime | None = None) -> None:
        """Step 1: wait for the first slot after both ``now`` and the slot that was armed before."""
        if not self._arming:
            return
        self._ask_no_more(job)
        now = now or self.now()
        armed = self._armed.get(job)
        try:
            if armed is None:
                slot = ask_next(job.schedule, now)
            elif armed.following is not None and armed.following > now:
                slot = armed.following
            else:
                slot = ask_next(job.schedule, max(now, armed.slot))
            following = slot and ask_next(job.schedule, slot)
        except Exception as error:  # noqa: BLE001 - a user's schedule may raise anything
            self._on_schedule_error(job, error)
            self._unarmed[job] = self.after(ASK_AGAIN, self.arm, job)
            return
        if slot is None:
            self.disarm(job)
            self._unarmed[job] = None
            return
        self._arm_at(job, slot, following)

    def arm_same(self, job: DeclaredJob, slot: datetime) -> None:
        """Wait for ``slot`` itself: the clock says that it has not come yet."""
        armed = self._armed.get(job)
        self._arm_at(job, slot, armed.following if armed else None)

    def disarm(self, job: DeclaredJob) -> None:
        """Stop waiting for the job's slots."""
        self._ask_no_more(job)
        armed = self._armed.pop(job, None)
        if armed is not None:
            self._slots.cancel(armed)

    def stop_arming(self) -> None:
        """Wait for no slot any more, whoever asks for it."""
        self._arming = False
        for job in [*self._armed, *self._unarmed]:
            self.disarm(job)

    def resume_arming(self) -> None:
        """Let jobs be armed again."""
        self._arming = True

    def after(self, delay: float, function: Callable[..., object], *args: Any) -> Timer:
        """Call ``function`` in this thread in ``delay`` seconds of the monotonic clock."""
        return self._delays.add(self._clock.monotonic() + delay, Timer(function, args))

    def at(self, due: float, function: Callable[..., object], *args: Any) -> Timer:
        """Call ``function`` in this thread at a monotonic time."""
        return self._delays.add(due, Timer(function, args))

    def cancel(self, timer: Timer) -> None:
        """Forget a timer of ``after`` or ``at`` that has not run."""
        self._delays.cancel(timer)

    def end(self) -> None:
        """Let the thread end after what it does now."""
        self._ended = True

    def now(self) -> datetime:
        """Return the wall clock as an instant."""
        return from_seconds(self._clock.wall())

    def _arm_at(self, job: DeclaredJob, slot: datetime, following: datetime | None) -> None:
        before = self._armed.get(job)
        if before is not None:
            self._slots.cancel(before)
        gap = (following - slot).total_seconds() if following is not None else None
        jitter = self._clock.random.random() * job.options.jitter_for(gap)
        due = (slot - _EPOCH) / timedelta(seconds=1) + jitter
        armed = self._armed[job] = ArmedSlot(self._fire, job, slot, following)
        self._slots.add(due, armed)

    def _ask_no_more(self, job: DeclaredJob) -> None:
        again = self._unarmed.pop(job, None)
        if again is not None:
            self.cancel(again)

    def _run(self) -> None:
        while not self._ended:
            try:
                self._turn()
            except Exception:
                # A defect in one callback must not end the thread that all jobs depend on.
                logger.exception("the timers thread met an error that it does not know")
        # Whoever handed something over while the thread ended is waiting for an answer.
        for function, args in [*self._received, *self._waker.drain()]:
            self._guarded(function, args)

    def _turn(self) -> None:
        self._receive()
        with WAKING_LATER:
            self._serve()

    def _serve(self) -> None:
        # Not all of it: a handler must not have to wait behind a thousand answers to be told that
        # its lease is over.
        until = self._clock.monotonic() + _SERVE_FOR
        for _ in range(min(_AT_ONCE, len(self._received))):
            function, args = self._received.popleft()
            self._guarded(function, args)
            if self._clock.monotonic() >= until:
                break
        wall, monotonic = self._read_clocks()
        self._notice_jump(wall, monotonic)
        due = self._delays.pop(monotonic, _AT_ONCE)
        due += self._slots.pop(wall, _AT_ONCE)
        for timer in due:
            if not timer.cancelled:
                self._guarded(timer.function, timer.args)

    def _guarded(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            function(*args)
        except BaseException:  # SystemExit too: this thread is everybody's
            logger.exception("a step of the scheduler failed: %r", function)

    def _receive(self) -> None:
        wait = min(
            0.0 if self._received else MAX_WAIT,
            _left(self._delays.next_due(), self._clock.monotonic()),
            _left(self._slots.next_due(), self._clock.wall()),
        )
        if wait > 0:
            try:
                self._received.append(self._waker.get(wait))
            except queue.Empty:
                return
        self._received += self._waker.drain()

    def _read_clocks(self) -> tuple[float, float]:
        """Read both clocks as of one moment: a pause between the reads is no jump."""
        while True:
            before = self._clock.monotonic()
            wall = self._clock.wall()
            after = self._clock.monotonic()
            if after - before < JUMP / 2:
                return wall, after

    def _notice_jump(self, wall: float, monotonic: float) -> None:
        offset = wall - monotonic
        moved, self._offset = offset - self._offset, offset
        passed, self._read_at = monotonic - self._read_at, monotonic
        if abs(moved) <= JUMP:
            return
        logger.warning("the wall clock jumped by %+.1f s", moved)
        if moved < 0:
            self._arm_afresh(from_seconds(wall), from_seconds(wall - passed))
        self._on_jump()

    def _arm_afresh(self, now: datetime, since: datetime) -> None:
        """Arm every job from ``since``: nobody looked at the clock between that and ``now``."""
        # One that is due and not fired yet stays armed.
        later = [job for job, armed in self._armed.items() if armed.slot > now]
        for job in [*later, *self._unarmed]:
            self.disarm(job)
            self.arm(job, since)


def _left(due: float | None, now: float) -> float:
    return MAX_WAIT if due is None else max(0.0, due - now)
