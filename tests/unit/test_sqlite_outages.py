"""A SQLite store whose file is gone, locked or broken while it is open, and its way back."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contract.driver import LEASE, Driver, a_claim, at
from contract.hand_clock import HandClock

from leasecron.backends.rows import Moment
from leasecron.backends.sqlite import SqliteBackend
from leasecron.backends.sqlite_place import Place
from leasecron.backends.sqlite_setup import Settings, reopen_store
from leasecron.backends.turnstile import Turnstile
from leasecron.errors import BackendError, BackendUnavailable, SchedulerStateError
from leasecron.model import Ending


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


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


def test_nothing_is_claimed_while_the_file_is_gone(store: Driver, path: Path) -> None:
    store.win(0, "a")
    path.rename(path.with_suffix(".away"))
    store.clock.advance(1)

    for token in ("b", "c"):
        with pytest.raises(BackendUnavailable, match=r"gone.*until it is back"):
            store.claim(0, token, job="other")
    path.with_suffix(".away").rename(path)
    assert store.heartbeat(0, "a") == "ok"
    assert not list(path.parent.glob("*.away"))


def test_nothing_is_claimed_while_another_file_is_in_its_place(store: Driver, path: Path) -> None:
    store.win(0, "a")
    path.rename(path.with_suffix(".away"))
    path.touch()
    store.clock.advance(1)

    with pytest.raises(BackendUnavailable, match="replaced"):
        store.claim(0, "b", job="other")
    path.with_suffix(".away").replace(path)
    assert store.claim(0, "b").outcome == "running"
    assert store.heartbeat(0, "a") == "ok"


def test_the_file_is_looked_at_once_a_second(
    store: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    real = os.stat

    def stat(name: Any, *arguments: Any, **options: Any) -> os.stat_result:
        looks.append(str(name))
        return real(name, *arguments, **options)

    monkeypatch.setattr("leasecron.backends.sqlite_place.os.stat", stat)
    for slot in range(10):
        store.win(slot, "a", job=f"job-{slot}")
        store.clock.advance(0.2)

    assert len(looks) == 2


def test_a_suspended_store_comes_back_by_itself(store: Driver) -> None:
    store.win(0, "a")
    backend_of(store).suspend()
    backend_of(store).suspend()

    assert store.heartbeat(0, "a") == "ok"


def test_a_suspended_store_holds_no_descriptor(store: Driver, path: Path) -> None:
    def held() -> list[str]:
        links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
        targets = [os.readlink(link) for link in links if link.is_symlink()]
        return [target for target in targets if target.startswith(str(path))]

    store.win(0, "a")
    assert held()
    backend_of(store).suspend()
    assert held() == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_suspended_store_is_never_created_anew(store: Driver, path: Path, replaced: bool) -> None:
    backend_of(store).suspend()
    path.rename(path.with_suffix(".away"))
    if replaced:
        path.touch()

    with pytest.raises(BackendUnavailable):
        store.unfinished()
    with pytest.raises(BackendUnavailable):
        store.claim(0, "a")
    assert path.exists() == replaced
    path.with_suffix(".away").replace(path)
    assert store.claim(0, "a").outcome == "won"


def test_a_file_that_is_replaced_while_it_is_reopened_is_noticed(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SqliteBackend(path.with_name("other.db"))
    other.open()
    other.close()
    backend_of(store).suspend()

    def replace_and_reopen(place: Place, settings: Settings) -> sqlite3.Connection:
        path.rename(path.with_suffix(".away"))
        path.with_name("other.db").rename(path)
        return reopen_store(place, settings)

    connection = "leasecron.backends.sqlite_connection"
    with monkeypatch.context() as racing:
        racing.setattr(f"{connection}.reopen_store", replace_and_reopen)
        with pytest.raises(BackendUnavailable, match="replaced"):
            store.unfinished()
    with pytest.raises(BackendUnavailable, match="replaced"):
        store.unfinished()
    path.with_suffix(".away").replace(path)
    assert store.unfinished() == []


def test_a_file_that_vanishes_while_it_is_reopened_is_not_created(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend_of(store).suspend()
    away = path.with_suffix(".away")
    with monkeypatch.context() as racing:
        racing.setattr(
            "leasecron.backends.sqlite_setup.check_writable", lambda place: path.rename(away)
        )
        with pytest.raises(BackendUnavailable):
            store.unfinished()

    assert not path.exists()
    away.rename(path)
    assert store.unfinished() == []


def test_a_new_start_may_begin_with_a_new_file(store: Driver, path: Path) -> None:
    store.win(0, "a")
    store.backend.close()
    path.unlink()

    store.backend.open(store.clock)

    assert store.unfinished() == []
    assert store.claim(0, "b").attempt == 1


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
