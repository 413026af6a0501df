"""Each contract test runs on every store with leases; those of claims alone on every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.files_in_memory import pytest_configure  # noqa: F401 - a hook
from support.servers import postgres_url, redis_url

from contract.claim_driver import ClaimDriver
from contract.driver import Driver
from contract.hand_clock import HandClock
from contract.held_postgres import HeldPostgres
from contract.held_redis import HeldRedis
from contract.server_clock import lock_directory
from leasecron.backends.base import ClaimOnlyBackend, ControlBackend
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.sqlite.backend import SqliteBackend

MakeBackend = Callable[[Path], ControlBackend]

BACKENDS: dict[str, MakeBackend] = {
    "memory": lambda folder: MemoryBackend(),
    "sqlite-wal": lambda folder: SqliteBackend(folder / "store.db", durability="normal"),
    "sqlite-delete": lambda folder: SqliteBackend(folder / "store.db", journal="delete"),
    "postgres": lambda folder: HeldPostgres(postgres_url()),
    "redis": lambda folder: HeldRedis(redis_url()),
}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def _parameters(names: Iterable[str]) -> list[Any]:
    """The journal changes nothing of what is decided: one will do for the fast tests."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=slow if name == "sqlite-delete" else ()) for name in names]


NAMES = _parameters(BACKENDS)
WITHOUT_SERVER = _parameters(name for name in BACKENDS if name not in {"postgres", "redis"})


def _made(request: pytest.FixtureRequest, folder: Path) -> ControlBackend:
    backend = BACKENDS[request.param](folder)
    if isinstance(backend, HeldRedis):
        request.addfinalizer(backend.drop)
    return backend


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> ControlBackend:
    return _made(request, tmp_path)


@pytest.fixture
def store(backend: ControlBackend, clock: HandClock) -> Iterator[Driver]:
    backend.open(clock)
    yield Driver(backend, clock)
    backend.close()


@pytest.fixture(params=WITHOUT_SERVER)
def store_without_server(
    request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock
) -> Iterator[Driver]:
    """An open store whose leases each observer judges by clocks of its own."""
    backend = BACKENDS[request.param](tmp_path)
    backend.open(clock)
    yield Driver(backend, clock)
    backend.close()


@pytest.fixture(params=["postgres", "redis"])
def store_in_server(
    request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock
) -> Iterator[Driver]:
    """An open store by whose clock a slot may be early."""
    backend = _made(request, tmp_path)
    assert isinstance(backend, (HeldPostgres, HeldRedis))
    backend.early = 1000
    backend.open(clock)
    yield Driver(backend, clock)
    backend.close()


@pytest.fixture(params=[*NAMES, "lockdir"])
def claiming(
    request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock
) -> Iterator[ClaimDriver]:
    """An open store of any kind."""
    backend: ClaimOnlyBackend | ControlBackend
    if request.param == "lockdir":
        backend = lock_directory(tmp_path / "locks", clock)
    else:
        backend = _made(request, tmp_path)
    backend.open(clock)
    yield ClaimDriver(backend, clock)
    backend.close()
