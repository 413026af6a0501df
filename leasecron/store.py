"""The store thread: the only one that calls the backend.

It takes all queued calls, groups them by kind and makes one backend call per kind, so that 10,000
jobs due at once cost a few transactions and not 10,000. Transient faults are retried here and
nowhere else.
"""

from __future__ import annotations

import contextlib
import queue
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from leasecron.backends.base import Backend, OneUnavailable
from leasecron.backends.servers import Notifying
from leasecron.calls import (
    NEVER_GIVEN_UP,
    ORDER,
    Call,
    Close,
    DropClaims,
    Kind,
    Reply,
    Rest,
    call_backend,
)
from leasecron.clock import Clock, SystemClock, Waker
from leasecron.errors import BackendUnavailable, SchedulerStateError
from leasecron.logger import logger
from leasecron.model import Claim, RunResult
from leasecron.outages import FIRST_DELAY, LONGEST_DELAY, Outages
from leasecron.polling import PollingWaker

BATCH = 1000
OPEN_WAIT = 5.0
FAILURES_IN_A_ROW = 10
_REST_WAIT = 10.0


class StoreQueue:
    """Hands calls to the store thread and answers back.

    ``reply`` runs in the store thread and must only hand over. ``on_error`` is told of an outage
    once per kind of call, with the items that the failed call served; ``on_released`` of runs that
    other instances have given back, where the store tells of them.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        on_error: Callable[[str, Sequence[Any], BaseException], None],
        on_released: Callable[[str, datetime], None] | None = None,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._outages = Outages(backend, clock, on_error)
        self._on_released = on_released
        # In simulated time a thread waits for nothing else than its clock.
        is_real = isinstance(clock, SystemClock)
        self._notifying = backend if is_real and isinstance(backend, Notifying) else None
        self._waker: Waker
        if self._notifying is None:
            self._waker = clock.waker()
        else:
            self._waker = PollingWaker(self._notifying.listening)
        self._pending: dict[Kind, deque[Call]] = {kind: deque() for kind in ORDER}
        self._delayed: list[tuple[float, Call]] = []
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

    def submit_other(self, operation: str, function: Callable[[Any], Any], reply: Reply) -> None:
        """Queue ``function``, which is called with the backend."""
        self._waker.put(Call("other", function, reply, operation=operation))

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
            raise _stopped()
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
            while True:
                try:
                    if self._finished():
                        break
                    self._receive(self._wait_for())
                    self._hear()
                    self._pass()
                except Exception:
                    # Nothing that anybody else does may end the thread that keeps leases.
                    logger.exception("the store thread met an error that it does not know")
            with contextlib.suppress(Exception):
                self._backend.close()
        self._ended = True
        self._refuse_the_rest()
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

    def _finished(self) -> bool:
        return self._closing is not None and not (
            self._delayed
            or any(self._pending[kind] for kind in ("finish", "release", "save_results"))
        )

    def _wait_for(self) -> float | None:
        now = self._clock.monotonic()
        due = [at for at, _ in self._delayed]
        if any(self._pending.values()):
            due.append(self._outages.ask_again_at)
        return max(0.0, min(due) - now) if due else None

    def _receive(self, timeout: float | None) -> None:
        if timeout != 0.0:
            try:
                self._take(self._waker.get(timeout))
            except queue.Empty:
                return
        for item in self._waker.drain():
            self._take(item)

    def _hear(self) -> None:
        """Tell of runs that others have given back, where the store tells of them."""
        if self._notifying is not None:
            for job, slot in self._notifying.released():  # read by whoever has the connection
                if self._on_released is not None:
                    self._on_released(job, slot)

    def _take(self, item: Any) -> None:
        match item:
            case Call():
                self._pending[item.kind].append(item)
            case DropClaims():
                item.dropped(self._drop_claims())
            case Close():
                self._closing = item
            case Rest():
                try:
                    self._backend.suspend()
                except Exception:
                    logger.exception("the store could not be suspended before a fork")
                item.resting.put(None)
                item.resume.get()

    def _drop_claims(self) -> list[Any]:
        """Take back the claims; the store is asked once more about those that it may have won."""
        delayed = [call for _, call in self._delayed if call.kind == "claim"]
        self._delayed = [entry for entry in self._delayed if entry[1].kind != "claim"]
        claims = [*self._pending["claim"], *delayed]
        untried = [call.item for call in claims if not call.tries]
        # In its place: a pass that answers items singly may be in the middle of it.
        pending = self._pending["claim"]
        pending.clear()
        pending.extend(call for call in claims if call.tries)
        for call in pending:
            if isinstance(call.item, Claim):  # which wins nothing that is free
                call.item = replace(call.item, mode="takeover")
            call.tries, call.give_up = 0, self._clock.monotonic()
            self._outages.ask_again_at = 0.0  # at once: somebody waits for the end
        return untried

    def _pass(self) -> None:
        now = self._clock.monotonic()
        self._requeue_delayed(now)
        if now < self._outages.ask_again_at:
            return
        self._give_up(now)
        for kind in ORDER:
            if not self._pending[kind]:
                continue
            self._receive(0.0)  # a fork waits at most for one transaction
            if self._pending["heartbeat"] and not self._serve("heartbeat", BATCH):
                return  # one that came meanwhile waits for no other call either
            if kind != "heartbeat" and not self._serve(kind, 1 if kind == "other" else BATCH):
                return

    def _requeue_delayed(self, now: float) -> None:
        for _, call in [entry for entry in self._delayed if entry[0] <= now]:
            self._pending[call.kind].append(call)
        self._delayed = [entry for entry in self._delayed if entry[0] > now]

    def _give_up(self, now: float) -> None:
        outage = self._outages.error
        if outage is None:
            return
        for pending in self._pending.values():
            # A call that has met no outage is made: the one noted here may be over by now.
            over = [c for c in pending if c.tries and c.give_up is not None and c.give_up <= now]
            if over:
                gone = {*over}
                kept = [call for call in pending if call not in gone]
                pending.clear()
                pending.extend(kept)
            for call in over:
                call.answer(outage, now)

    def _serve(self, kind: Kind, size: int) -> bool:
        """Attempt some calls; where a defect of ours cuts that short, nobody waits in vain."""
        pending = self._pending[kind]
        batch: list[Call] = []
        try:
            batch += islice(pending, size)
            for _ in batch:  # taken out only now that they are held: none is lost in between
                pending.popleft()
            return not batch or self._attempt(kind, batch)
        except Exception as error:
            now = self._clock.monotonic()
            queued = {call for kind_ in ORDER for call in self._pending[kind_]}
            queued.update(call for _, call in self._delayed)
            for call in batch:
                if call.answered or call in queued:
                    continue
                if kind in NEVER_GIVEN_UP:
                    self._delayed.append((now + FIRST_DELAY, call))
                else:
                    call.answer(error, now)
            raise

    def _attempt(self, kind: Kind, batch: list[Call]) -> bool:
        """Make one backend call; False ends the pass, since the store is not available."""
        asked_at = self._clock.monotonic()
        try:
            answers = call_backend(self._backend, kind, [call.item for call in batch])
        except Exception as error:  # noqa: BLE001 - every error has an end here
            if isinstance(error, BackendUnavailable) and not isinstance(error, OneUnavailable):
                self._unavailable(kind, batch, error)
                return False
            if len(batch) > 1:  # the error belongs to one of the items
                return self._attempt_singly(kind, batch)
            self._failed(batch[0], error, asked_at)
            return True
        self._outages.end(batch[0].name)
        for call, answer in zip(batch, answers, strict=True):
            if call.record is not None and answer is True:
                self._save(call, call.record)
            else:  # by False for whatever is not True: None is the answer to a record
                call.answer(answer if call.record is None else False, asked_at)
        return True

    def _save(self, call: Call, record: RunResult) -> None:
        """Have the record of an end written that the store has taken."""
        call.kind, call.item, call.record = "save_results", record, None
        self._pending["save_results"].append(call)

    def _attempt_singly(self, kind: Kind, batch: list[Call]) -> bool:
        pending = self._pending[kind]
        failures = 0
        for place, call in enumerate(batch):
            delayed = len(self._delayed)
            if not self._attempt(kind, [call]):
                pending.remove(call)  # it was put back alone, before those that came before it
                pending.extendleft(reversed(batch[place:]))
                return False
            failures = failures + 1 if len(self._delayed) > delayed else 0
            if failures == FAILURES_IN_A_ROW:
                # Such as a full disk: the others would hardly fare better, and cost as much.
                later = self._outages.put_off()
                self._delayed[:0] = [(later, other) for other in batch[place + 1 :]]
                break
            self._receive(0.0)  # a fork waits at most for one transaction
        return True

    def _unavailable(self, kind: Kind, batch: list[Call], error: BackendUnavailable) -> None:
        self._pending[kind].extendleft(reversed(batch))
        for pending in self._pending.values():
            for call in pending:
                call.tries += 1
        self._outages.go_on(error)
        self._outages.report(batch[0].name, [call.item for call in batch], error)

    def _failed(self, call: Call, error: Exception, asked_at: float) -> None:
        now = self._clock.monotonic()
        transient = isinstance(error, OneUnavailable) and (
            call.give_up is None or now < call.give_up
        )
        if call.kind not in NEVER_GIVEN_UP and not transient:
            call.answer(error, asked_at)
            return
        call.tries += 1
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(call.tries, 10))
        self._delayed.append((now + delay, call))
        self._outages.report(call.name, [call.item], error)

    def _refuse_the_rest(self) -> None:
        self._receive(0.0)
        for pending in self._pending.values():
            for call in pending:
                if call.awaited:
                    call.answer(_stopped(), 0.0)
            pending.clear()


def _stopped() -> SchedulerStateError:
    return SchedulerStateError("the scheduler was stopped before the store was asked")
