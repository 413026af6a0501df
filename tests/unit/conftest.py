"""Fixtures of the tests that run whole instances in simulated time, and of those of SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.driver import Driver
from contract.hand_clock import HandClock
from fake_instances import START, Instances
from runs_support import Fleet
from store_bench import StoreBench
from support.files_in_memory import pytest_configure  # noqa: F401 - a hook
from timers_bench import Bench

from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.testing import FakeClock


@pytest.fixture
def seed() -> int:
    """The seed of the order of threads; a test parametrizes it where that order may matter."""
    return 0


@pytest.fixture
def instances(seed: int) -> Iterator[Instances]:
    """Instances that share a fake clock and a memory store, and are stopped in the end."""
    made = Instances(FakeClock(START, seed=seed))
    yield made
    made.stop()


@pytest.fixture
def fleet(seed: int) -> Iterator[Fleet]:
    """Instances whose lines to the memory store that they share can be cut."""
    made = Fleet(seed)
    yield made
    made.close()


@pytest.fixture
def unopened() -> Iterator[StoreBench]:
    """A store thread that is not started; whatever a test does with it, it ends."""
    made = StoreBench(FakeClock(START))
    yield made
    made.end()


@pytest.fixture
def opened(unopened: StoreBench) -> StoreBench:
    """A store thread that has opened its store."""
    unopened.queue.open()
    return unopened


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A timers thread without a scheduler."""
    made = Bench(FakeClock(START))
    yield made
    made.do((made.timers.end,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a SQLite store, whose file is not made yet."""
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[Driver]:
    """A SQLite store that a test drives, on a clock in its hand."""
    clock = HandClock()
    backend = SqliteBackend(path, durability="normal")
    backend.open(clock)
    yield Driver(backend, clock)
    backend.close()
