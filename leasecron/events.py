"""What happened, as frozen values; and the thread that tells listeners of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol

from leasecron.clock import Clock, Waker
from leasecron.errors import ConfigurationError, shown
from leasecron.logger import logger
from leasecron.model import Reason, RunResult, SkipReason, Trigger, from_seconds

EventName = Literal["start", "success", "failure", "interrupted", "skip", "error"]
EVENT_NAMES: tuple[str, ...] = ("start", "success", "failure", "interrupted", "skip", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """An instance calls the handler of an attempt that it has won.

    ``lateness`` is the seconds between the slot and the start of the attempt. ``retry`` is the
    number of the retry that begins, or 0.
    """

    name: ClassVar[EventName] = "start"
    at: datetime
    job: str
    slot: datetime
    instance: str
    attempt: int
    fence: int | None
    trigger: Trigger
    lateness: float
    retry: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSucceeded:
    """The handler returned, and the store has recorded the end."""

    name: ClassVar[EventName] = "success"
    at: datetime
    job: str
    slot: datetime
    instance: str
    result: RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed:
    """The handler raised or ran past its timeout, or the run used up its attempts.

    ``exception`` is None in the last case: nobody saw how the lost attempts ended. With
    ``will_retry`` the run goes on: this instance will call the handler again, and history has no
    record of it yet.
    """

    name: ClassVar[EventName] = "failure"
    at: datetime
    job: str
    slot: datetime
    instance: str
    result: RunResult
    exception: BaseException | None
    will_retry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterrupted:
    """The attempt was told to end before it was done; another one may follow elsewhere."""

    name: ClassVar[EventName] = "interrupted"
    at: datetime
    job: str
    slot: datetime
    instance: str
    result: RunResult
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSkipped:
    """This instance does not run the slot; ``holder`` is the one that does, where it is known.

    A slot that is skipped as ``overlap`` may be run later where the job's option says so.
    """

    name: ClassVar[EventName] = "skip"
    at: datetime
    job: str
    slot: datetime
    instance: str
    reason: SkipReason
    holder: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFailed:
    """A call of the store, a schedule, or the start of a worker failed.

    ``job`` and ``slot`` are None where the call served many.
    """

    name: ClassVar[EventName] = "error"
    at: datetime
    job: str | None
    slot: datetime | None
    instance: str
    operation: str
    exception: BaseException | None


Event = RunStarted | RunSucceeded | RunFailed | RunInterrupted | RunSkipped | StoreFailed
Listener = Callable[[Any], object]


def check_event(event: object) -> None:
    """Raise :class:`ConfigurationError` for what is neither the name of an event nor ``*``."""
    if not isinstance(event, str) or (event != "*" and event not in EVENT_NAMES):
        raise ConfigurationError(
            f"unknown event {shown(event)}; right are {', '.join(EVENT_NAMES)} and '*'"
        )


class Log(Protocol):
    """Hears every event that it wants, before the users' listeners."""

    def wants(self, name: EventName) -> bool:
        """Say whether events of this name make a line."""

    def __call__(self, event: Any) -> None:
        """Write the line."""


class EventBus:
    """Calls listeners in one thread of its own, in order, each guarded.

    ``emit`` only hands over, so a slow listener delays other listeners and nothing else.
    """

    def __init__(self, clock: Clock, instance: Callable[[], str], log: Log) -> None:
        self._clock = clock
        self._instance = instance
        self._log = log
        self._listeners: tuple[tuple[str, Listener], ...] = ()
        self._waker: Waker = clock.waker()
        self._thread: threading.Thread | None = None

    @property
    def instance(self) -> str:
        """The name of this process in events and claims; a forked one has its own."""
        return self._instance()

    def on(self, event: str, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` for every ``event`` (or ``*``); the answer ends that."""
        check_event(event)
        if not callable(listener):
            raise ConfigurationError(
                f"the listener for {shown(event)} is not callable: {shown(listener)}"
            )
        entry = (event, listener)
        self._listeners = (*self._listeners, entry)

        def off() -> None:
            self._listeners = tuple(item for item in self._listeners if item is not entry)

        return off

    def wants(self, name: EventName) -> bool:
        """Say whether anybody hears of such an event: else it need not be made."""
        return self._log.wants(name) or any(on in ("*", name) for on, _ in self._listeners)

    def emit(self, event: Event) -> None:
        """Hand ``event`` to the events thread."""
        self._waker.put(event)

    def skip(self, job: str, slot: datetime, reason: SkipReason, holder: str | None = None) -> None:
        """Emit that this instance does not run the slot."""
        self.emit(
            RunSkipped(
                at=self.now(),
                job=job,
                slot=slot,
                instance=self.instance,
                reason=reason,
                holder=holder,
            )
        )

    def error(
        self,
        operation: str,
        exception: BaseException,
        job: str | None = None,
        slot: datetime | None = None,
    ) -> None:
        """Emit that a call failed."""
        self.emit(
            StoreFailed(
                at=self.now(),
                job=job,
                slot=slot,
                instance=self.instance,
                operation=operation,
                exception=exception,
            )
        )

    def now(self) -> datetime:
        """Return the wall clock as an instant."""
        return from_seconds(self._clock.wall())

    def start(self) -> Callable[[Callable[[], None]], None]:
        """Start the thread; what is emitted from now on is told in it.

        The answer ends this very thread, and no later one, after what it was to tell so far; then
        it calls the function that it was given.
        """
        self._waker = waker = self._clock.waker()
        self._thread = self._clock.start_thread(lambda: self._run(waker), "leasecron-events")
        return waker.put

    def forget_parent(self) -> None:
        """In a forked child: there is no thread."""
        self._waker = self._clock.waker()
        self._thread = None

    def in_thread(self) -> bool:
        """Say whether the caller is a listener."""
        return threading.current_thread() is self._thread

    def _run(self, waker: Waker) -> None:
        pid = os.getpid()
        while True:
            item = waker.get()
            if not isinstance(item, Event):
                item()
                return
            self._tell(item)
            if os.getpid() != pid:  # a listener forked, and this is the child's copy of the thread
                return

    def _tell(self, event: Event) -> None:
        if self._log.wants(event.name):
            self._guarded(self._log, event)
        for name, listener in self._listeners:
            if name in ("*", event.name):
                self._guarded(listener, event)

    @staticmethod
    def _guarded(listener: Listener, event: Event) -> None:
        try:
            listener(event)
        except BaseException:
            logger.exception("a listener failed event=%s listener=%r", event.name, listener)
