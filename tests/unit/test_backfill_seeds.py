"""Backfills in trouble, beside the schedule, pauses and runs that are asked for.

A failure names its seed, and ``a_while(seed, store)`` replays it step by step.
"""

from __future__ import annotations

import logging
import queue
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from leasecron import BackendError, ConfigurationError, JobOptions, RunContext, Scheduler
from leasecron.testing import Cluster

LEASE = JobOptions(lease=8, heartbeat=2)
NAMES = ("skip", "queue", "cancel", "allow", "pausing")
MOST = 12
"""Slots that a backfill has at most, so that it can come to its end."""


def a_while(seed: int, store: object, lasting: float = 1200) -> Cluster:
    """Short leases, handlers that often fail, and people who want slots of the past to be run."""
    chance = random.Random(f"backfills {seed}")
    cluster = Cluster(3, store, seed, defaults=LEASE, max_running=chance.choice([2, 50, 200]))

    def work(ctx: RunContext) -> None:
        length = chance.choice([0, 0, 1, 3, 12, 40])
        if chance.random() < 0.2:
            with suppress(queue.Empty):  # deaf to its signal
                cluster.clock.waker().get(length)
        else:
            ctx.sleep(length)
        if chance.random() < 0.3:
            raise chance.choice([ValueError, OSError])("by chance")

    def setup(scheduler: Scheduler) -> None:
        def fill(name: str) -> None:
            every = scheduler.declared(name).schedule.interval  # type: ignore[attr-defined]
            ago = chance.randint(0, 20) * every
            end = cluster.clock.now() - timedelta(seconds=ago)
            scheduler.backfill(name, end - timedelta(seconds=chance.randint(1, MOST) * every), end)

        def cancel(name: str) -> None:
            current = scheduler.current_backfill(name)
            if current is not None:
                current.cancel()

        def meddle() -> None:
            """Do something to a job; may fail as any call of a store that cannot be reached."""
            acts: list[Callable[[str], object]] = [fill, fill, fill, cancel]
            acts += [scheduler.trigger, scheduler.pause, scheduler.resume]
            with suppress(BackendError, ConfigurationError):
                chance.choice(acts)(chance.choice(NAMES))

        scheduler.every("skip", "45s", work, retries=2, backoff=2)
        scheduler.every("queue", "60s", work, overlap="queue", retries=1, backoff=5)
        scheduler.every("cancel", "50s", work, overlap="cancel")
        scheduler.every("allow", "30s", work, overlap="allow", timeout=7, max_attempts=2)
        scheduler.every("pausing", "60s", work, pause_on_failure=True, max_attempts=2)
        scheduler.every("people", "10s", meddle, overlap="allow")

    cluster.setup(setup)
    with cluster:
        cluster.trouble(lasting, every=20, longest=60)
        cluster.advance(120)
        for name in NAMES:
            cluster.resume(name)
        cluster.advance(400)
        cluster.check()
    return cluster


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Keep the log of a failed seed to what matters."""
    caplog.set_level(logging.CRITICAL, "leasecron")


@pytest.mark.parametrize("seed", range(2))
def test_no_promise_is_broken_in_ten_minutes_of_trouble(seed: int) -> None:
    a_while(seed, "memory://", lasting=600)


def test_all_of_it_happens_in_twenty_minutes() -> None:
    cluster = a_while(2, "memory://")

    filled = [attempt for attempt in cluster.attempts if attempt.trigger == "backfill"]
    assert {*NAMES} <= {attempt.job for attempt in filled}
    assert any(attempt.retry for attempt in filled)
    slots = [(attempt.job, attempt.slot) for attempt in cluster.attempts]
    assert any(slots.count((a.job, a.slot)) > 1 for a in filled)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("hundred", range(10))
def test_no_promise_is_broken_in_a_thousand_seeds(hundred: int) -> None:
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        a_while(seed, "memory://")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_promise_is_broken_in_a_hundred_seeds_on_sqlite(tmp_path: Path) -> None:
    for seed in range(2000, 2100):
        a_while(seed, f"sqlite:///{tmp_path}/{seed}.db?durability=normal")
