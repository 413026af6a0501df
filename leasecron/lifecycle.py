"""Starting, stopping, forking and ending: which engine is alive in this process.

Public calls only hand over to the engine's threads and wait on an object made for that one call, so
all of this works in a signal handler that interrupted any line of it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from leasecron import forks
from leasecron.backends.base import Backend
from leasecron.clock import Clock, Waker
from leasecron.engine import Engine
from leasecron.errors import BackendUnavailable, SchedulerStateError
from leasecron.events import EventBus
from leasecron.jobs import DeclaredJob
from leasecron.logger import logger
from leasecron.store import StoreQueue

_ASK_WAIT = 5.0
_DRAIN_WAIT = 5.0


class Lifecycle:
    """Owns the engine of one scheduler, and stands for it in a fork and at exit."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        bus: EventBus,
        jobs: dict[str, DeclaredJob],
        new_engine: Callable[[], Engine],
        restart_after_fork: Callable[[], None] | None,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._bus = bus
        self._jobs = jobs
        self._new_engine = new_engine
        self._restart_after_fork = restart_after_fork
        self._engine: Engine | None = None
        self._queues: set[StoreQueue] = set()
        self._kept_open: list[StoreQueue] = []
        self._starting = threading.Lock()

    # What the rest of the scheduler asks

    @property
    def engine(self) -> Engine | None:
        """The engine that is alive in this process."""
        engine = self._engine
        if engine is None or engine.closed or engine.pid != os.getpid():
            return None
        return engine

    @property
    def running(self) -> bool:
        """Whether this process claims runs."""
        engine = self.engine
        return engine is not None and engine.started and not engine.stop_asked

    def add(self, job: DeclaredJob) -> None:
        """Recover and arm a job, if the engine is alive."""
        engine = self.engine
        if engine is not None:
            engine.add(job)

    def remove(self, job: DeclaredJob) -> None:
        """Forget a job, if the engine is alive."""
        engine = self.engine
        if engine is not None:
            engine.remove(job)

    def next_slot(self, job: DeclaredJob) -> datetime | None:
        """Return the slot that the job is armed for."""
        engine = self.engine
        return engine.timers.next_slot(job) if engine is not None else None

    def ask(self, operation: str, function: Callable[[Any], Any]) -> Any:
        """Call ``function`` with the backend in a store thread, one of its own when not running."""
        self._refuse_inherited()
        engine = self.engine
        if engine is not None and engine.started:
            with contextlib.suppress(SchedulerStateError):  # it was stopped in this moment
                return engine.store.ask(operation, function, _ASK_WAIT)
        if self._kept_open:
            with contextlib.suppress(SchedulerStateError, IndexError):  # closed in this moment
                return self._kept_open[-1].ask(operation, function, _ASK_WAIT)
        with self._opened() as store:
            return store.ask(operation, function, _ASK_WAIT)

    @contextlib.contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep the store open for several calls of :meth:`ask`, also when not running.

        One that cannot be opened now is opened by each call.
        """
        with contextlib.ExitStack() as stack:
            if not self.running:
                with contextlib.suppress(BackendUnavailable):
                    store = stack.enter_context(self._opened())
                    self._kept_open.append(store)
                    stack.callback(self._kept_open.remove, store)
            yield

    @contextlib.contextmanager
    def _opened(self) -> Iterator[StoreQueue]:
        self._refuse_inherited()
        store = StoreQueue(self._backend, self._clock, lambda *_: None)
        self._note_queue(store)
        try:
            store.open()
            yield store
        finally:
            self._close_queue(store)

    # Starting and stopping

    def start(self) -> None:
        """Start an engine, unless one runs."""
        forks.refuse_greenlets()
        self._refuse_inherited()
        mine = False
        try:
            # A second start(), from another thread or from a signal handler, is harmless.
            mine = self._starting.acquire(blocking=False)
            if not mine:
                return
            engine = self.engine
            if engine is not None and (not engine.stop_asked or self._resumed(engine)):
                return
            # In place before it is started, so that a stop() that interrupts us finds it.
            self._engine = engine = self._new_engine()
            self._note_queue(engine.store)
            engine.start([*self._jobs.values()])
        except BaseException:
            if mine and self._engine is not None:
                self._engine.abandon()
                self._engine = None
            self._forget_ended_queues()
            raise
        finally:
            if mine:
                self._starting.release()
        logger.info(
            "the scheduler started instance=%s store=%s",
            self._bus.instance,
            self._backend.description,
        )
        for warning in self._backend.warnings:
            logger.warning("%s", warning)

    def stop(self, waker: Waker, timeout: float | None) -> bool:
        """Stop the engine; True when every handler had ended and every end was stored.

        Anything that others put into ``waker`` ends the waiting.
        """
        engine = self.engine
        if engine is None:
            self._forget_ended_queues()  # of a start() that failed, and of what was only asked
            return True
        started = engine.started
        engine.stop(waker)
        vain = not started or engine.called_from_inside() or forks.in_fork()
        if not engine.closed and vain:
            return False
        return self._wait_until_closed(engine, waker, timeout)

    def wait_for_stop(self, waker: Waker) -> None:
        """Wait until somebody has stopped the engine, or has put anything into ``waker``."""
        told = "resumed"
        while told == "resumed":  # a stop that was taken back
            engine = self._engine
            if engine is not None:
                engine.tell_of_stop(waker)
                if engine.closed:  # asked after the hand-over, which may have come too late
                    return
            told = waker.get()

    def _wait_until_closed(self, engine: Engine, waker: Waker, timeout: float | None) -> bool:
        give_up = None if timeout is None else self._clock.monotonic() + timeout
        with contextlib.suppress(queue.Empty):
            if not engine.closed and waker.get(timeout) == "closed":
                # What was emitted is also told. A listener may hang; then only it is still at work.
                left = _DRAIN_WAIT if give_up is None else give_up - self._clock.monotonic()
                waker.get(min(_DRAIN_WAIT, max(0.0, left)))
        if engine.closed:
            self._forget_ended_queues()
        engine.given_up = not engine.closed
        return engine.closed

    def _resumed(self, engine: Engine) -> bool:
        """Take over threads that still wait for the last end of an earlier stop."""
        resumed = self._clock.waker()
        engine.resume(self._jobs.values(), resumed)
        while not engine.closed:
            try:
                return bool(resumed.get(0.1) == "resumed")
            except queue.Empty:
                continue
        return False

    def _refuse_inherited(self) -> None:
        engine = self._engine
        if engine is not None and engine.pid != os.getpid() and not engine.closed:
            raise SchedulerStateError(
                "this process was forked, without Python's fork hooks, from one whose scheduler was"
                " running, and cannot use its store; start the scheduler after the fork (uWSGI:"
                " lazy-apps = true, or py-call-uwsgi-fork-hooks = true)"
            )

    def _note_queue(self, store: StoreQueue) -> None:
        self._queues.add(store)
        forks.register(self)

    def _close_queue(self, store: StoreQueue) -> None:
        if not store.ended:
            closed = self._clock.waker()
            store.close(lambda: closed.put(None))
            try:
                if not store.ended:  # asked after the hand-over, which may have come too late
                    closed.get(_ASK_WAIT)
            except queue.Empty:
                return
        self._forget_ended_queues()

    def _forget_ended_queues(self) -> None:
        for store in [*self._queues]:
            if store.ended:
                self._queues.discard(store)
        if not self._queues:
            forks.unregister(self)

    # A member of forks

    def before_fork(self, resumes: list[Callable[[], None]]) -> None:
        """Bring all store threads to rest; ``resumes`` let them go on in the parent."""
        for store in [*self._queues]:
            store.rest(resumes)

    def forget_parent(self) -> Callable[[], None]:
        """In a forked child: nothing runs here, and nothing of the parent's is touched."""
        engine = self._engine
        ran = engine is not None and engine.started and not (engine.stop_asked or engine.closed)
        self.forget_threads()
        self._backend.forget()
        self._bus.forget_parent()
        return self._after_fork if ran else _nothing

    def forget_threads(self) -> None:
        """Take all threads for gone, as they are in a forked child and after a simulated crash."""
        self._engine = None
        self._queues = set()
        self._kept_open = []
        self._starting = threading.Lock()

    def stop_firing(self) -> None:
        """Begin no new run."""
        engine = self.engine
        if engine is not None:
            engine.stop_firing()

    def stop_at_exit(self) -> Callable[[float], None]:
        """Begin to stop because the interpreter ends; the answer waits for it."""
        engine = self.engine
        # A stop that was waited for in vain has had its time: docker and its kin do not wait twice.
        if engine is None or not engine.started or engine.given_up:
            return _do_not_wait
        waker = self._clock.waker()
        engine.stop(waker)

        def wait(timeout: float) -> None:
            self._wait_until_closed(engine, waker, timeout)

        return wait

    def _after_fork(self) -> None:
        if self._restart_after_fork is None:
            logger.info(
                "the scheduler does not run in this forked process; call start() here if it shall"
                " (gunicorn --preload: in post_fork)"
            )
            return
        try:
            self._restart_after_fork()
        except Exception:
            logger.exception("the scheduler could not be restarted after a fork")


def _do_not_wait(_timeout: float) -> None:
    """Nothing is alive that could be waited for."""


def _nothing() -> None:
    """A child of a process whose scheduler did not run has nothing to do."""
