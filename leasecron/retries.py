"""Trying failed runs again, in the attempt in which they failed.

The run keeps its lease meanwhile, and its place among those that this instance runs. Everything
here runs in the timers thread.

    a try has failed --count stored, thread back--> waiting --backoff over--> tried again
    told to end meanwhile --thread back--> the attempt has ended as interrupted

How often a run was tried again is in the store before the next try begins, so that whoever takes
the run over goes on with the count.
"""

from __future__ import annotations

from collections.abc import Callable

from leasecron.clock import Clock
from leasecron.context import AbortSignal
from leasecron.errors import GiveUp
from leasecron.events import EventBus, RunFailed
from leasecron.model import Retry, RunResult
from leasecron.runs import LiveRun
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers

Step = Callable[..., None]


class Retries:
    """Has failed runs tried again.

    ``begin`` calls the handler of a run; ``end`` records that a run was told to end while no thread
    of it was at work. ``step`` calls a function with a run, and gives the run up should that fail.
    """

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        store: StoreQueue,
        bus: EventBus,
        step: Step,
        begin: Callable[[LiveRun], None],
        end: Callable[[LiveRun], None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._bus = bus
        self._step = step
        self._begin = begin
        self._end = end

    @staticmethod
    def wants(run: LiveRun, exception: BaseException | None) -> bool:
        """Say whether a try that failed with ``exception`` shall be followed by another one."""
        options = run.job.options
        return (
            run.lease is not None
            and run.retries < options.retries
            and isinstance(exception, options.retry_on)
            and not isinstance(exception, GiveUp)
        )

    def fail(self, run: LiveRun, ended: float) -> None:
        """Have a run tried again that failed at the monotonic time ``ended``.

        Its thread need not be back: a handler that ignores its timeout is waited for.
        """
        result = run.result_of("failed", ended)
        run.retries += 1
        run.retrying = run.counting = True
        run.signal = AbortSignal(self._clock)  # what comes from now on is for the next try
        item = Retry(run.claim.job, run.claim.slot, run.claim.token, run.retries)
        post, counted = self._timers.post, self._counted
        self._store.submit("retry", item, post, self._step, run, counted, result, run.exception)

    def go_on(self, run: LiveRun) -> None:
        """Make the next step of a run that waits, if it is time for one."""
        if run.running or run.counting or not run.retrying:
            return
        if run.signal.told:
            if run.retry_timer is not None:
                self._timers.cancel(run.retry_timer)
            run.retrying = False
            self._end(run)
        elif run.retry_timer is None:
            chance = self._clock.random.random()
            delay = run.job.options.retry_delay(run.retries, chance)
            run.retry_timer = self._timers.after(delay, self._step, run, self._try_again)

    def _counted(
        self,
        run: LiveRun,
        result: RunResult,
        exception: BaseException | None,
        owned: object,
        _asked_at: float,
    ) -> None:
        if run.given_up or not run.retrying:  # it has ended before the store could be asked
            return
        run.counting = False
        if owned is True:
            self._bus.emit(
                RunFailed(
                    at=self._bus.now(),
                    job=run.claim.job,
                    slot=run.claim.slot,
                    instance=run.claim.instance,
                    result=result,
                    exception=exception,
                    will_retry=True,
                )
            )
        else:
            run.signal.set("takeover")
        self.go_on(run)

    def _try_again(self, run: LiveRun) -> None:
        run.retry_timer = None
        if run.given_up or run.signal.told:  # the step that ends it is on its way
            return
        run.retrying = False
        try:
            self._begin(run)
        except Exception as error:  # noqa: BLE001 - no thread can be had, or a defect of ours
            self._bus.error("start", error, run.claim.job, run.claim.slot)
            run.retrying = True
            self.go_on(run)
