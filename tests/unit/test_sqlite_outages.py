"""A SQLite store that is locked, slow or broken while it is open, and its way back."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from contract.driver import LEASE, Driver, a_claim, at
from contract.hand_clock import HandClock

from leasecron.backends.rows import Moment
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.turnstile import Turnstile
from leasecron.errors import BackendError, BackendUnavailable, SchedulerStateError
from leasecron.model import Ending


@pytest.fixture
def store(path: Path) -> Iterator[Driver]:
    backend = SqliteBackend(path, durability="normal")
    clock = HandClock()
    backend.open(clock)
    yield Driver(backend, clock)
    backend.close()


def backend_of(store: Driver) -> SqliteBackend:
    assert isinstance(store.backend, SqliteBackend)
    return store.backend


def test_a_locked_store_is_unavailable_and_comes_back(store: Driver, path: Path) -> None:
    store.win(0, "a")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(BackendUnavailable, match="locked") as caught:
            store.heartbeat(0, "a")

        assert str(path) in str(caught.value)
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert store.claim(0, "b").outcome == "running"  # a plain read
        other.execute("ROLLBACK")
    assert store.heartbeat(0, "a") == "ok"


def test_a_lease_counts_from_when_the_write_lock_was_had(
    store: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_long(_turnstile: Turnstile, _wait: float) -> bool:
        store.clock.advance(LEASE + 1)
        return False

    with monkeypatch.context() as waiting:
        waiting.setattr(Turnstile, "enter", wait_long)
        store.win(0, "a")
    store.clock.advance(LEASE - 1)

    assert store.claim(0, "b").outcome == "running"


def test_a_claim_that_waited_until_it_was_late_is_late(
    store: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_long(_turnstile: Turnstile, _wait: float) -> bool:
        store.clock.advance(10)
        return False

    monkeypatch.setattr(Turnstile, "enter", wait_long)

    assert store.claim(0, "a", max_late=5.0).outcome == "late"


def test_text_that_cannot_be_stored_leaves_no_transaction_open(store: Driver) -> None:
    with pytest.raises(BackendError) as caught:
        store.backend.claim([a_claim(0, "a"), a_claim(0, "a", job="lone \ud800")])

    assert isinstance(caught.value.__cause__, UnicodeEncodeError)
    assert not isinstance(caught.value, BackendUnavailable)
    assert store.claim(0, "b").outcome == "won"


@pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyboardInterrupt()])
def test_an_error_in_the_middle_undoes_the_transaction(store: Driver, error: BaseException) -> None:
    def work(connection: sqlite3.Connection, _moment: Moment) -> None:
        connection.execute("UPDATE meta SET value = 0")
        raise error

    with pytest.raises(type(error)), backend_of(store)._store.call() as call:
        call.write(work)

    assert store.win(0, "a") > 0


def test_a_connection_that_cannot_roll_back_is_replaced(store: Driver) -> None:
    def work(connection: sqlite3.Connection, _moment: Moment) -> None:
        connection.execute("UPDATE meta SET value = 0")
        connection.close()
        raise sqlite3.OperationalError("the disk is on fire")

    with pytest.raises(BackendError, match="on fire"), backend_of(store)._store.call() as call:
        call.write(work)

    assert store.win(0, "a") > 0


def test_any_thread_may_call_and_close(store: Driver) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for slot in range(20):
                token = f"{number}-{slot}"
                store.claim(slot, token, job=f"job-{number}", overlap="allow")
                store.backend.finish([Ending(f"job-{number}", at(slot), token, "success")])
                backend_of(store).suspend()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    closer = threading.Thread(target=store.backend.close)
    closer.start()
    closer.join()

    assert failures == []
    with pytest.raises(SchedulerStateError):
        store.unfinished()
    with pytest.raises(SchedulerStateError):
        store.claim(0, "a")


def test_two_stores_on_one_file_in_one_process_do_not_disturb_each_other(
    store: Driver, path: Path
) -> None:
    for slot in range(50):
        other = SqliteBackend(path)
        other.open(store.clock)
        store.win(slot, "a", overlap="allow")
        assert other.claim([a_claim(slot, "b", overlap="allow")])[0].outcome == "running"
        other.close()

    assert len(store.unfinished()) == 50
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_descriptors_do_not_grow(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path / "store.db")
    held = []
    for slot in range(50):
        backend.open()
        backend.claim([a_claim(slot, "a", overlap="allow", max_late=1e12)])
        backend.suspend()
        backend.history()
        backend.close()
        held.append(len(os.listdir("/proc/self/fd")))

    assert held[-1] <= held[1]
