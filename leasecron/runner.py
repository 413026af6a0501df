"""Step 3, what both kinds of store have in common: from a slot that is due to an answered claim.

Everything here runs in the timers thread.

    run --> waits for room --> claim --> answered: won, not won, failed
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime

from leasecron.clock import MAX_WAIT, Clock
from leasecron.events import EventBus
from leasecron.executor import Executor
from leasecron.jobs import DeclaredJob
from leasecron.logger import logger
from leasecron.model import Claim, ClaimAnswer, LeaseState, Trigger
from leasecron.room import Request, Room
from leasecron.runs import Key, LiveRun
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers


class Runner(ABC):
    """Decides together with the store whether this instance runs a slot."""

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        store: StoreQueue,
        bus: EventBus,
        max_running: int,
        on_idle: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._bus = bus
        self.executor = Executor(clock, timers, store, bus, self)
        self._on_idle = on_idle
        self.on_ended: Callable[[Key], object] = lambda _key: None
        # Seeded here, so in the process that claims; os.urandom would be a switch of threads each.
        self._tokens = random.Random()
        self._runs: dict[Key, LiveRun] = {}
        self._claiming: set[Key] = set()
        self._room = Room(
            max_running,
            self._claiming,
            clock,
            timers,
            self._enter,
            lambda request: self.too_late(request.job, request.slot),
        )
        self._stopping = False
        self._warned_of_clock = False

    def run(self, job: DeclaredJob, slot: datetime, trigger: Trigger = "scheduled") -> None:
        """Step 3: claim the run as soon as there is room for it."""
        if self._wanted(job) and (job.name, slot) not in self._runs:
            self._room.ask(Request(job, slot, trigger))

    @abstractmethod
    def released(self, job: str, slot: datetime) -> bool:
        """Take note that a run was given back, if it is watched here; else answer False."""

    @abstractmethod
    def meet(self, job: DeclaredJob, state: LeaseState) -> None:
        """Take note of a run that somebody asked for and that has not ended."""

    @abstractmethod
    def clocks_jumped(self) -> None:
        """Take note that a clock has jumped."""

    def too_late(self, job: DeclaredJob, slot: datetime) -> None:
        """Tell of a slot that is not run any more."""
        self._bus.skip(job.name, slot, "late")

    def forget(self, job: DeclaredJob) -> None:
        """Claim no run of ``job`` any more; a live one goes on."""
        self._room.forget(job)

    def stop(self) -> None:
        """Claim nothing more, and tell every handler to end."""
        self._stopping = True
        self._room.forget()
        self._store.drop_claims(lambda claims: self._timers.post(self._dropped, claims))
        for run in [*self._runs.values()]:
            self.executor.tell(run, "stop")

    def resume(self) -> None:
        """Claim again after a ``stop`` that has not come to its end."""
        self._stopping = False

    @property
    def idle(self) -> bool:
        """Say whether no claim is on its way and no run is live."""
        return not self._runs and not self._claiming

    def step(self, run: LiveRun, function: Callable[..., object], *facts: object) -> None:
        """Call ``function`` with a run, and give the run up should that fail.

        Otherwise its heartbeats would go on with nobody left to end it, and block its job in all
        instances. So its lease is left to run out, and its handler is told.
        """
        try:
            function(run, *facts)
        except Exception:
            waited = run.retrying
            run.give_up()
            if not run.running:
                if waited:
                    self.executor.leave(run)
                self.run_ended(run)
            raise

    def handler_ended(self) -> None:
        """Give the place of a run whose thread is back to the next claim."""
        self._room.leave()

    def run_ended(self, run: LiveRun) -> None:
        """Forget a run whose thread is back and whose end is recorded."""
        self._forget(run)
        if self._stopping:
            self._on_idle()

    def _wanted(self, job: DeclaredJob) -> bool:
        """Say whether anything new may be begun for ``job``."""
        return not (self._stopping or job.removed)

    def _forget(self, run: LiveRun) -> None:
        if self._runs.get(run.key) is run:  # a run that was given up may have been won again
            del self._runs[run.key]

    def _enter(self, request: Request) -> bool:
        """Claim with a place that is taken already; False where that failed, and gave it back.

        Whoever has just given back the place for this has a run of his own to bring to its end.
        """
        try:
            self._claim(request)
        except Exception:
            logger.exception("the claim of %s could not be made", request.key)
            self._claiming.discard(request.key)
            self._room.leave()
            return False
        return True

    def _claim(self, request: Request) -> None:
        """Ask the store, once there is room."""
        if request.key in self._runs or request.key in self._claiming:
            self._room.leave()
            return
        ahead = (request.slot - self._timers.now()).total_seconds()
        if ahead > 0 and request.mode == "claim" and request.trigger != "manual":
            # The clock was set back while the slot waited: no run starts before its time.
            self._run_later(request, min(ahead, MAX_WAIT))
            self._room.leave()
            return
        options = request.job.options
        claim = Claim(
            job=request.job.name,
            slot=request.slot,
            token=request.token or f"{self._tokens.getrandbits(128):032x}",
            instance=self._bus.instance,
            lease=options.lease,
            overlap=options.overlap,
            max_attempts=options.max_attempts,
            max_late=options.lateness_limit(request.trigger),
            mode=request.mode,
            trigger=request.trigger,
            pause_on_failure=options.pause_on_failure,
        )
        self._claiming.add(request.key)
        give_up = self._clock.monotonic() + max(0.0, request.time_left(self._clock))
        if request.mode == "takeover":  # the next check asks again
            give_up = self._clock.monotonic()
        self._store.submit(
            "claim", claim, self._timers.post, self._answered, request, claim, give_up=give_up
        )

    def _dropped(self, claims: list[Claim]) -> None:
        for claim in claims:
            self._claiming.discard((claim.job, claim.slot))
            self._room.leave()
        self._on_idle()

    def _answered(
        self, request: Request, claim: Claim, answer: ClaimAnswer | BaseException, asked_at: float
    ) -> None:
        if request.key not in self._claiming:  # answered before
            return
        try:
            if isinstance(answer, BaseException):
                self._failed(request, claim, answer)
            elif answer.outcome == "won":
                self._won(request, claim, answer, asked_at)
            else:
                self._not_won(request, answer)
        finally:  # a defect in one answer must not cost the slot, the place or the end of a stop()
            self._claiming.discard(request.key)
            if request.key in self._runs:
                self._room.fill()
            else:
                self._room.leave()
            if self._stopping:
                self._on_idle()

    @abstractmethod
    def _won(self, request: Request, claim: Claim, answer: ClaimAnswer, asked_at: float) -> None:
        """Run the slot; if it is live then, it has its place until :meth:`handler_ended`."""

    @abstractmethod
    def _not_won(self, request: Request, answer: ClaimAnswer) -> None:
        """Deal with any answer but ``won``, also while stopping."""

    @abstractmethod
    def _failed(self, request: Request, claim: Claim, error: BaseException) -> None:
        """Deal with a store that gave no answer, also while stopping."""

    def _skip(self, request: Request, answer: ClaimAnswer) -> None:
        """Tell why a claim did not win, and ask again for one that came too early."""
        match answer.outcome:
            case "late":
                self.too_late(request.job, request.slot)
            case "early":
                self._early(request, answer.wait or 1.0)
            case "overlap":
                self._bus.skip(request.job.name, request.slot, "overlap", answer.holder)
            case "paused":
                self._bus.skip(request.job.name, request.slot, "paused")
            case _:
                self._bus.skip(request.job.name, request.slot, "taken", answer.holder)

    def _early(self, request: Request, wait: float) -> None:
        if not self._warned_of_clock:
            self._warned_of_clock = True
            logger.warning("this machine's clock is %.1f s ahead of the store's", wait)
        self._run_later(request, wait)

    def _run_later(self, request: Request, wait: float) -> None:
        self._timers.after(wait, self.run, request.job, request.slot, request.trigger)
