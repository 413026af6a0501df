"""The store thread: the only one that calls the backend.

All others hand their calls over to it. It makes those that are queued together, so that 10,000 jobs
due at once cost a few transactions and not 10,000.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from leasecron.backends.base import Backend
from leasecron.backends.server.protocols import notifies, tells
from leasecron.calls import (
    Call,
    Close,
    DropClaims,
    Kind,
    Reply,
    Rest,
)
from leasecron.clock import Clock, SystemClock, Waker
from leasecron.errors import BackendUnavailable
from leasecron.logger import logger
from leasecron.model import RunResult
from leasecron.outages import Outages
from leasecron.passes import Passes, stopped
from leasecron.polling import PollingWaker

OPEN_WAIT = 5.0
_REST_WAIT = 10.0


class StoreQueue:
    """Hands calls to the store thread and answers back.

    ``reply`` runs in the store thread and must only hand over. ``on_error`` is told of an outage
    once per kind of call, with the items that the failed call served; ``on_told`` of runs that were
    given back or asked for, where the store tells of them.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        on_error: Callable[[str, Sequence[Any], BaseException], None],
        on_told: Callable[[str, datetime], None] | None = None,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._outages = Outages(backend, clock, on_error)
        self._on_told = on_told
        # In simulated time a thread waits for nothing else than its clock.
        is_heard = on_told is not None and isinstance(clock, SystemClock)
        self._notifying = backend if is_heard and notifies(backend) else None
        self._waker: Waker
        if self._notifying is None:
            self._waker = clock.waker()
        else:
            self._waker = PollingWaker(self._notifying.listening)
        self._passes = Passes(backend, clock, self._outages, lambda: self._receive(0.0))
        self._closing: Close | None = None
        self._abandoned = False
        self._started = False
        self._ended = False

    # Any thread

    def start(self, opened: Waker) -> None:
        """Start the thread and open the store; ``opened`` gets None, or the exception."""
        self._started = True
        try:
            self._clock.start_thread(lambda: self._run(opened), "leasecron-store")
        except BaseException:
            self._ended = True
            raise

    def open(self) -> None:
        """Start the thread and wait for the store; raise what opening raised.

        Raises :class:`BackendUnavailable` when it takes longer than five seconds, unless the store
        is being brought up to date: given up, that would begin anew at each start.
        """
        opened = self._clock.waker()
        self.start(opened)
        try:
            error = opened.get(OPEN_WAIT)
        except queue.Empty:
            if not getattr(self._backend, "migrating", False):
                self._abandoned = True  # whenever it does open, the thread closes it again and ends
                raise BackendUnavailable(
                    f"{self._backend.description} did not open within {OPEN_WAIT:g} s"
                ) from None
            logger.warning(
                "%s is of an earlier version and being brought up to date: this takes up to"
                " ten seconds for each million runs, once",
                self._backend.description,
            )
            error = opened.get()
        if error is not None:
            raise error

    def submit(
        self,
        kind: Kind,
        item: Any,
        reply: Reply,
        *context: Any,
        record: RunResult | None = None,
        give_up: float | None = None,
    ) -> None:
        """Queue one item; ``give_up`` is the monotonic time after which a fault is the answer.

        ``record`` follows an end that the store has taken, and is answered by None or an error; an
        end that was not taken is answered by False. The reply gets ``context``, then the answer and
        when the store was asked.
        """
        self._waker.put(Call(kind, item, reply, context, record, give_up))

    def submit_other(
        self, operation: str, function: Callable[[Any], Any], reply: Reply, *context: Any
    ) -> None:
        """Queue ``function``, which is called with the backend; the rest as in :meth:`submit`."""
        self._waker.put(Call("other", function, reply, context, operation=operation))

    def ask(self, operation: str, function: Callable[[Any], Any], timeout: float) -> Any:
        """Call ``function`` with the backend in the store thread and return its answer.

        Raises what it raised, and :class:`SchedulerStateError` if the thread ended before.
        """
        answered = self._clock.waker()
        give_up = self._clock.monotonic() + timeout

        def reply(answer: Any, _asked_at: float) -> None:
            answered.put(answer)

        call = Call("other", function, reply, (), None, give_up, operation, awaited=True)
        self._waker.put(call)
        if self._ended:  # asked after the hand-over: the thread looks once more at its end
            raise stopped()
        try:
            answer = answered.get(timeout + 1.0)
        except queue.Empty:
            raise BackendUnavailable(
                f"{self._backend.description} did not answer {operation} within {timeout:g} s"
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def drop_claims(self, dropped: Callable[[list[Any]], None]) -> None:
        """Take back the claims that have not been made; ``dropped`` gets them."""
        self._waker.put(DropClaims(dropped))

    @property
    def ended(self) -> bool:
        """Say whether the thread has ended, or could not be started."""
        return self._ended

    def close(self, closed: Callable[[], None]) -> None:
        """Close the store once every queued end and result is in it, and end the thread."""
        self._waker.put(Close(closed))

    def rest(self, resumes: list[Callable[[], None]]) -> None:
        """Bring the thread to rest between transactions, its connection closed, before a fork.

        What it adds to ``resumes`` lets it go on in the parent; it opens its connection at its next
        call.
        """
        rest = Rest(self._clock.waker(), self._clock.waker())
        # Before anything can raise, such as a signal handler that interrupts the wait.
        resumes.append(lambda: rest.resume.put(None))
        self._waker.put(rest)
        try:
            # Asked after the hand-over: the thread looks once more at its end.
            if self._started and not self._ended:
                rest.resting.get(_REST_WAIT)
        except queue.Empty:
            logger.warning(
                "the store did not come to rest before a fork: no use of it in the child"
            )

    # The store thread

    def _run(self, opened: Waker) -> None:
        if self._open(opened):
            self._hear_from_now_on()
            while True:
                try:
                    if self._closing is not None and self._passes.all_recorded:
                        break
                    self._receive(self._passes.wait_for())
                    if self._notifying is not None:
                        self._notifying.pass_on()
                    self._passes.make()
                except Exception:
                    # Nothing that anybody else does may end the thread that keeps leases.
                    logger.exception("the store thread met an error that it does not know")
            with contextlib.suppress(Exception):
                self._hear_no_more()
                self._backend.close()
        self._ended = True
        self._receive(0.0)
        self._passes.refuse()
        if self._closing is not None:
            self._closing.closed()

    def _open(self, opened: Waker) -> bool:
        give_up = self._clock.monotonic() + OPEN_WAIT - 1.0
        while True:
            try:
                self._backend.open(self._clock)
            except BackendUnavailable as error:
                if self._clock.monotonic() < give_up and not self._abandoned:
                    self._receive(0.1)
                    continue
                opened.put(error)
                return False
            except Exception as error:  # noqa: BLE001 - the caller of start() gets it
                opened.put(error)
                return False
            if self._abandoned:
                self._backend.close()
                return False
            opened.put(None)
            return True

    def _receive(self, timeout: float | None) -> None:
        if timeout != 0.0:
            try:
                self._take(self._waker.get(timeout))
            except queue.Empty:
                return
        for item in self._waker.drain():
            self._take(item)

    def _hear_from_now_on(self) -> None:
        if self._on_told is not None and tells(self._backend):
            self._backend.hear(self._on_told)

    def _hear_no_more(self) -> None:
        if self._on_told is not None and tells(self._backend):
            self._backend.hear_no_more(self._on_told)

    def _take(self, item: Any) -> None:
        match item:
            case Call():
                try:
                    self._passes.add(item)
                except Exception as error:  # noqa: BLE001 - whoever waits for it is told
                    item.answer(error, self._clock.monotonic())
            case DropClaims():
                item.dropped(self._passes.drop_claims())
            case Close():
                self._closing = item
            case Rest():
                try:
                    self._backend.suspend()
                except Exception:
                    logger.exception("the store could not be suspended before a fork")
                item.resting.put(None)
                item.resume.get()
