"""Many simulated instances with many jobs: the calls grow with both, and not with their product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from leasecron import Scheduler
from leasecron.backends.memory import MemoryBackend
from leasecron.model import Claim, ClaimAnswer, Ending, RunResult
from leasecron.pace import STEP
from leasecron.testing import Cluster

SPREAD = 0.5
"""Seconds over which jitter spreads a slot of all jobs."""


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
        (8, 80),
        (20, 50),
        pytest.param(200, 1000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
)
def test_calls_grow_with_instances_and_runs_but_not_with_their_product(
    instances: int, jobs: int
) -> None:
    store = CountingBackend()
    lateness: list[float] = []

    def declare(scheduler: Scheduler) -> None:
        for n in range(jobs):
            scheduler.every(f"job-{n}", "10s", lambda: None, lease="5s")

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
        # One each STEP, and of each instance one before and after; half as many more by chance.
        assert store.calls["claim"] <= 1.5 * (SPREAD / STEP + 2 * instances) < instances * jobs
        assert store.calls["end"] <= 2 * jobs
        assert max(lateness) <= 1.0
        cluster.check()
