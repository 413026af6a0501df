"""What ``start()`` adds: picking up what was in progress, and the slot that was missed.

Each job goes through this before its first timer fires. A store without leases knows of nothing
that is in progress; there the missed slot is all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from leasecron.clock import Clock
from leasecron.deadlines import Timer
from leasecron.events import EventBus
from leasecron.jobs import DeclaredJob, declaration_of
from leasecron.lease_runner import LeaseRunner
from leasecron.model import LeaseState, OneOff
from leasecron.runner import Runner
from leasecron.schedules import Once, ask_latest, ask_next
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers

TRY_AGAIN = 5.0
"""A store that failed is asked again for a job's unfinished runs after this many seconds."""


class Recovery:
    """Recovers jobs, then arms them; runs in the timers thread."""

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        store: StoreQueue,
        bus: EventBus,
        runner: Runner,
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._bus = bus
        self._runner = runner
        self._leases = runner if isinstance(runner, LeaseRunner) else None
        self._asked: set[DeclaredJob] = set()
        self._later: dict[DeclaredJob, Timer] = {}

    def recover(self, job: DeclaredJob) -> None:
        """Ask the store what it knows of ``job``; the answer leads to the rest."""
        if job not in self._asked:  # else it was, before a stop() that was taken back
            self._asked.add(job)
            self._step(job, self._ask, job)

    def catch_up(self, job: DeclaredJob, slot: datetime | None, now: datetime) -> None:
        """Claim ``slot``, the latest one, after a random jitter if it was due recently enough."""
        options = job.options
        if slot is None or now - slot >= timedelta(seconds=options.catch_up):
            return
        # A slot of a schedule may lie before the job was thought of; an instant was asked for.
        since_first_seen = options.catch_up_since_first_seen and not isinstance(job.schedule, Once)
        if since_first_seen and slot < (job.first_seen or now):
            return
        following = ask_next(job.schedule, slot)
        gap = (following - slot).total_seconds() if following is not None else None
        jitter = self._clock.random.random() * options.jitter_for(gap)
        self._timers.after(jitter, self._runner.run, job, slot, "catch-up")

    def catch_up_latest(self, job: DeclaredJob, now: datetime, *, after: datetime) -> None:
        """Catch up the latest slot, if it is newer than ``after``, which was found to be late."""
        try:
            latest = ask_latest(job.schedule, now)
            if latest is not None and latest > after:
                self.catch_up(job, latest, now)
        except Exception as error:  # noqa: BLE001 - a user's schedule may raise anything
            self._bus.error("schedule", error, job.name)

    def forget(self, job: DeclaredJob) -> None:
        """Forget what is known of a removed job."""
        self._ask_no_more(job)
        later = self._later.pop(job, None)
        if later is not None:
            self._timers.cancel(later)

    def _step(self, job: DeclaredJob, function: Callable[..., object], *args: object) -> None:
        """Call ``function``; should that fail, begin again later: a job must not stay unarmed."""
        try:
            function(*args)
        except Exception:
            if job in self._asked:  # not recovered yet
                self._ask_later(job)
            raise

    def _ask(self, job: DeclaredJob) -> None:
        if isinstance(job.schedule, Once):
            one_off = OneOff(job.name, job.schedule.instant)
            post, step = self._timers.post, self._step
            self._store.submit("fix", one_off, post, step, job, self._fixed, job)
        else:
            self._declare(job)

    def _fixed(self, job: DeclaredJob, at: datetime | BaseException, _asked_at: float) -> None:
        """Adopt the instant at which a job runs that runs once."""
        if job.removed or job not in self._asked:
            return
        if isinstance(at, BaseException):
            self._bus.error("fix", at, job.name)
            self._ask_later(job)
            return
        job.schedule = Once(at)
        self._declare(job)

    def _declare(self, job: DeclaredJob) -> None:
        post, step = self._timers.post, self._step
        self._store.submit("declare", declaration_of(job), post, step, job, self._declared, job)
        if self._leases is not None:
            self._store.submit("unfinished", job.name, post, step, job, self._recovered, job)

    def _declared(
        self, job: DeclaredJob, first_seen: datetime | BaseException, asked_at: float
    ) -> None:
        if job.removed:
            return
        if isinstance(first_seen, BaseException):
            # Without the answer the job counts as new, and nothing is caught up for it.
            self._bus.error("declare", first_seen, job.name)
        else:
            job.first_seen = first_seen
        if self._leases is None:
            self._recovered(job, [], asked_at)

    def _recovered(
        self, job: DeclaredJob, states: list[LeaseState] | BaseException, _asked_at: float
    ) -> None:
        if job.removed or job not in self._asked:
            return
        if isinstance(states, BaseException):
            self._bus.error("unfinished", states, job.name)
            self._ask_later(job)
            return
        now = self._timers.now()
        try:
            latest = ask_latest(job.schedule, now)
            if latest not in [state.slot for state in states]:
                self.catch_up(job, latest, now)
        except Exception as error:  # noqa: BLE001 - a user's schedule may raise anything
            self._bus.error("schedule", error, job.name)
            latest = None
        if self._leases is not None:
            for state in states:
                if state.origin != "scheduled":
                    self._leases.meet(job, state)
                elif state.alive:
                    self._leases.watch(job, state.slot)
                elif latest is None or not state.attempt or state.slot >= latest:
                    # A slot that waits is replaced by none that nobody has claimed.
                    self._leases.take_over(job, state.slot)
        if self._timers.next_slot(job) is None:
            self._timers.arm(job, now)
        self._ask_no_more(job)

    def _ask_no_more(self, job: DeclaredJob) -> None:
        self._asked.discard(job)
        if not self._asked:
            self._asked = set()  # one that was emptied keeps what it took when it was full

    def _ask_later(self, job: DeclaredJob) -> None:
        if job not in self._later:  # two answers of one question may both have failed
            again = self._timers.after(TRY_AGAIN, self._step, job, self._ask_again, job)
            self._later[job] = again

    def _ask_again(self, job: DeclaredJob) -> None:
        self._later.pop(job, None)
        if job in self._asked:  # not recovered or removed meanwhile
            self._ask(job)
