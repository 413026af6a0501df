"""Steps 4 to 6 of a run: calling the handler, deciding how it ended, recording the end.

Everything here but the handler's call runs in the timers thread, so exactly one of "the handler
ended", "the timeout passed" and "the scheduler stops" decides how a run ended, and no lock is
needed for it. What follows a decision is driven by the store: first the end is stored in the lease
state, then the history record is written, then the event is sent.

    running -- handler returned or raised --> decided --> end stored and recorded --> event
    running -- timeout --> decided, lease kept --> end stored and recorded --> event
                                          and when the thread is back at last: lease released

A failure that is worth a retry decides nothing: see :mod:`leasecron.retries`.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from leasecron.calls import Kind
from leasecron.clock import Clock
from leasecron.events import EventBus, RunFailed, RunInterrupted, RunStarted, RunSucceeded
from leasecron.model import MOST_OF_NOTE, Ending, Reason, RunResult, Status, from_seconds
from leasecron.retries import Retries
from leasecron.runs import LiveRun, error_text
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers
from leasecron.workers import Workers


class Winner(Protocol):
    """Who won the run, and is told how far it is."""

    def step(self, run: LiveRun, function: Callable[..., object], *facts: object) -> None:
        """Call ``function`` with a run, and give the run up should that fail."""

    def handler_ended(self) -> None:
        """Take note that a run's thread is back."""

    def run_ended(self, run: LiveRun) -> None:
        """Take note that the run's thread is back and its end is recorded."""


