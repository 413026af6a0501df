"""Retries, pauses, runs that are asked for, slots that wait and jobs that run once, in trouble.

A failure names its seed, and ``a_while(seed, store)`` replays it step by step.
"""

from __future__ import annotations

import logging
import os
import queue
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from contract.held_postgres import HeldPostgres
from contract.held_redis import HeldRedis
from test_cluster_seeds import EARLY, Store, closing_store, postgres, sqlite, valkey

from leasecron import (
    BackendError,
    ConfigurationError,
    GiveUp,
    JobOptions,
    RunContext,
    RunInterrupted,
    RunSkipped,
    Scheduler,
)
from leasecron.testing import Cluster

LEASE = JobOptions(lease=8, heartbeat=2)
NAMES = ("queue", "cancel", "skip", "allow", "once", "pausing")


def a_while(seed: int, store: object, lasting: float = 1200) -> Cluster:
    """Short leases, handlers of any length that often fail, and people who cannot let it be."""
    chance = random.Random(f"control {seed}")
    places = chance.choice([1, 2, 50, 200])
    cluster = Cluster(3, store, seed, defaults=LEASE, max_running=places)
    if isinstance(store, (HeldPostgres, HeldRedis)):
        store.now, store.early = cluster.clock.wall, EARLY

    def work(ctx: RunContext) -> None:
        length = chance.choice([0, 0, 1, 5, 12, 40, 90])
        if chance.random() < 0.2:
            with suppress(queue.Empty):  # deaf to its signal
                cluster.clock.waker().get(length)
        else:
            ctx.sleep(length)
        if chance.random() < 0.3:
            raise chance.choice([ValueError, OSError, KeyError, GiveUp])("by chance")

    def setup(scheduler: Scheduler) -> None:
        def backfill(name: str) -> None:
            now = cluster.clock.now()
            scheduler.backfill(name, now - timedelta(minutes=4), now - timedelta(minutes=1))

        def meddle() -> None:
            """Do something to a job; may fail as any call of a store that cannot be reached."""
            acts: list[Callable[[str], object]]
            acts = [scheduler.trigger, scheduler.pause, scheduler.resume, backfill]
            with suppress(BackendError, ConfigurationError):
                chance.choice(acts)(chance.choice(NAMES))

        scheduler.every("queue", "30s", work, overlap="queue", retries=2, backoff=5)
        scheduler.every("cancel", "40s", work, overlap="cancel", retries=1, backoff=20)
        scheduler.every("skip", "45s", work, retries=3, backoff=2, retry_on=(OSError, TimeoutError))
        scheduler.every("allow", "1m", work, overlap="allow", timeout=7, retries=1, backoff=1)
        scheduler.every("pausing", "30s", work, pause_on_failure=True, max_attempts=2)
        scheduler.at("once", lasting / 4, work, retries=2)  # each process means another instant
        scheduler.every("people", "15s", meddle, overlap="allow")

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


@pytest.mark.parametrize(
    "store",
    [sqlite, *(pytest.param(store, marks=pytest.mark.slow) for store in (postgres, valkey))],
)
def test_no_promise_is_broken_on_other_stores(store: Store, tmp_path: Path) -> None:
    with closing_store(store(tmp_path, 1)) as made:
        a_while(1, made, lasting=200)


def test_all_of_it_happens_in_twenty_minutes() -> None:
    cluster = a_while(1, "memory://")

    assert max(a.retry for a in cluster.attempts) > 0
    assert {"manual", "takeover", "backfill"} <= {a.trigger for a in cluster.attempts}
    assert {"paused", "overlap"} <= {skip.reason for skip in cluster.events.of(RunSkipped)}
    assert "replaced" in {told.reason for told in cluster.events.of(RunInterrupted)}
    assert {*NAMES} <= {a.job for a in cluster.attempts}


REPLAY = """
import logging
from test_control_seeds import a_while
logging.disable(logging.CRITICAL)
for event in a_while(1, "memory://", lasting=200).events.events:
    print(event.at, event.instance, event.name, event.job, event.slot)
"""


def test_a_seed_replays_in_a_process_that_has_another_order_in_its_sets() -> None:
    traces = set()
    for order in ("1", "2"):
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "PYTHONHASHSEED": order, "PYTHONPATH": path}
        played = [sys.executable, "-c", REPLAY]
        done = subprocess.run(played, env=environment, capture_output=True, text=True, check=True)
        traces.add(done.stdout)
    assert len(traces) == 1


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("store", [sqlite, postgres, valkey])
def test_no_promise_is_broken_on_other_stores_in_fifty_seeds(store: Store, tmp_path: Path) -> None:
    for seed in range(2000, 2050):
        with closing_store(store(tmp_path, seed)) as made:
            a_while(seed, made)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("hundred", range(10))
def test_no_promise_is_broken_in_a_thousand_seeds(hundred: int) -> None:
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        a_while(seed, "memory://")
