"""Step 3 on a lease backend: keeping leases alive, and standing by as a backup.

Everything here runs in the timers thread.

    claim --won--> live --> recorded, thread back --> gone
      |--running, overlap--> skipped and watched --won--> live
      |--late, done--> skipped
    live, ended as interrupted --> watched, unless the scheduler stops
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from leasecron.backups import Backups
from leasecron.clock import Clock
from leasecron.errors import BackendUnavailable
from leasecron.events import EventBus, RunFailed
from leasecron.jobs import DeclaredJob
from leasecron.leases import Lease
from leasecron.logger import logger
from leasecron.model import WAITING, Claim, ClaimAnswer, Ending, LeaseState, Origin
from leasecron.room import Request
from leasecron.runner import Runner
from leasecron.runs import LiveRun
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers


class LeaseRunner(Runner):
    """Decides who runs a slot, with a store that has leases."""

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        store: StoreQueue,
        bus: EventBus,
        max_running: int,
        on_idle: Callable[[], None],
    ) -> None:
        super().__init__(clock, timers, store, bus, max_running, on_idle)
        self._backups = Backups(clock, timers, store, self._take_over, self._check_failed)
        self._heartbeats_failing = False
        self._outage_told = False  # until a claim is answered again

    def take_over(self, job: DeclaredJob, slot: datetime) -> None:
        """Claim the next attempt of a run whose lease is over."""
        if not self._take_over(job, slot):
            self.watch(job, slot)

    def watch(self, job: DeclaredJob, slot: datetime, origin: Origin = "scheduled") -> None:
        """Become a backup of a run that another instance holds."""
        if self._wanted(job) and (job.name, slot) not in self._runs:
            self._backups.watch(job, slot, origin)

    def released(self, job: str, slot: datetime) -> bool:
        """Check a watched run at once that another instance has given back."""
        return self._backups.hurry((job, slot))

    def meet(self, job: DeclaredJob, state: LeaseState) -> None:
        """Begin a run that somebody asked for, or stand by for it."""
        key = (job.name, state.slot)
        if key in self._claiming:
            return
        is_new = not self._backups.knows(key)
        self.watch(job, state.slot, state.origin)
        if is_new and not state.alive:
            self._backups.hurry(key)

    def clocks_jumped(self) -> None:
        """Send a heartbeat for every lease at once."""
        for run in self._runs.values():
            if run.needs_lease and run.lease is not None and not run.lease.queued:
                self._beat(run, run.lease)

    def too_late(self, job: DeclaredJob, slot: datetime) -> None:
        """Tell of a slot that is not run any more, and so replaces no run."""
        super().too_late(job, slot)
        self._backups.replaces_nothing(job, slot)

    def forget(self, job: DeclaredJob) -> None:
        """Claim and watch no run of ``job`` any more; a live one goes on."""
        super().forget(job)
        self._backups.forget(job)

    def stop(self) -> None:
        """Claim and watch nothing more, and tell every handler to end."""
        super().stop()
        self._backups.forget()

    # Claims

    def _take_over(self, job: DeclaredJob, slot: datetime, token: str | None = None) -> bool:
        key = (job.name, slot)
        if key in self._runs or key in self._claiming or not self._room.try_enter():
            return False
        return self._enter(Request(job, slot, "takeover", "takeover", token))

    def _won(self, request: Request, claim: Claim, answer: ClaimAnswer, asked_at: float) -> None:
        self._outage_told = False
        _tell_of_lost(answer)
        self._backups.drop(request.key)
        if not self._wanted(request.job):
            self._give_back(claim)
            return
        if answer.trigger is not None:
            claim = replace(claim, trigger=answer.trigger)
        lease = Lease(claim, request.job.options.heartbeat, asked_at)
        run = LiveRun(
            request.job,
            claim,
            answer.attempt or 1,
            answer.fence,
            lease,
            self._clock,
            answer.retries,
        )
        if not lease.trusted(self._clock.monotonic()):
            late = BackendUnavailable("the store answered a won claim after its lease was over")
            self._not_started(request, claim, late)
            return
        try:
            # Before the handler begins: from then on somebody must keep its lease, and tell it.
            self._runs[run.key] = run
            self._tick(run, lease)
            self.executor.execute(run)
        except Exception as error:  # noqa: BLE001 - no thread can be had, or a defect of ours
            self._forget(run)
            self._not_started(request, claim, error)

    def _not_started(self, request: Request, claim: Claim, error: Exception) -> None:
        self._give_back(claim)
        self._bus.error("start", error, claim.job, claim.slot)
        self.watch(request.job, request.slot)

    def _give_back(self, claim: Claim) -> None:
        """Release a won claim that leads to no run: another instance may take it at once."""
        ending = Ending(claim.job, claim.slot, claim.token, "interrupted")
        self._store.submit("release", ending, lambda *_: None)

    def _not_won(self, request: Request, answer: ClaimAnswer) -> None:
        self._outage_told = False
        _tell_of_lost(answer)
        if answer.abandoned:  # nobody else will tell of it
            self._abandoned(request, answer)
        if not self._wanted(request.job):
            return
        if request.mode == "claim":
            self._skip(request, answer)
        match answer.outcome:
            case "running":
                self._backups.has_begun(request.key)
                self.watch(request.job, request.slot)
            case "overlap":
                self._overlap(request, answer)
            case "paused" if request.mode == "takeover":
                self.watch(request.job, request.slot)
            case "paused":
                self._backups.replaces_nothing(request.job, request.slot)
            case "none":
                self._backups.not_started(request.key)
            case _ if request.mode == "takeover":
                self._backups.drop(request.key)

    def _overlap(self, request: Request, answer: ClaimAnswer) -> None:
        """Watch the older run, and this one in case it starts."""
        self._backups.replaces_nothing(request.job, request.slot)
        if answer.other is not None:
            self.watch(request.job, answer.other)
        self.watch(request.job, request.slot)
        # Of what is claimed as a takeover there is a row, which waits in the store.
        waits = request.mode == "takeover" or request.job.options.overlap in WAITING
        self._backups.stands_behind(request.key, waits=waits)

    def _failed(self, request: Request, claim: Claim, error: BaseException) -> None:
        if not self._wanted(request.job):
            return
        if request.mode == "claim":
            self._outage_told = True
            self._bus.error("claim", error, request.job.name, request.slot)
            self._backups.replaces_nothing(request.job, request.slot)
        else:
            self._check_failed(request.job, request.slot, error)
        # The store may have taken the claim and failed to say so: a backup will find that out.
        self.watch(request.job, request.slot)
        if request.mode == "takeover":
            self._backups.ask_again_with(request.key, claim.token)

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

    def run_ended(self, run: LiveRun) -> None:
        """Forget a run whose end is recorded; an interrupted one is watched."""
        super().run_ended(run)
        interrupted = run.result is not None and run.result.status == "interrupted"
        if run.given_up or (interrupted and run.reason != "replaced"):
            self.watch(run.job, run.claim.slot)
        self._backups.hurry_behind(run.job)
        self.on_ended(run.key)

    def _forget(self, run: LiveRun) -> None:
        super()._forget(run)
        if run.tick is not None:
            self._timers.cancel(run.tick)

    def _tick(self, run: LiveRun, lease: Lease) -> None:
        """Renew the lease when it is time to, and tell the handler when it cannot be trusted."""
        if not run.needs_lease or lease.lost:
            return
        now = self._clock.monotonic()
        trusted = lease.trusted(now)
        if not trusted:
            self.executor.tell(run, "lease-lost")
        if lease.beat_due(now):
            self._beat(run, lease)
        due = min(lease.next_beat, lease.trusted_until) if trusted else lease.next_beat
        run.tick = self._timers.at(due, self.step, run, self._tick, lease)

    def _beat(self, run: LiveRun, lease: Lease) -> None:
        lease.queued = True
        self._store.submit(
            "heartbeat", lease.ref, self._timers.post, self.step, run, self._beaten, lease
        )

    def _beaten(self, run: LiveRun, lease: Lease, answer: object, asked_at: float) -> None:
        lease.queued = False
        if not run.needs_lease:  # answered after the end was recorded
            return
        if answer in ("ok", "replaced"):
            lease.renewed(asked_at)
            self._heartbeats_failing = False
            if answer == "replaced" and run.result is None:
                self.executor.tell(run, "replaced")
        elif answer == "lost":
            lease.lost = True
            if not (run.running or run.retrying):  # the end is stored, and its record waits
                return
            # While the lease was trusted it cannot have run out: its token was changed.
            trusted = lease.trusted(self._clock.monotonic())
            self.executor.tell(run, "takeover" if trusted else "lease-lost")
        elif isinstance(answer, BaseException) and not self._heartbeats_failing:
            self._heartbeats_failing = True  # the next heartbeat tries again
            self._bus.error("heartbeat", answer)


def _tell_of_lost(answer: ClaimAnswer) -> None:
    """Log the attempts of which this instance was the first to see that their lease had run out."""
    for lost in answer.closed:
        logger.warning(
            "run lost job=%s slot=%s attempt=%d instance=%s: its lease ran out",
            lost.job,
            lost.slot.isoformat(),
            lost.attempt,
            lost.instance,
        )
