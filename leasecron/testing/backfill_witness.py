"""What a store of a simulated cluster was told of backfills and answered."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from leasecron.model import Advance
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.run_witness import RunWitness
from leasecron.testing.witnessed import WitnessedBackfill, WitnessedRun


class BackfillWitness(RunWitness):
    """Follows each backfill from slot to slot; ``backfills`` are all there were.

    A slot that a backfill has put in is another run than it was before.
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.backfills: list[WitnessedBackfill] = []
        self._going_on: dict[str, WitnessedBackfill] = {}
        self._come_to: dict[str, WitnessedRun] = {}  # the run that was put in last, by job
        self._before: list[WitnessedRun] = []  # of slots that a backfill has run again
        self._anew: dict[tuple[str, datetime], list[int]] = {}  # the last fence before each time

    def all_runs(self) -> list[WitnessedRun]:
        """Return those too that a backfill has begun anew since."""
        return [*self._before, *self.runs.values()]

    def begun_anew(self, job: str, slot: datetime, fence: int | None) -> int:
        """Return how often a run had been begun anew before the attempt of that fence."""
        return sum(fence is not None and fence > last for last in self._anew.get((job, slot), ()))

    def _of_backfill(self, operation: str, asked: Any, answer: Any) -> None:
        """Take note of what the store has answered to a call, if that was about a backfill."""
        if operation == "add_backfill" and asked.job not in self._going_on:
            self._going_on[asked.job] = begun = WitnessedBackfill(asked.job, self._now.wall)
            self.backfills.append(begun)
        elif operation == "cancel_backfill" and answer:
            self._cancelled(asked)
        elif operation == "advance" and answer in ("waiting", "skipped", "ended"):
            self._went_on(asked, answer)

    def _went_on(self, asked: Advance, answer: str) -> None:
        name = f"job {asked.job!r} to slot {asked.slot and asked.slot.isoformat()}"
        last = self._come_to.get(asked.job)
        if last is not None and not self._is_ending(last) and self._is_at_work(last):
            self._breaks(f"a backfill went on before its run had ended: {name}")
        self._has_gone_on(asked.job)
        if answer == "waiting":
            self._check_put_in(asked, name)
            self._begins_anew(asked)
        elif answer == "skipped":
            self._can_go_on(asked.job)
        else:
            self._going_on.pop(asked.job, None)

    def _check_put_in(self, asked: Advance, name: str) -> None:
        if self._waiting[asked.job]:
            self._breaks(f"a backfill went before a slot that waits: {name}")
        before = self.runs.get((asked.job, asked.slot)) if asked.slot else None
        if before is None:
            return
        if before.succeeded:
            self._breaks(f"run again after it had succeeded: {before.name}")
        if before.holdings and self._goes_on(before.holdings[-1]):
            self._breaks(f"put in again while it was run: {before.name}")

    def _begins_anew(self, asked: Advance) -> None:
        """Take note of the run of a slot that a backfill has put in, whatever it was before."""
        assert asked.slot is not None
        key = (asked.job, asked.slot)
        before = self.runs.pop(key, None)
        if before is not None:
            before.gaps = before.gaps_until(self._now.wall)
            self._over(before)
            self._before.append(before)
            if before.holdings:
                last = before.holdings[-1]
                last.ended = last.ended or self._now.wall
                self._anew.setdefault(key, []).append(last.fence or 0)
        self._come_to[asked.job] = run = self._run(*key)
        run.put_in, run.asked_for, run.filled = self._now.wall, True, True

    def _cancelled(self, job: str) -> None:
        self._has_gone_on(job)
        self._going_on.pop(job, None)
        run = self._come_to.get(job)
        if run is not None and not run.holdings:
            self._over(run)

    def _over(self, run: WitnessedRun) -> None:
        super()._over(run)
        if run is self._come_to.get(run.job):
            self._can_go_on(run.job)

    def _has_gone_on(self, job: str) -> None:
        if job in self._going_on:
            self._going_on[job].goes_on(self._now.wall)

    def _can_go_on(self, job: str) -> None:
        backfill = self._going_on.get(job)
        if backfill is not None and backfill.due_since is None:
            backfill.due_since = self._now.wall

    def _is_at_work(self, run: WitnessedRun) -> bool:
        """Say whether a run has not ended, or its handler goes on past its end."""
        return not run.ended or (bool(run.holdings) and self._goes_on(run.holdings[-1]))

    def _is_ending(self, run: WitnessedRun) -> bool:
        return bool(run.holdings) and run.holdings[-1].claim.token in self._ending
