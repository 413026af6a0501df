"""The memory store, of what no answer of it tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from contract.driver import JOB, Driver, at
from contract.hand_clock import HandClock

from leasecron.backends.memory.backend import MemoryBackend
from leasecron.model import Status, to_ms


class Watching(HandClock):
    """A clock that notes at each reading whether the store is locked."""

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__()
        self.locked: list[bool] = []
        self._backend = backend

    def wall(self) -> float:
        self.locked.append(self._backend._lock.locked())
        return super().wall()


@pytest.fixture
def backend() -> MemoryBackend:
    return MemoryBackend()


@pytest.fixture
def store(backend: MemoryBackend) -> Iterator[Driver]:
    clock = Watching(backend)
    backend.open(clock)
    yield Driver(backend, clock)
    backend.close()


def state(backend: MemoryBackend) -> str:
    assert backend._tables is not None
    row = backend._tables.row(JOB, to_ms(at(0)))
    assert row is not None
    return row.state


def test_the_clock_is_read_under_the_lock(store: Driver) -> None:
    store.win(0, "a")
    store.heartbeat(0, "a")
    assert isinstance(store.clock, Watching)
    assert len(store.clock.locked) > 2
    assert all(store.clock.locked)


@pytest.mark.parametrize(
    ("status", "kept"),
    [("success", "success"), ("failed", "failed"), ("interrupted", "replaced")],
)
def test_a_run_is_kept_as_what_it_ended_as(
    store: Driver, backend: MemoryBackend, status: Status, kept: str
) -> None:
    store.win(0, "a")
    assert state(backend) == "claimed"
    store.finish(0, "a", status)
    assert state(backend) == kept


def test_how_a_run_ended_is_not_changed_by_a_second_end(
    store: Driver, backend: MemoryBackend
) -> None:
    store.win(0, "a")
    store.finish(0, "a", "failed", keep_lease=True)
    store.finish(0, "a", "success")
    assert state(backend) == "failed"
