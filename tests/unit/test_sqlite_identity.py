"""A SQLite store whose file is gone or another one: nothing is claimed, nothing created."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contract.driver import Driver
from contract.hand_clock import HandClock

from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.place import Place
from leasecron.backends.sqlite.setup import Settings, reopen_store
from leasecron.errors import BackendUnavailable


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

    monkeypatch.setattr("leasecron.backends.sqlite.place.os.stat", stat)
    for slot in range(10):
        store.win(slot, "a", job=f"job-{slot}")
        store.clock.advance(0.2)

    logs = [look for look in looks if look.endswith("-wal")]
    assert (len(looks) - len(logs), len(logs)) == (2, 2)  # the log is noted once and checked once


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

    connection = "leasecron.backends.sqlite.connection"
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
            "leasecron.backends.sqlite.setup.check_writable", lambda place: path.rename(away)
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


@pytest.mark.parametrize("anew", [False, True])
def test_nothing_is_claimed_once_the_log_was_removed_under_an_open_store(
    store: Driver, path: Path, anew: bool
) -> None:
    store.win(0, "a")
    path.with_name("store.db-wal").unlink()
    if anew:
        path.with_name("store.db-wal").touch()
    store.clock.advance(1)

    with pytest.raises(BackendUnavailable, match=r"log.*was removed or replaced"):
        store.claim(0, "b", job="other")


def test_a_log_that_the_last_other_connection_leaves_alone_is_no_trouble(
    store: Driver, path: Path
) -> None:
    store.win(0, "a")
    for _ in range(3):
        other = SqliteBackend(path)
        other.open(store.clock)
        other.close()
        store.clock.advance(1)
        assert store.heartbeat(0, "a") == "ok"
    backend_of(store).suspend()
    store.clock.advance(1)
    assert store.heartbeat(0, "a") == "ok"
