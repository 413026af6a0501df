"""What all processes of a simulated cluster say to their store of backfills, and its answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from leasecron.model import Advance, Claim
from leasecron.testing.witnessed import Holding, Moment, WitnessedBackfill, WitnessedRun


class BackfillWitness(ABC):
    """The part of a witness that hears of backfills, and of slots that they run again.

    ``backfills`` are all there were. A slot that is run again is another run: those before it are
    among the ``earlier`` ones.
    """

    runs: dict[tuple[str, datetime], WitnessedRun]
    _live: Mapping[str, list[Holding]]
    _ending: set[str]
    _waiting: Mapping[str, list[WitnessedRun]]
    _now: Moment

    def __init__(self) -> None:
        self.backfills: list[WitnessedBackfill] = []
        self.earlier: list[WitnessedRun] = []
        self._going_on: dict[str, WitnessedBackfill] = {}
        self._come_to: dict[str, WitnessedRun] = {}  # the run that was put in last, by job
        self._begins_at: dict[tuple[str, datetime], list[int]] = {}  # lowest fences of later runs

    @property
    def all_runs(self) -> list[WitnessedRun]:
        """All runs, of which one slot may have several."""
        return [*self.earlier, *self.runs.values()]

    @abstractmethod
    def _run(self, job: str, slot: datetime) -> WitnessedRun: ...
    @abstractmethod
    def _over(self, run: WitnessedRun) -> None: ...
    @abstractmethod
    def _breaks(self, line: str) -> None: ...

    def times_before(self, job: str, slot: datetime, fence: int | None) -> int:
        """Return how often a slot had been put in to be run again before the attempt of a fence."""
        return bisect_right(self._begins_at.get((job, slot), []), fence or 0)

    def hears_of_backfill(self, operation: str, asked: Any, answer: Any) -> None:
        """Take note of what the store has answered to a call, if that was about a backfill."""
        if operation == "add_backfill":
            if asked.job not in self._going_on:
                begun = WitnessedBackfill(asked.job, self._now.wall)
                self._going_on[asked.job] = begun
                self.backfills.append(begun)
        elif operation == "cancel_backfill":
            if answer:
                self._cancelled(asked)
        elif operation == "advance" and answer in ("waiting", "skipped", "ended"):
            self._went_on(asked, answer)

    def _went_on(self, asked: Advance, answer: str) -> None:
        name = f"job {asked.job!r} to slot {asked.slot and asked.slot.isoformat()}"
        last = self._come_to.get(asked.job)
        if last is not None and not (last.ended or self._is_ending(last)):
            self._breaks(f"a backfill went on before its run had ended: {name}")
        backfill = self._going_on.get(asked.job)
        if backfill is not None:
            backfill.goes_on(self._now.wall)
        if answer == "ended":
            self._going_on.pop(asked.job, None)
        elif answer == "skipped":
            self._waits_for_step(asked.job)
        else:
            self._put_in_again(asked, name)

    def _put_in_again(self, asked: Advance, name: str) -> None:
        assert asked.slot is not None
        if any(run.slot == asked.slot or run.waits for run in self._waiting[asked.job]):
            self._breaks(f"a backfill went before a slot that waits: {name}")
        old = self._run(asked.job, asked.slot)
        if old.succeeded:
            self._breaks(f"a slot that succeeded was put in again: {name}")
        last = old.holdings[-1] if old.holdings else None
        if last is not None and last.alive(self._now) and not self._is_ending(old):
            self._breaks(f"a slot that is being run was put in again: {name}")
        if last is not None:
            last.ended = last.ended or self._now.wall
        old.gaps = old.gaps_until(self._now.wall)
        self._over(old)
        self.earlier.append(old)
        fences = [holding.fence or 0 for run in self._of_slot(old) for holding in run.holdings]
        begins = self._begins_at.setdefault((asked.job, asked.slot), [])
        begins.append(max(fences, default=0) + 1)
        new = WitnessedRun(asked.job, asked.slot, put_in=self._now.wall, filled=True)
        self.runs[asked.job, asked.slot] = self._come_to[asked.job] = new

    def _cancelled(self, job: str) -> None:
        backfill, last = self._going_on.pop(job, None), self._come_to.get(job)
        if backfill is not None:
            backfill.goes_on(self._now.wall)
        if last is not None and last.waits:
            self._over(last)

    def _waits_for_step(self, job: str) -> None:
        """Take note that a backfill, if one goes on, can go on from now on."""
        backfill = self._going_on.get(job)
        if backfill is not None and backfill.idle_since is None:
            backfill.idle_since = self._now.wall

    def _check_beside(self, run: WitnessedRun, name: str) -> None:
        """Look for another run of a backfill beside one that is won."""
        for other in self._live[run.job] if run.filled else ():
            other_run = self._run(run.job, other.claim.slot)
            # One that is deaf to its timeout has ended, and keeps its lease.
            beside = other_run.filled and not other_run.ended and other_run is not run
            if beside and self._goes_on(other):
                self._breaks(f"a slot of a backfill was run beside another one: {name}")

    def _meets_backfill_alone(self, claim: Claim) -> bool:
        """Say whether only a run of a backfill can stand in the way of a slot."""
        found = [other for other in self._live[claim.job] if other.ended is None]
        filled = all(self._run(claim.job, other.claim.slot).filled for other in found)
        return filled and any(self._goes_on(other) for other in found)

    def _goes_on(self, holding: Holding) -> bool:
        return holding.alive(self._now) and holding.claim.token not in self._ending

    def _is_ending(self, run: WitnessedRun) -> bool:
        return bool(run.holdings) and run.holdings[-1].claim.token in self._ending

    def _of_slot(self, run: WitnessedRun) -> list[WitnessedRun]:
        return [each for each in self.earlier if (each.job, each.slot) == (run.job, run.slot)]
