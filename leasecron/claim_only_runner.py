"""Step 3 on a claim-only backend: the claim is for good, so there is nothing to renew or to watch.

Everything here runs in the timers thread.

    claim --won--> live --> recorded, thread back --> gone
      |--done, late--> skipped
      |--an older run of the job is live in this instance--> skipped without a claim
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import datetime

from leasecron.clock import Clock
from leasecron.events import EventBus
from leasecron.jobs import DeclaredJob
from leasecron.model import Claim, ClaimAnswer, LeaseState
from leasecron.room import Request
from leasecron.runner import Runner
from leasecron.runs import Key, LiveRun
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers


class ClaimOnlyRunner(Runner):
    """Decides who runs a slot, with a store that only knows who won it.

    A won run cannot be given back: what becomes of it is recorded, and nobody runs it again.
    """

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
        self._behind: defaultdict[str, deque[Request]] = defaultdict(deque)

    def released(self, _job: str, _slot: datetime) -> bool:
        """Do nothing: such a store has no second attempts."""
        return False

    def meet(self, _job: DeclaredJob, _state: LeaseState) -> None:
        """Do nothing: nobody can ask such a store for a run."""

    def clocks_jumped(self) -> None:
        """Do nothing: no claim here is of a time that a clock could change."""

    def _claim(self, request: Request) -> None:
        if request.job.options.overlap == "allow":
            super()._claim(request)
        elif self._others(request, (key for key, run in self._runs.items() if run.running)):
            self._bus.skip(request.job.name, request.slot, "overlap", self._bus.instance)
            self._room.leave()
        elif self._others(request, self._claiming):
            # The claim before it may be lost, and then this slot is to be had: wait for its answer.
            self._behind[request.job.name].append(request)
            self._room.leave()
        else:
            super()._claim(request)

    def _others(self, request: Request, keys: Iterable[Key]) -> bool:
        """Say whether another slot of the job is among ``keys``."""
        return any(name == request.job.name and slot != request.slot for name, slot in keys)

    def _answered(
        self, request: Request, claim: Claim, answer: ClaimAnswer | BaseException, asked_at: float
    ) -> None:
        try:
            super()._answered(request, claim, answer, asked_at)
        finally:
            behind = self._behind[request.job.name]
            while behind and not self._others(behind[0], self._claiming):
                following = behind.popleft()
                self.run(following.job, following.slot, following.trigger)

    def _won(self, request: Request, claim: Claim, answer: ClaimAnswer, _asked_at: float) -> None:
        run = LiveRun(request.job, claim, answer.attempt or 1, None, None, self._clock)
        self._runs[run.key] = run
        self.step(run, self._begin)

    def _begin(self, run: LiveRun) -> None:
        if not self._wanted(run.job):
            self.executor.give_up(run, None)
            return
        try:
            self.executor.execute(run)
        except Exception as error:  # noqa: BLE001 - no thread can be had, or a defect of ours
            self.executor.give_up(run, error)

    def _not_won(self, request: Request, answer: ClaimAnswer) -> None:
        if self._wanted(request.job):
            self._skip(request, answer)

    def _failed(self, request: Request, _claim: Claim, error: BaseException) -> None:
        if self._wanted(request.job):
            self._bus.error("claim", error, request.job.name, request.slot)
