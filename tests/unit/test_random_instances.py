"""Instances that lose their store, stop and overrun at random, and what must hold all the same."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import datetime

import pytest
from runs_support import Fleet, Instance, at, seconds

from leasecron import RunContext
from leasecron.model import RunResult

BUSY = 240.0
CALM = 60.0


class World:
    """Three instances with three jobs each, and one who plays with them."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet = fleet
        self.random = random.Random(seed)
        self.holders: defaultdict[str, list[RunContext]] = defaultdict(list)
        self.most: Counter[str] = Counter()
        self.bodies: list[tuple[str, datetime, int]] = []
        for _ in range(3):
            instance = fleet.instance(places=self.random.choice([1, 2, 50]))
            for name in ("skip", "allow", "timeout"):
                self.declare(instance, name)

    def declare(self, instance: Instance, name: str) -> None:
        instance.every(
            {"skip": 5, "allow": 7, "timeout": 6}[name],
            self.handler,
            name=name,
            lease=4,
            heartbeat=1,
            jitter=0.5,
            max_late=20,
            overlap="allow" if name == "allow" else "skip",
            timeout=3 if name == "timeout" else None,
        )

    def handler(self, ctx: RunContext) -> None:
        self.bodies.append((ctx.job, ctx.slot, ctx.attempt))
        self.holders[ctx.job].append(ctx)
        try:
            for _ in range(self.random.choice([0, 1, 1, 3, 6, 12])):
                valid = [other for other in self.holders[ctx.job] if not other.signal.is_set()]
                self.most[ctx.job] = max(self.most[ctx.job], len(valid))
                if self.random.random() < 0.8:
                    ctx.sleep(1)
                else:
                    self.fleet.nap(1)
            if self.random.random() < 0.1:
                raise ValueError("by chance")
        finally:
            self.holders[ctx.job].remove(ctx)

    def play(self) -> None:
        """Do one thing to one instance."""
        instance = self.random.choice(self.fleet.instances)
        match self.random.randrange(9):
            case 0 | 1:
                instance.store.cut()
            case 2:
                names = ("heartbeat", "finish", "release", "claim", "save_results", "unfinished")
                instance.store.break_(self.random.choice(names))
            case 3:
                instance.store.deaf.add(self.random.choice(["claim", "finish", "release"]))
            case 4:
                instance.scheduler.stop(timeout=self.random.choice([0, 1, 5]))
            case 5:
                name = self.random.choice(["skip", "allow", "timeout"])
                if name in instance.scheduler.jobs:
                    instance.scheduler.remove(name)
                else:
                    self.declare(instance, name)
            case _:
                instance.store.heal()
                instance.start()

    def rest(self) -> None:
        """Let everything work again."""
        for instance in self.fleet.instances:
            for name in sorted({"skip", "allow", "timeout"} - set(instance.scheduler.jobs)):
                self.declare(instance, name)
            instance.store.heal()
            instance.start()
        self.fleet.clock.advance(CALM)


def check_history(results: list[RunResult], bodies: list[tuple[str, datetime, int]]) -> None:
    fences = [result.fence for result in results]
    assert len(fences) == len(set(fences))
    runs: defaultdict[datetime, list[RunResult]] = defaultdict(list)
    for result in results:
        runs[result.slot].append(result)
    for slot, attempts in runs.items():
        numbers = [result.attempt for result in attempts]
        assert len(numbers) == len(set(numbers)), slot
        ended = [r for r in attempts if r.status in {"success", "failed"}]
        assert len(ended) <= 1, slot
        if ended:  # nobody began a run that had ended
            begun = [n for job, other, n in bodies if (job, other) == (ended[0].job, slot)]
            assert max(begun) == ended[0].attempt, slot


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_no_two_hold_a_job_and_no_ended_run_is_run_again(
    fleet: Fleet, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(fleet, seed)
    fleet.start()
    while seconds(fleet.clock) < BUSY:
        fleet.clock.advance(world.random.random() * 4)
        world.play()
    world.rest()
    stopped = [instance.scheduler.stop(timeout=60) for instance in fleet.instances]
    assert stopped == [True] * 3
    assert world.holders == {"skip": [], "allow": [], "timeout": []}
    assert world.most["skip"] <= 1
    assert world.most["timeout"] <= 1
    assert len(world.bodies) == len(set(world.bodies))
    for job in ("skip", "allow", "timeout"):
        results = fleet.history(job)
        check_history(results, world.bodies)
        assert max(result.slot for result in results) >= at(BUSY + CALM / 2)
    # A step that failed would have been logged by the thread's outermost guard.
    unknown = ("does not know", "a step of the scheduler", "a listener failed")
    assert [r for r in caplog.messages if any(text in r for text in unknown)] == []
