"""What all processes of a simulated cluster say to their store, and what it answers, in order.

Promises about the order of things are checked here, at the moment at which one would be broken: a
handler begins only some time after the store has said yes.

A call has a number from before it is made, and what it changed is known only after it. So where two
calls are made at once, neither is held to what the other one did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from leasecron.model import (
    WAITING,
    Claim,
    ClaimAnswer,
    Ending,
    HeartbeatAnswer,
    LeaseRef,
    NewRun,
    OneOff,
    Retry,
)
from leasecron.testing.backfill_witness import BackfillWitness
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.witnessed import TICK, Asked, Holding, Moment, WitnessedPause, WitnessedRun


class Witness(BackfillWitness):
    """Hears every call that reaches the store, and every answer before it can be lost.

    ``broken`` has a line for each promise that was broken. ``holdings``, ``pauses`` and ``runs``
    are all there were; ``unfounded`` are the runs that were refused for a pause that none knows of,
    and when. ``fixed`` has the instants of jobs that run once.
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
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
        self._hearers: dict[str, Callable[[Any, Any, Asked], None]] = {
            "claim": self._claimed,
            "heartbeat": self._beaten,
            "finish": self._finished,
            "release": self._released,
            "retry": self._counted,
            "add_runs": self._put_in,
            "withdraw": self._withdrawn,
            "fix": self._fix,
        }

    def asks(self, operation: str, arguments: Sequence[Any]) -> Asked:
        """Take note of a call that is about to be made."""
        self._number += 1
        self._now = self._read()
        match operation:
            case "finish" | "release":
                self._ending |= {ending.token for ending in arguments[0]}
            case "resume":
                self._resumed(arguments[0])
            case "heartbeat":
                for ref in arguments[0]:
                    holding = self._by_token.get(ref.token)
                    if holding is not None and holding.told and not holding.beat_since:
                        holding.beat_since = self._now.wall
        return Asked(self._number, self._now)

    def hears(self, operation: str, arguments: Sequence[Any], answer: Any, asked: Asked) -> None:
        """Take note of what the store has answered to a call."""
        self._number += 1
        self._now = self._read()
        hear = self._hearers.get(operation)
        if hear is not None:
            for item, said in zip(arguments[0], answer, strict=True):
                hear(item, said, asked)
        elif operation == "pause" and answer:
            self.paused(arguments[0])
        elif operation == "resume":
            self._resumed(arguments[0])
        elif arguments:
            self.hears_of_backfill(operation, arguments[0], answer)

    def arrives(self, operation: str, arguments: Sequence[Any], answer: Any) -> None:
        """Take note that the answer has reached the process that asked."""
        if operation == "heartbeat":
            for ref, said in zip(arguments[0], answer, strict=True):
                holding = self._by_token.get(ref.token)
                if said == "replaced" and holding is not None and holding.told is None:
                    holding.told = self._clock.now()

    def paused(self, job: str) -> None:
        """Take note that a job is paused; without effect while it is."""
        if job not in self._paused:
            self._paused[job] = pause = WitnessedPause(job, self._number, self._now.wall)
            self.pauses.append(pause)

    # What is said of a run

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
            if not (run.scheduled or run.ended or answer.abandoned or last in self._ending):
                what = "put in" if run.filled else "asked for"
                self._breaks(f"{what}, and closed without an end: {_named(run)}")
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
        name = f"{_named(run)} attempt {attempt} on {claim.instance}"
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
            if run.scheduled:
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
            self._breaks(f"a slot that succeeded was run again: {name}")
        self._check_beside(run, name)
        for other in self._live[run.job]:
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
        if fixed is not None and run.scheduled and run.slot != fixed:
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
                scheduled = self._run(run.job, holding.claim.slot).scheduled
                if older and scheduled and holding.cancelled is None:
                    holding.cancelled = self._number

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
                f"not told to make way for a newer slot: {_named(run)} attempt {holding.attempt}"
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
        if run is self._come_to.get(run.job):
            self._waits_for_step(run.job)
        for runs in (self._unended[run.job], self._waiting[run.job]):
            if run in runs:
                runs.remove(run)

    def _counted(self, retry: Retry, owned: object, _asked: Asked) -> None:
        if owned:
            run = self._run(retry.job, retry.slot)
            run.retries = max(run.retries, retry.retries)

    # What people say

    def _put_in(self, new: NewRun, done: object, _asked: Asked) -> None:
        run = self._run(new.job, new.slot)
        if done and run.put_in is None:
            run.put_in, run.asked_for = self._now.wall, True

    def _withdrawn(self, new: NewRun, done: object, _asked: Asked) -> None:
        if done:
            self.runs.pop((new.job, new.slot), None)

    def _fix(self, one_off: OneOff, at: datetime, _asked: Asked) -> None:
        first = self.fixed.setdefault(one_off.job, at)
        if at != first:
            self._breaks(f"fixed anew, at {at.isoformat()}: {_name(one_off.job, first)}")

    def _resumed(self, job: str) -> None:
        pause = self._paused.pop(job, None)
        if pause is not None:
            pause.until = self._now.wall

    def _run(self, job: str, slot: datetime) -> WitnessedRun:
        return self.runs.setdefault((job, slot), WitnessedRun(job, slot))

    def _breaks(self, line: str) -> None:
        self.broken.append(f"{line}, at {self._now.wall.isoformat()}")

    def _read(self) -> Moment:
        return Moment(self._clock.now(), self._clock.monotonic())


def _named(run: WitnessedRun) -> str:
    return _name(run.job, run.slot)


def _name(job: str, slot: datetime) -> str:
    return f"job {job!r} slot {slot.isoformat()}"
