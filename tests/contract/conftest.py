"""Each contract test runs on every store with leases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contract.driver import Driver
from contract.hand_clock import HandClock
from leasecron.backends.base import LeaseBackend
from leasecron.backends.memory import MemoryBackend
from leasecron.backends.sqlite import SqliteBackend

MakeBackend = Callable[[Path], LeaseBackend]

BACKENDS: dict[str, MakeBackend] = {
    "memory": lambda folder: MemoryBackend(),
    "sqlite-wal": lambda folder: SqliteBackend(folder / "store.db", durability="normal"),
    "sqlite-delete": lambda folder: SqliteBackend(folder / "store.db", journal="delete"),
}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> LeaseBackend:
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
def store(backend: LeaseBackend, clock: HandClock) -> Iterator[Driver]:
    backend.open(clock)
    yield Driver(backend, clock)
    backend.close()