class Executor:
    """Runs won attempts, and records how they ended."""

    def __init__(
        self, clock: Clock, timers: JobTimers, store: StoreQueue, bus: EventBus, winner: Winner
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._bus = bus
        self._winner = winner
        self._retries = Retries(
            clock, timers, store, bus, winner.step, self.execute, self._end_between_tries
        )
        self._workers = Workers(
            clock, timers, self._call_handler, lambda run: winner.step(run, self._thread_died)
        )

    def in_handler(self) -> bool:
        """Say whether the caller is in a handler's thread; may be asked from any thread."""
        return self._workers.in_thread()

    def end(self) -> None:
        """End the threads that have no run."""
        self._workers.end()

    def execute(self, run: LiveRun) -> None:
        """Step 4: send ``start`` and call the handler in a worker.

        Raises RuntimeError where no thread can be had. The handler is not called where it raises.
        """
        self._workers.reserve()
        try:
            run.running = True
            run.signal.look_at(run.lease)
            self._begin(run)
        except Exception:
            run.running = False
            self._workers.release()
            if run.timeout is not None:
                self._timers.cancel(run.timeout)
            raise

    def tell(self, run: LiveRun, reason: Reason) -> None:
        """Tell a run to end; one that waits for its next try ends at once."""
        run.signal.set(reason)
        if run.retrying:  # in a step of its own: others may have to be told as well
            self._timers.post(self._winner.step, run, self._retries.go_on)

    def _begin(self, run: LiveRun) -> None:
        if self._bus.wants("start"):
            self._bus.emit(
                RunStarted(
                    at=self._bus.now() if run.tried else from_seconds(run.started_at),
                    job=run.claim.job,
                    slot=run.claim.slot,
                    instance=run.claim.instance,
                    attempt=run.attempt,
                    fence=run.fence,
                    trigger=run.claim.trigger,
                    lateness=run.lateness,
                    retry=run.retries,
                )
            )
        if run.job.options.timeout is not None:
            run.timeout = self._timers.after(
                run.job.options.timeout, self._winner.step, run, self._timed_out
            )
        run.tried = True
        self._workers.give(run)

    def _call_handler(self, run: LiveRun) -> None:
        """Call the handler, in the worker's thread and a context that no other run has touched."""
        exception: BaseException | None = None
        text: str | None = None
        try:
            if run.lease is not None and not run.lease.trusted(self._clock.monotonic()):
                run.signal.set("lease-lost")  # the worker was long in coming
                run.signal.raise_if_set()
            contextvars.Context().run(run.job.call, run.context())
        except BaseException as error:  # noqa: BLE001 - SystemExit and its kin end the run, not us
            exception = error
            text = error_text(error)  # here: it runs code of the user's
        ended = self._clock.monotonic()
        self._timers.post(self._winner.step, run, self._handler_ended, exception, text, ended)

    def give_up(self, run: LiveRun, error: Exception | None) -> None:
        """End a won run that cannot be started and not be given back: by ``error``, or by a stop.

        Nobody else will ever run it, so it is recorded and told of.
        """
        if error is None:
            run.signal.set("stop")
            run.error = "it was won while its job was being stopped, and has not been started"
        else:
            run.exception, run.error = error, error_text(error)
        run.decide("interrupted" if error is None else "failed", run.started)
        self._store_end(run)
        self._winner.handler_ended()

    def _handler_ended(
        self,
        run: LiveRun,
        exception: BaseException | None,
        error: str | None,
        ended: float,
    ) -> None:
        if not run.running:  # its thread was found dead, and its place given back
            return
        run.running = False
        run.signal.look_at(None)
        try:
            self._workers.release()
            if run.timeout is not None:
                self._timers.cancel(run.timeout)
            self._take_note(run, exception, error, ended)
        finally:  # whatever became of the rest
            self.leave(run)

    def _thread_died(self, run: LiveRun) -> None:
        if run.running:  # else it died after its last word
            run.running = run.retrying = False
            self._workers.release()
            self.leave(run)
            raise RuntimeError(f"the thread of {run.key} has ended without a word")

    def _take_note(
        self,
        run: LiveRun,
        exception: BaseException | None,
        error: str | None,
        ended: float,
    ) -> None:
        if run.given_up:
            self._winner.run_ended(run)
        elif run.retrying:  # it ran past its timeout, which was a try that failed
            self._retries.go_on(run)
        elif run.result is None:
            self._try_ended(run, exception, error, ended)
        elif run.recorded:  # it ran past its timeout; what it did since changes nothing
            self._settle(run)

    def _try_ended(
        self,
        run: LiveRun,
        exception: BaseException | None,
        error: str | None,
        ended: float,
    ) -> None:
        run.exception = exception
        if exception is not None:  # a success keeps the error of the try before
            run.error = error
        status = _classify(exception, told=run.signal.told)
        if status == "failed" and self._retries.wants(run, exception):
            self._retries.fail(run, ended)
        else:
            run.decide(status, ended)
            self._store_end(run)

    def _end_between_tries(self, run: LiveRun) -> None:
        run.decide("interrupted", self._clock.monotonic())
        self._store_end(run)
        self.leave(run)

    def leave(self, run: LiveRun) -> None:
        """Give back the place of a run that needs none, once."""
        if run.has_place and not (run.running or run.retrying):
            run.has_place = False
            self._winner.handler_ended()

    def _timed_out(self, run: LiveRun) -> None:
        if run.result is not None or run.retrying or not run.signal.set("timeout"):
            return
        run.exception = TimeoutError(
            f"job {run.claim.job!r} ran past its timeout of {run.job.options.timeout:g} s"
        )
        run.error = error_text(run.exception)
        if self._retries.wants(run, run.exception):
            self._retries.fail(run, self._clock.monotonic())
            return
        run.decide("failed", self._clock.monotonic())
        self._store_end(run)

    def _store_end(self, run: LiveRun) -> None:
        """Make the two writes of step 6: the end in the lease state, and then the record."""
        assert run.result is not None
        interrupted = run.result.status == "interrupted"
        if interrupted:
            run.reason = run.signal.reason
        if run.lease is None:  # nothing but the history
            self._ask("save_results", run.result, run, self._recorded)
            return
        ending = Ending(
            run.claim.job,
            run.claim.slot,
            run.claim.token,
            run.result.status,
            # A handler that ignores its timeout still runs: nobody may run beside it.
            keep_lease=run.running,
            # An attempt that starved its own heartbeat counts, or it would be tried for ever.
            counted=run.reason == "lease-lost",
            pause=_note(run.result) if run.pauses_its_job else None,
        )
        # Who had to make way for a newer run has come to its end: nobody goes on with it.
        kind: Kind = "release" if interrupted and run.reason != "replaced" else "finish"
        self._ask(kind, ending, run, self._recorded, run.result)

    def _recorded(self, run: LiveRun, answer: object, _asked_at: float) -> None:
        assert run.result is not None
        if run.given_up:
            return
        run.recorded = True
        run.owned = answer is not False
        if not run.owned:  # whoever took the run over has recorded this attempt as lost
            if run.result.status != "interrupted":
                run.reason = "takeover"
                run.result = replace(run.result, status="interrupted")
        elif isinstance(answer, BaseException):
            # The run has ended all the same: it is reported, and never run again for this.
            self._bus.error("save_results", answer, run.claim.job, run.claim.slot)
        self._send(run)
        self._settle(run)

    def _settle(self, run: LiveRun) -> None:
        """Let go of the run, unless its thread is not back."""
        if run.running:
            return
        if run.lease is None or not run.owned or run.signal.reason != "timeout":
            self._winner.run_ended(run)
            return
        ending = Ending(run.claim.job, run.claim.slot, run.claim.token, "failed")
        self._ask("release", ending, run, self._released)

    def _released(self, run: LiveRun, _owned: object, _asked_at: float) -> None:
        self._winner.run_ended(run)

    def _ask(
        self,
        kind: Kind,
        item: object,
        run: LiveRun,
        step: Callable[..., None],
        record: RunResult | None = None,
    ) -> None:
        """Ask the store, and make the run's next step with what it answers."""
        post, next_step = self._timers.post, self._winner.step
        self._store.submit(kind, item, post, next_step, run, step, record=record)

    def _send(self, run: LiveRun) -> None:
        assert run.result is not None
        at, job, slot, instance = self._bus.now(), run.claim.job, run.claim.slot, run.claim.instance
        result = run.result
        match result.status:
            case "success":
                if self._bus.wants("success"):
                    self._bus.emit(
                        RunSucceeded(at=at, job=job, slot=slot, instance=instance, result=result)
                    )
            case "failed":
                self._bus.emit(
                    RunFailed(
                        at=at,
                        job=job,
                        slot=slot,
                        instance=instance,
                        result=result,
                        exception=run.exception,
                    )
                )
            case _:
                self._bus.emit(
                    RunInterrupted(
                        at=at,
                        job=job,
                        slot=slot,
                        instance=instance,
                        result=result,
                        reason=run.reason or "takeover",
                    )
                )


def _note(result: RunResult) -> str:
    """Return why the job of a run that failed is paused."""
    return f"the run of {result.slot.isoformat()} failed: {result.error}"[:MOST_OF_NOTE]


def _classify(exception: BaseException | None, *, told: bool) -> Status:
    """Step 5: a raise after the run was told to end is an interruption, not a failure."""
    if exception is None:
        return "success"
    return "interrupted" if told else "failed"
