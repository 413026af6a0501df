"""The public face: a scheduler that is declared, started and stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from datetime import datetime, tzinfo
from types import FrameType, TracebackType
from typing import Any, Literal, Self, cast, overload

from leasecron import forks
from leasecron.backends.base import Backend
from leasecron.backends.urls import backend_for
from leasecron.clock import Clock, SystemClock
from leasecron.control import Controls
from leasecron.declarations import H
from leasecron.engine import Engine
from leasecron.errors import ConfigurationError, SchedulerStateError, shown
from leasecron.events import (
    EventBus,
    RunFailed,
    RunInterrupted,
    RunSkipped,
    RunStarted,
    RunSucceeded,
    StoreFailed,
    check_event,
)
from leasecron.jobs import MOST_OF_NAME, DeclaredJob, check_name
from leasecron.lifecycle import Lifecycle
from leasecron.logger import logger
from leasecron.logs import EventLog
from leasecron.model import RunResult, from_seconds
from leasecron.options import JobOptions

Off = Callable[[], None]

_CLOCK_METHODS = ("wall", "monotonic", "boot_id", "waker", "start_thread")
_PAGE = 1000  # records that one call of the store returns at most: none of them is long
_DEFAULTS = JobOptions()


class Scheduler(Controls):
    """Runs jobs at their slots, each slot in exactly one of all instances that share ``store``.

    An instance is a process that calls ``start()``. A crashed instance's run is attempted again by
    another one, within ``lease + 2 x heartbeat``. Side effects of a crashed attempt are not undone:
    guard what must not happen twice with ``ctx.fence``.

    - ``store``: a URL, a path, or a backend object.
    - ``instance``: the name of this process in history and events; made up when not given.
    - ``defaults``: options that every job has unless it is given its own.
    - ``tz``: the time zone of ``cron`` jobs that name none.
    - ``max_running``: how many runs this instance takes on at once.
    - ``after_fork``: ``"stop"``, or ``"restart"`` to start in a forked child too.

    Raises :class:`ConfigurationError` for a wrong argument.
    """

    def __init__(
        self,
        store: object,
        *,
        instance: str | None = None,
        defaults: JobOptions = _DEFAULTS,
        tz: str | tzinfo = "UTC",
        max_running: int = 200,
        clock: Clock | None = None,
        after_fork: Literal["stop", "restart"] = "stop",
    ) -> None:
        _check_arguments(instance, defaults, max_running, clock, after_fork)
        backend = backend_for(store)
        clock = SystemClock() if clock is None else clock
        bus = EventBus(clock, _namer(instance), EventLog(clock))
        jobs: dict[str, DeclaredJob] = {}
        lifecycle = Lifecycle(
            backend,
            clock,
            bus,
            jobs,
            new_engine=lambda: Engine(backend, clock, bus, max_running, self.fire),
            restart_after_fork=self.start if after_fork == "restart" else None,
        )
        super().__init__(clock, defaults, tz, jobs, lifecycle, backend)
        self._bus = bus
        self._left_to_workers = False

    # Listening

    @overload
    def on(self, event: Literal["start"], listener: Callable[[RunStarted], object]) -> Off: ...
    @overload
    def on(self, event: Literal["success"], listener: Callable[[RunSucceeded], object]) -> Off: ...
    @overload
    def on(self, event: Literal["failure"], listener: Callable[[RunFailed], object]) -> Off: ...
    @overload
    def on(
        self, event: Literal["interrupted"], listener: Callable[[RunInterrupted], object]
    ) -> Off: ...
    @overload
    def on(self, event: Literal["skip"], listener: Callable[[RunSkipped], object]) -> Off: ...
    @overload
    def on(self, event: Literal["error"], listener: Callable[[StoreFailed], object]) -> Off: ...
    @overload
    def on(self, event: Literal["*"], listener: Callable[[Any], object]) -> Off: ...
    @overload
    def on(self, event: str, listener: None = None) -> Callable[[H], H]: ...

    def on(self, event: str, listener: Callable[[Any], object] | None = None) -> Any:
        """Call ``listener`` for every event of one name, or of all with ``*``.

        Returns a function that ends that, or a decorator where no listener is given. Listeners are
        called in a thread of their own, in order; one that raises is logged and disturbs nothing.
        """
        check_event(event)
        if listener is not None:
            return self._bus.on(event, listener)

        def decorate(function: H) -> H:
            self._bus.on(event, function)
            return function

        return decorate

    # Starting and stopping

    @property
    def clock(self) -> Clock:
        """The clock that everything here reads and waits by."""
        return self._clock

    @property
    def instance(self) -> str:
        """The name of this process in history and events."""
        return self._bus.instance

    @property
    def running(self) -> bool:
        """Whether this process claims runs: started here, and not told to stop."""
        return self._lifecycle.running

    def start(self) -> None:
        """Open the store, start the threads and return; harmless when running.

        Under uWSGI's master it starts nothing, and has the scheduler started in each worker. With
        ``LEASECRON_OFF=1`` in the environment it only logs that. Raises :class:`BackendError` for a
        store that cannot be used, RuntimeError where no thread can be had, and
        :class:`SchedulerStateError` in a process that was forked from a running one without
        Python's hooks, and where gevent or eventlet makes threads greenlets.
        """
        if os.environ.get("LEASECRON_OFF") == "1":
            logger.info("the scheduler is not started: LEASECRON_OFF=1")
        elif self._left_to_workers:
            return
        elif forks.leave_to_uwsgi_workers(self._start_in_worker):
            self._left_to_workers = True
            logger.info("the scheduler will be started in each uWSGI worker")
        else:
            self._lifecycle.start()

    def run(self, *, timeout: float | None = 30.0) -> bool:
        """Start, wait for SIGTERM or SIGINT, stop; return what :meth:`stop` returned.

        It also returns once the scheduler was stopped by somebody else, such as a handler of the
        last job that there was to do. A second signal ends the waiting for handlers. The signal
        handlers that were there before are put back. Raises :class:`SchedulerStateError` outside
        the main thread.
        """
        _check_timeout(timeout)
        if threading.current_thread() is not threading.main_thread():
            raise SchedulerStateError("run() handles signals, so it works in the main thread only")
        waker = self._clock.waker()

        def told(_signal: int, _frame: FrameType | None) -> None:
            waker.put("signal")

        before = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.start()
            self._lifecycle.wait_for_stop(waker)
            return self._lifecycle.stop(waker, timeout)
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def stop(self, timeout: float | None = 30.0) -> bool:
        """Claim nothing more, tell every handler to end, and wait for them.

        Returns True when every handler had ended and every end was stored. A handler that goes on
        after ``timeout`` seconds keeps its lease for as long as the process lives; None waits for
        ever. From a handler or a listener, and while a ``start()`` is under way, it asks and
        returns False at once; a ``start()`` ends its waiting. Harmless when stopped.
        """
        _check_timeout(timeout)
        self._left_to_workers = False
        return self._lifecycle.stop(self._clock.waker(), timeout)

    def history(self, job: str | None = None, *, limit: int = 100) -> list[RunResult]:
        """Return what the store knows of past runs, of ``job`` or of all jobs, newest first.

        Also when not running. Raises :class:`BackendError`.
        """
        _check_history(job, limit)
        if self._lifecycle.engine is None and getattr(self._backend, "is_missing", False):
            return []  # a look makes nothing: root's would be closed to the user of the store
        found: list[RunResult] = []
        while len(found) < limit:
            page = self._page(job, min(_PAGE, limit - len(found)), found[-1] if found else None)
            found += page
            if len(page) < _PAGE:
                break
        return found

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def fire(self, job: DeclaredJob, slot: datetime) -> None:
        """Step 2: the timer of ``slot`` fired. Runs in the timers thread.

        The next slot is armed first, so that a long job never delays the schedule.
        """
        engine = self._lifecycle.engine
        if engine is None:
            return
        wall = self._clock.wall()
        now = from_seconds(wall)
        if now < slot:  # a clock that was corrected: no run starts before its time
            engine.timers.arm_same(job, slot)
            return
        engine.timers.arm(job, now)
        if wall - slot.timestamp() <= job.options.max_late:
            engine.runner.run(job, slot)
            return
        engine.runner.too_late(job, slot)
        engine.recovery.catch_up_latest(job, now, after=slot)

    def _page(self, job: str | None, limit: int, before: RunResult | None) -> list[RunResult]:
        def ask(backend: Backend) -> list[RunResult]:
            if before is None:
                return backend.history(job, limit=limit)
            return backend.history(job, limit=limit, before=before)

        return cast("list[RunResult]", self._lifecycle.ask("history", ask))

    def _start_in_worker(self) -> None:
        if self._left_to_workers:
            self._left_to_workers = False
            self._lifecycle.start()


def _namer(instance: str | None) -> Callable[[], str]:
    if instance is not None:
        return lambda: instance
    # Not by the socket and secrets modules: importing them costs more than all of this package.
    host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "host")
    tail = os.urandom(2).hex()
    # Asked each time: a server may fork a scheduler that is not started yet into many instances.
    return lambda: f"{host}-{os.getpid()}-{tail}"


def _check_timeout(timeout: object) -> None:
    if timeout is None:
        return
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool):
        with contextlib.suppress(OverflowError):
            if float(timeout) >= 0:
                return
    raise ConfigurationError(f"timeout is {shown(timeout)}; right is seconds from 0, or None")


def _check_history(job: object, limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigurationError(f"history: limit is {shown(limit)}; right is an int from 1")
    if job is not None and not _is_name(job):
        raise ConfigurationError(
            f"history: job is {shown(job)}; right is the name of a job, or None"
        )


def _is_name(value: object) -> bool:
    try:
        check_name(value)
    except ConfigurationError:
        return False
    return True


def _check_arguments(
    instance: object, defaults: object, max_running: object, clock: object, after_fork: object
) -> None:
    if instance is not None and not _is_name(instance):
        raise ConfigurationError(
            f"instance is {shown(instance)}; right is text of 1 to {MOST_OF_NAME} bytes of UTF-8,"
            " without NUL, or None"
        )
    if not isinstance(defaults, JobOptions):
        raise ConfigurationError(f"defaults is {shown(defaults)}; right is JobOptions(...)")
    if isinstance(max_running, bool) or not isinstance(max_running, int) or max_running < 1:
        raise ConfigurationError(f"max_running is {shown(max_running)}; right is an int from 1")
    methods = (getattr(clock, name, None) for name in _CLOCK_METHODS)
    if clock is not None and (isinstance(clock, type) or not all(map(callable, methods))):
        raise ConfigurationError(
            f"clock is {shown(clock)}; right is a Clock, such as SystemClock()"
        )
    if not isinstance(after_fork, str) or after_fork not in ("stop", "restart"):
        raise ConfigurationError(f"after_fork is {shown(after_fork)}; right is 'stop' or 'restart'")
