"""Many simulated instances with many jobs: the calls grow with both, and not with their product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from leasecron import Every, Scheduler
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.model import Claim, ClaimAnswer, Ending, RunResult
from leasecron.testing import Cluster

EVERY = timedelta(seconds=10)
APART = timedelta(milliseconds=10)
INSTANTS = 50
"""The slots of the jobs are due at so many instants one after another, every ten seconds."""


CLAIMS_OF_EACH = 10
"""Calls that an instance may make in that time; were they not gathered: one for each instant."""


@dataclass(frozen=True)
class Shifted:
    """Every ten seconds, a moment after the others: what jitter does, and simulated sooner."""

    by: timedelta

    def next_after(self, t: datetime) -> datetime | None:
        return self._shifted(Every(EVERY).next_after(t - self.by))

    def latest_at(self, t: datetime) -> datetime | None:
        return self._shifted(Every(EVERY).latest_at(t - self.by))

    def _shifted(self, slot: datetime | None) -> datetime | None:
        return None if slot is None else slot + self.by


class CountingBackend(MemoryBackend):
    """A store that counts the calls of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        self.calls["claim"] += 1
        return super().claim(claims)

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        self.calls["end"] += 1
        return super().finish(endings)

    def save_results(self, results: Sequence[RunResult]) -> None:
        self.calls["end"] += 1
        super().save_results(results)


@pytest.mark.parametrize(
    ("instances", "jobs"),
    [
        (10, 100),
        (20, 50),
        pytest.param(200, 1000, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_calls_grow_with_instances_and_runs_but_not_with_their_product(
    instances: int, jobs: int
) -> None:
    store = CountingBackend()
    lateness: list[float] = []

    def declare(scheduler: Scheduler) -> None:
        for n in range(jobs):
            schedule = Shifted(n % INSTANTS * APART)
            scheduler.add(f"job-{n}", schedule, lambda: None, lease="5s", jitter=0)

    with Cluster(instances, store, seed=1) as cluster:
        cluster.setup(declare)
        cluster.on("start", lambda event: lateness.append(event.lateness))
        cluster.start()
        cluster.advance(15)  # past the first slot, after which each has heard of the others
        store.calls.clear()
        lateness.clear()
        cluster.advance(10)
        print(f"{dict(store.calls)}; the last began {max(lateness):.3f} s after the slot")
        assert len(lateness) == jobs
        assert store.calls["claim"] <= CLAIMS_OF_EACH * instances + jobs
        assert store.calls["end"] <= 2 * jobs
        assert max(lateness) <= 1.0
        cluster.check()
