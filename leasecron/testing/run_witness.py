"""What a store of a simulated cluster was told of runs and answered, and what it may not answer.

A call has a number from before it is made, and what it changed is known only after it. So where two
calls are made at once, neither is held to what the other one did.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from leasecron.model import WAITING, Claim, ClaimAnswer, Ending, HeartbeatAnswer, LeaseRef, Retry
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.witnessed import TICK, Asked, Holding, Moment, WitnessedPause, WitnessedRun


class RunWitness:
    """Follows each run from its first claim to its end.

    ``broken`` has a line for each promise that was broken. ``holdings``, ``pauses`` and ``runs``
    are all there were; ``unfounded`` are the runs that were refused for a pause that none knows of,
    and when. ``fixed`` has the instants of jobs that run once.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.broken: list[str] = []
        self.holdings: list[Holding] = []
        self.pauses: list[WitnessedPause] = []
        self.runs: dict[tuple[str, datetime], WitnessedRun] = {}
        self.unfounded: list[tuple[WitnessedRun, datetime]] = []
        self.fixed: dict[str, datetime] = {}
        self._clock = clock
        self._number = 0
        self._now = self._read()
        self._by_token: dict[str, Holding] = {}
        self._ending: set[str] = set()  # tokens of runs whose end is on its way
        self._live: defaultdict[str, list[Holding]] = defaultdict(list)
        self._unended: defaultdict[str, list[WitnessedRun]] = defaultdict(list)  # and begun
        self._waiting: defaultdict[str, list[WitnessedRun]] = defaultdict(list)
        self._paused: dict[str, WitnessedPause] = {}

    def paused(self, job: str) -> None:
        """Take note that a job is paused; without effect while it is."""
        if job not in self._paused:
            self._paused[job] = pause = WitnessedPause(job, self._number, self._now.wall)
            self.pauses.append(pause)

    def _claimed(self, claim: Claim, answer: ClaimAnswer, asked: Asked) -> None:
        run = self._run(claim.job, claim.slot)
        run.overlap = claim.overlap
        if answer.outcome == "won":
            known = [holding for holding in run.holdings if holding.fence == answer.fence]
            if known:  # the answer to an earlier try was lost
                known[0].renewed = asked.moment
            else:
                self._won(run, claim, answer, asked)
        elif answer.outcome == "done":
            last = run.holdings[-1].claim.token if run.holdings else ""
            if run.asked_for and not (run.ended or answer.abandoned or last in self._ending):
                self._breaks(f"asked for, and closed without an end: {run.name}")
            self._over(run)
            if answer.abandoned and claim.pause_on_failure:
                self.paused(claim.job)
        elif answer.outcome == "overlap" and claim.mode == "claim":
            if claim.overlap in WAITING or self._meets_backfill_alone(claim):
                self._waits(run, claim)
        elif answer.outcome == "paused":
            # A pause that ended while this call was under way counts too.
            since = min(run.slot, asked.moment.wall) - TICK
            pauses = [pause for pause in self.pauses if pause.job == run.job]
            if not any(pause.touches(since, self._now.wall + TICK) for pause in pauses):
                self.unfounded.append((run, self._now.wall))

    def _won(self, run: WitnessedRun, claim: Claim, answer: ClaimAnswer, asked: Asked) -> None:
        attempt = answer.attempt or 1
        name = f"{run.name} attempt {attempt} on {claim.instance}"
        self._check_win(run, claim, asked.number, name)
        if answer.retries < run.retries:
            self._breaks(f"of {run.retries} retries the store knows {answer.retries}: {name}")
        since = run.idle_since()
        if since is not None:
            run.gaps.append((since, self._now.wall))
        holding = Holding(claim, attempt, answer.fence, self._now.wall, asked.moment)
        if not run.holdings:
            if claim.overlap == "queue":
                self._unended[run.job].append(run)
            if run in self._waiting[run.job]:
                self._waiting[run.job].remove(run)
            if not run.asked_for:
                self._surpass(run)
        run.holdings.append(holding)
        self.holdings.append(holding)
        self._by_token[claim.token] = holding
        still = [other for other in self._live[run.job] if other.alive(self._now)]
        self._live[run.job] = [*still, holding]

    def _check_win(self, run: WitnessedRun, claim: Claim, number: int, name: str) -> None:
        pause = self._paused.get(run.job)
        if pause is not None and pause.number < number:
            self._breaks(f"begun while its job was paused: {name}")
        if run.succeeded:
            self._breaks(f"won again after it had succeeded: {name}")
        for other in self._live[run.job]:
            other_run = self._run(run.job, other.claim.slot)
            beside = run.filled and other_run.filled and other_run is not run
            if beside and self._goes_on(other):
                self._breaks(f"run beside another slot of a backfill: {name}")
            forbidden = claim.overlap != "allow" or other.claim.slot == run.slot
            ending = other.claim.token in self._ending
            if forbidden and not ending and other.alive(self._now):
                self._breaks(
                    f"won beside a lease of slot {other.claim.slot.isoformat()} that"
                    f" {other.claim.instance} has: {name}"
                )
        if run.surpassed is not None and run.surpassed < number:
            self._breaks(f"begun in place of a newer slot that waited: {name}")
        fixed = self.fixed.get(run.job)
        if fixed is not None and not run.asked_for and run.slot != fixed:
            self._breaks(f"run at another instant than {fixed.isoformat()}: {name}")
        if claim.overlap == "queue" and not run.holdings:
            for other_run in self._unended[run.job]:
                ending = other_run.holdings[-1].claim.token in self._ending
                if other_run.slot < run.slot and not ending:
                    older = other_run.slot.isoformat()
                    self._breaks(f"begun before the run of {older} had ended: {name}")

    def _waits(self, run: WitnessedRun, claim: Claim) -> None:
        """Take note of a slot that was put in, to wait for the end of an older run."""
        if run.holdings or run.ended or run.put_in is not None:
            return
        run.put_in = self._now.wall
        self._surpass(run)
        self._waiting[run.job].append(run)
        if claim.overlap == "cancel":
            for holding in self._live[run.job]:
                older = holding.claim.slot < run.slot and holding.alive(self._now)
                scheduled = not self._run(run.job, holding.claim.slot).asked_for
                if older and scheduled and holding.cancelled is None:
                    holding.cancelled = self._number

    def _meets_backfill_alone(self, claim: Claim) -> bool:
        """Say whether only a run of a backfill can stand in the way of a slot."""
        found = [other for other in self._live[claim.job] if other.ended is None]
        filled = all(self._run(claim.job, other.claim.slot).filled for other in found)
        return filled and any(self._goes_on(other) for other in found)

    def _goes_on(self, holding: Holding) -> bool:
        return holding.alive(self._now) and holding.claim.token not in self._ending

    def _surpass(self, run: WitnessedRun) -> None:
        """Take note that no older slot that waits will be begun."""
        for other in [*self._waiting[run.job]]:
            if other.slot < run.slot and other.surpassed is None:
                other.surpassed = self._number
                self._waiting[run.job].remove(other)

    def _beaten(self, ref: LeaseRef, answer: HeartbeatAnswer, asked: Asked) -> None:
        holding = self._by_token.get(ref.token)
        if holding is None or answer == "lost":
            return
        holding.renewed = asked.moment
        cancelled = holding.cancelled is not None and holding.cancelled < asked.number
        if answer == "ok" and cancelled:
            run = self._run(ref.job, ref.slot)
            self._breaks(
                f"not told to make way for a newer slot: {run.name} attempt {holding.attempt}"
                f" on {holding.claim.instance}"
            )

    def _finished(self, ending: Ending, owned: object, _asked: Asked) -> None:
        self._ending.discard(ending.token)
        if not owned:
            return
        if not ending.keep_lease:
            self._lease_ended(ending)
        run = self._run(ending.job, ending.slot)
        if not run.ended:
            self._over(run)
            run.succeeded = ending.status == "success"
            if ending.pause is not None and ending.status == "failed":
                self.paused(ending.job)

    def _released(self, ending: Ending, owned: object, _asked: Asked) -> None:
        self._ending.discard(ending.token)
        if owned:
            self._lease_ended(ending)

    def _lease_ended(self, ending: Ending) -> None:
        holding = self._by_token.get(ending.token)
        if holding is not None:
            holding.ended = holding.ended or self._now.wall

    def _over(self, run: WitnessedRun) -> None:
        run.ended = True
        for runs in (self._unended[run.job], self._waiting[run.job]):
            if run in runs:
                runs.remove(run)

    def _counted(self, retry: Retry, owned: object, _asked: Asked) -> None:
        if owned:
            run = self._run(retry.job, retry.slot)
            run.retries = max(run.retries, retry.retries)

    def _run(self, job: str, slot: datetime) -> WitnessedRun:
        return self.runs.setdefault((job, slot), WitnessedRun(job, slot))

    def _breaks(self, line: str) -> None:
        self.broken.append(f"{line}, at {self._now.wall.isoformat()}")

    def _read(self) -> Moment:
        return Moment(self._clock.now(), self._clock.monotonic())
