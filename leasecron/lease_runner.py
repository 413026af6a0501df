"""Step 3 on a lease backend: claiming, keeping leases alive, standing by as a backup.

Everything here runs in the timers thread.

    run --> waits for room --> claim --won--> live --> recorded, thread back --> gone
                                 |--running, overlap--> skipped and watched --won--> live
                                 |--late, done--> skipped
    live, ended as interrupted --> watched, unless the scheduler stops
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime

from leasecron.backups import Backups, Key
from leasecron.clock import MAX_WAIT, Clock
from leasecron.errors import BackendUnavailable
from leasecron.events import EventBus, RunFailed
from leasecron.executor import Executor
from leasecron.jobs import DeclaredJob
from leasecron.leases import Lease
from leasecron.logger import logger
from leasecron.model import Claim, ClaimAnswer, Ending, Trigger
from leasecron.room import Request, Room
from leasecron.runs import LiveRun
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers


class LeaseRunner:
    """Decides who runs a slot, with a store that has leases."""

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        store: StoreQueue,
        bus: EventBus,
        executor: Executor,
        max_running: int,
        on_idle: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._bus = bus
        self._executor = executor
        self._on_idle = on_idle
        self._room = Room(max_running, clock, timers, self._claim, self._too_late)
        self._backups = Backups(clock, timers, store, self._take_over, self._check_failed)
        self._runs: dict[Key, LiveRun] = {}
        self._claiming: set[Key] = set()
        self._stopping = False
        self._heartbeats_failing = False
        self._outage_told = False  # until a claim is answered again
        self._warned_of_clock = False

    def run(self, job: DeclaredJob, slot: datetime, trigger: Trigger = "scheduled") -> None:
        """Step 3: claim the run as soon as there is room for it."""
        if not (self._stopping or job.removed or (job.name, slot) in self._runs):
            self._room.ask(Request(job, slot, trigger))

    def take_over(self, job: DeclaredJob, slot: datetime) -> None:
        """Claim the next attempt of a run whose lease is over."""
        if not self._take_over(job, slot):
            self.watch(job, slot)

    def watch(self, job: DeclaredJob, slot: datetime) -> None:
        """Become a backup of a run that another instance holds."""
        if not (self._stopping or job.removed or (job.name, slot) in self._runs):
            self._backups.watch(job, slot)

    def beat_all(self) -> None:
        """Send a heartbeat for every lease at once: a clock has jumped."""
        for run in self._runs.values():
            if run.needs_lease and run.lease is not None and not run.lease.queued:
                self._beat(run, run.lease)

    def forget(self, job: DeclaredJob) -> None:
        """Claim and watch no run of ``job`` any more; a live one goes on."""
        self._room.forget(job)
        self._backups.forget(job)

    def stop(self) -> None:
        """Claim and watch nothing more, and tell every handler to end."""
        self._stopping = True
        self._room.forget()
        self._backups.forget()
        self._store.drop_claims(lambda claims: self._timers.post(self._dropped, claims))
        for run in self._runs.values():
            run.signal.set("stop")

    def resume(self) -> None:
        """Claim again after a ``stop`` that has not come to its end."""
        self._stopping = False

    @property
    def idle(self) -> bool:
        """Say whether no claim is on its way and no run is live."""
        return not self._runs and not self._claiming

    # Claims

    def _take_over(self, job: DeclaredJob, slot: datetime) -> bool:
        key = (job.name, slot)
        if key in self._runs or key in self._claiming or not self._room.try_enter():
            return False
        self._claim(Request(job, slot, "takeover", "takeover"))
        return True

    def _claim(self, request: Request) -> None:
        if request.key in self._runs or request.key in self._claiming:
            self._room.leave()
            return
        ahead = (request.slot - self._timers.now()).total_seconds()
        if ahead > 0 and request.mode == "claim" and request.trigger != "manual":
            # The clock was set back while the slot waited: no run starts before its time.
            self._room.leave()
            wait = min(ahead, MAX_WAIT)
            self._timers.after(wait, self.run, request.job, request.slot, request.trigger)
            return
        options = request.job.options
        claim = Claim(
            job=request.job.name,
            slot=request.slot,
            token=os.urandom(16).hex(),
            instance=self._bus.instance,
            lease=options.lease,
            overlap=options.overlap,
            max_attempts=options.max_attempts,
            max_late=options.lateness_limit(request.trigger),
            mode=request.mode,
            trigger=request.trigger,
        )
        self._claiming.add(request.key)
        give_up = self._clock.monotonic() + max(0.0, request.time_left(self._clock))
        if request.mode == "takeover":  # the next check asks again
            give_up = self._clock.monotonic()
        self._store.submit(
            "claim",
            claim,
            lambda answer, asked_at: self._timers.post(
                self._answered, request, claim, answer, asked_at
            ),
            give_up,
        )

    def _dropped(self, claims: list[Claim]) -> None:
        for claim in claims:
            self._claiming.discard((claim.job, claim.slot))
            self._room.leave()
        self._on_idle()

    def _answered(
        self, request: Request, claim: Claim, answer: ClaimAnswer | BaseException, asked_at: float
    ) -> None:
        self._claiming.discard(request.key)
        if isinstance(answer, BaseException):
            self._claim_failed(request, answer)
        else:
            self._outage_told = False
            if answer.outcome == "won":
                self._won(request, claim, answer, asked_at)
            else:
                self._not_won(request, answer)
        if self._stopping:
            self._on_idle()

    def _won(self, request: Request, claim: Claim, answer: ClaimAnswer, asked_at: float) -> None:
        self._backups.drop(request.key)
        if self._stopping or request.job.removed:
            self._give_back(claim)
            return
        lease = Lease(claim, request.job.options.heartbeat, asked_at)
        run = LiveRun(request.job, claim, answer.attempt or 1, answer.fence, lease, self._clock)
        if not lease.trusted(self._clock.monotonic()):
            late = BackendUnavailable("the store answered a won claim after its lease was over")
            self._not_started(request, claim, late)
            return
        try:
            self._executor.execute(run, self)
        except RuntimeError as error:  # no thread can be had
            self._not_started(request, claim, error)
            return
        self._runs[run.key] = run
        self._tick(run, lease)

    def _not_started(self, request: Request, claim: Claim, error: Exception) -> None:
        self._give_back(claim)
        self._bus.error("start", error, claim.job, claim.slot)
        self.watch(request.job, request.slot)

    def _give_back(self, claim: Claim) -> None:
        """Release a won claim that leads to no run: another instance may take it at once."""
        ending = Ending(claim.job, claim.slot, claim.token, "interrupted")
        self._store.submit("release", ending, lambda *_: None)
        self._room.leave()

    def _not_won(self, request: Request, answer: ClaimAnswer) -> None:
        self._room.leave()
        if answer.abandoned:  # nobody else will tell of it
            self._abandoned(request, answer)
        if self._stopping or request.job.removed:
            return
        if request.mode == "takeover":
            self._not_taken_over(request, answer)
            return
        match answer.outcome:
            case "running":
                self._bus.skip(request.job.name, request.slot, "taken", answer.holder)
                self.watch(request.job, request.slot)
            case "overlap":
                self._bus.skip(request.job.name, request.slot, "overlap", answer.holder)
                self._overlap(request, answer)
            case "late":
                self._too_late(request)
            case "early":
                self._early(request, answer.wait or 1.0)
            case _:
                self._bus.skip(request.job.name, request.slot, "taken", answer.holder)

    def _not_taken_over(self, request: Request, answer: ClaimAnswer) -> None:
        match answer.outcome:
            case "running":
                self.watch(request.job, request.slot)
            case "overlap":
                self._overlap(request, answer)
            case "none":
                self._backups.not_started(request.key)
            case _:
                self._backups.drop(request.key)

    def _overlap(self, request: Request, answer: ClaimAnswer) -> None:
        """Watch the older run, and this one in case it starts."""
        if request.mode == "claim":
            self._backups.saw_overlap(request.job, request.slot)
        if answer.other is not None:
            self.watch(request.job, answer.other)
        self.watch(request.job, request.slot)

    def _early(self, request: Request, wait: float) -> None:
        if not self._warned_of_clock:
            self._warned_of_clock = True
            logger.warning("this machine's clock is %.1f s ahead of the store's", wait)
        self._timers.after(wait, self.run, request.job, request.slot, request.trigger)

    def _too_late(self, request: Request) -> None:
        self._bus.skip(request.job.name, request.slot, "late")

    def _claim_failed(self, request: Request, error: BaseException) -> None:
        self._room.leave()
        if self._stopping or request.job.removed:
            return
        if request.mode == "claim":
            self._outage_told = True
            self._bus.error("claim", error, request.job.name, request.slot)
        else:
            self._check_failed(request.job, request.slot, error)
        # The store may have taken the claim and failed to say so: a backup will find that out.
        self.watch(request.job, request.slot)

    def _check_failed(self, job: DeclaredJob, slot: datetime, error: BaseException) -> None:
        """Tell of failing checks once for an outage; its thread tells of a store that is away."""
        if not (self._outage_told or isinstance(error, BackendUnavailable)):
            self._bus.error("claim", error, job.name, slot)
        self._outage_told = True

    def _abandoned(self, request: Request, answer: ClaimAnswer) -> None:
        for result in answer.closed:
            if result.slot == request.slot:
                self._bus.emit(
                    RunFailed(
                        at=self._bus.now(),
                        job=result.job,
                        slot=result.slot,
                        instance=self._bus.instance,
                        result=result,
                        exception=None,
                    )
                )

    # Live runs

    def handler_ended(self) -> None:
        """Give the place of a run whose thread is back to the next claim."""
        self._room.leave()

    def run_ended(self, run: LiveRun) -> None:
        """Forget a run whose end is recorded; an interrupted one is watched."""
        self._runs.pop(run.key, None)
        if run.tick is not None:
            self._timers.cancel(run.tick)
        if run.result is not None and run.result.status == "interrupted":
            self.watch(run.job, run.claim.slot)
        if self._stopping:
            self._on_idle()

    def _tick(self, run: LiveRun, lease: Lease) -> None:
        """Renew the lease when it is time to, and tell the handler when it cannot be trusted."""
        if not run.needs_lease or lease.lost:
            return
        now = self._clock.monotonic()
        trusted = lease.trusted(now)
        if not trusted:
            run.signal.set("lease-lost")
        if lease.beat_due(now):
            self._beat(run, lease)
        due = min(lease.next_beat, lease.trusted_until) if trusted else lease.next_beat
        run.tick = self._timers.at(due, self._tick, run, lease)

    def _beat(self, run: LiveRun, lease: Lease) -> None:
        lease.queued = True
        self._store.submit(
            "heartbeat",
            lease.ref,
            lambda answer, asked_at: self._timers.post(self._beaten, run, lease, answer, asked_at),
        )

    def _beaten(self, run: LiveRun, lease: Lease, answer: object, asked_at: float) -> None:
        lease.queued = False
        if not run.needs_lease:  # answered after the end was stored
            return
        if answer == "ok":
            lease.renewed(asked_at)
            self._heartbeats_failing = False
        elif answer == "lost":
            lease.lost = True
            # While the lease was trusted it cannot have run out: its token was changed.
            trusted = lease.trusted(self._clock.monotonic())
            run.signal.set("takeover" if trusted else "lease-lost")
        elif isinstance(answer, BaseException) and not self._heartbeats_failing:
            self._heartbeats_failing = True  # the next heartbeat tries again
            self._bus.error("heartbeat", answer)
