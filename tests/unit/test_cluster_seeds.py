"""Simulated clusters in trouble: whatever the seed, no promise is broken.

A failure names its seed, and ``a_while(seed, store)`` or ``a_week(seed, store)`` replays it step by
step.
"""

from __future__ import annotations

import logging
import queue
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from contract.held_postgres import HeldPostgres
from contract.held_redis import HeldRedis
from support.servers import postgres_url, redis_url

from leasecron import JobOptions, RunContext, Scheduler
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.testing import Cluster

WEEK = 7 * 86_400
LEASE = JobOptions(lease=8, heartbeat=2)

EARLY = 1000
"""Milliseconds by which a server lets a slot be ahead of its clock."""

Store = Callable[[Path, int], object]


def memory(_folder: Path, _seed: int) -> object:
    return "memory://"


def sqlite(folder: Path, seed: int) -> object:
    return f"sqlite:///{folder}/{seed}.db?durability=normal"


def lock_directory(folder: Path, seed: int) -> object:
    return LockDirBackend(folder / str(seed), create=True)


def postgres(_folder: Path, _seed: int) -> object:
    return HeldPostgres(postgres_url())


def valkey(_folder: Path, _seed: int) -> object:
    return HeldRedis(redis_url())


@contextmanager
def closing_store(store: object) -> Iterator[object]:
    """Leave nothing of a store behind: an instance that crashes has not closed it."""
    yield store
    if isinstance(store, HeldPostgres):
        store.suspend()
    if isinstance(store, HeldRedis):
        store.drop()


def a_while(seed: int, store: object, lasting: float = 1200) -> Cluster:
    """Short leases, handlers of any length, and something going wrong every 20 seconds."""
    chance = random.Random(f"a while {seed}")
    defaults = JobOptions() if isinstance(store, LockDirBackend) else LEASE
    places = chance.choice([1, 2, 50])
    cluster = Cluster(3, store, seed, defaults=defaults, max_running=places)

    def work(ctx: RunContext) -> None:
        length = chance.choice([0, 0, 1, 5, 12, 40])
        if chance.random() < 0.2:
            with suppress(queue.Empty):  # deaf to its signal
                cluster.clock.waker().get(length)
        else:
            ctx.sleep(length)
        if chance.random() < 0.1:
            raise ValueError("by chance")

    def setup(scheduler: Scheduler) -> None:
        scheduler.every("skip", "30s", work)
        scheduler.every("allow", "45s", work, overlap="allow")
        scheduler.every("timeout", "1m", work, timeout=7)
        scheduler.cron("minute", "* * * * *", work, max_late=20)

    if isinstance(store, (HeldPostgres, HeldRedis)):
        store.now, store.early = cluster.clock.wall, EARLY
    cluster.setup(setup)
    with cluster:
        cluster.trouble(lasting, every=20, longest=60)
        cluster.advance(200)
        cluster.check()
    return cluster


def a_week(seed: int, store: object) -> Cluster:
    """Two jobs with default options, and something going wrong every two hours."""
    cluster = Cluster(3, store, seed)
    cluster.every("ten minutes", "10m", lambda ctx: ctx.sleep(5))
    cluster.every("hour", "1h", lambda ctx: ctx.sleep(5))
    with cluster:
        cluster.trouble(WEEK, every=7200)
        cluster.check()
    return cluster


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Keep the log of a failed seed to what matters."""
    caplog.set_level(logging.CRITICAL, "leasecron")


@pytest.mark.parametrize("seed", range(10))
def test_no_promise_is_broken_in_ten_minutes_of_trouble(seed: int) -> None:
    cluster = a_while(seed, "memory://", lasting=600)
    assert len({a.slot for a in cluster.attempts}) > 5


@pytest.mark.parametrize("store", [sqlite, lock_directory, postgres, valkey])
@pytest.mark.parametrize("seed", range(1))
def test_no_promise_is_broken_on_other_stores(seed: int, store: Store, tmp_path: Path) -> None:
    with closing_store(store(tmp_path, seed)) as made:
        a_while(seed, made, lasting=300)


@pytest.mark.slow
def test_a_week_of_trouble_takes_seconds() -> None:
    cluster = a_week(1, "memory://")
    slots = {(a.job, a.slot) for a in cluster.attempts}
    assert len(slots) > 0.95 * WEEK * (1 / 600 + 1 / 3600)
    assert max(a.attempt for a in cluster.attempts) > 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("hundred", range(10))
def test_no_promise_is_broken_in_a_thousand_seeds(hundred: int) -> None:
    for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred):
        a_while(seed, "memory://")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("store", [sqlite, lock_directory, postgres, valkey])
def test_no_promise_is_broken_on_other_stores_in_a_hundred_seeds(
    store: Store, tmp_path: Path
) -> None:
    for seed in range(2000, 2100):
        with closing_store(store(tmp_path, seed)) as made:
            a_while(seed, made)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", [memory, sqlite, lock_directory])
def test_no_promise_is_broken_in_weeks_of_trouble(store: Store, tmp_path: Path) -> None:
    for seed in range(3000, 3005):
        a_week(seed, store(tmp_path, seed))
