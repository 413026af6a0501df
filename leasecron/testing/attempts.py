"""What the handlers of a simulated cluster did, seen from inside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from leasecron.context import RunContext
from leasecron.jobs import DeclaredJob
from leasecron.model import Trigger
from leasecron.testing.process_clock import ProcessClock


@dataclass(eq=False, slots=True, kw_only=True)
class Attempt:
    """One call of a handler. ``ended`` is None while it runs, and for ever if it was killed.

    Instants are of the cluster's clock, whatever the instance's own clock says. ``fence`` is None
    on a store that has none. ``retry`` says how often the run had been tried again before.
    """

    job: str
    slot: datetime
    attempt: int
    fence: int | None
    instance: str
    trigger: Trigger
    began: datetime
    retry: int = 0
    ended: datetime | None = None
    exception: BaseException | None = None
    context: RunContext = field(repr=False)
    process: ProcessClock = field(repr=False)

    @property
    def valid(self) -> bool:
        """Whether the handler runs and believes in its run: nobody has told it to end.

        An instance that was frozen past its lease learns of it when it goes on, before it does
        anything else that matters.
        """
        told = self.ended is not None or self.context.signal.is_set()
        return not (told or self.process.stands_still)


class Attempts:
    """All attempts of a cluster, in order, and those that ran beside each other and must not."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.all: list[Attempt] = []
        self.clashes: list[tuple[Attempt, Attempt]] = []
        self._now = now
        self.live: list[Attempt] = []

    def observe(self, job: DeclaredJob, process: ProcessClock, *, leases: bool) -> None:
        """Have each call of the job's handler noted; ``leases`` says what kind of store it has."""
        handler, takes_context = job.handler, job.takes_context

        def observed(context: RunContext) -> object:
            attempt = self._begin(job, context, process, leases=leases)
            try:
                return handler(context) if takes_context else handler()
            except BaseException as error:
                if not process.killed:
                    attempt.exception = error
                raise
            finally:
                self.live.remove(attempt)
                if not process.killed:  # otherwise this is the tidying up, long after its death
                    attempt.ended = self._now()

        job.handler, job.takes_context = observed, True

    def _begin(
        self, job: DeclaredJob, context: RunContext, process: ProcessClock, *, leases: bool
    ) -> Attempt:
        attempt = Attempt(
            job=context.job,
            slot=context.slot,
            attempt=context.attempt,
            fence=context.fence if leases else None,
            instance=context.instance,
            trigger=context.trigger,
            began=self._now(),
            retry=context.retry,
            context=context,
            process=process,
        )
        alone = job.options.overlap != "allow"
        for other in self.live:
            if other.job != attempt.job:
                continue
            # Without leases no instance knows what runs of other slots the others have.
            beside = alone and (leases or other.process is process)
            same = other.slot == attempt.slot or beside
            # Who ran past the timeout of his try has been told, and the next try waits for him.
            tries = other.context.token == context.token
            if tries or (same and other.valid and attempt.valid):
                self.clashes.append((other, attempt))
        self.all.append(attempt)
        self.live.append(attempt)
        return attempt
