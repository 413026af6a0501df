"""The journal mode and durability of a SQLite store, by filesystem and by choice."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contract.driver import LEASE, Driver, a_claim
from contract.hand_clock import HandClock

from leasecron.backends.filesystems import Filesystem
from leasecron.backends.sqlite import place as sqlite_place
from leasecron.backends.sqlite import setup as sqlite_setup
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.errors import BackendError, BackendUnavailable

OnFilesystem = Callable[..., None]
FULL, NORMAL = 2, 1


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> OnFilesystem:
    """Return a function that puts every store on a filesystem of this type."""

    def put(kind: str, *options: str) -> None:
        found = Filesystem(kind, frozenset(options))
        monkeypatch.setattr(sqlite_place, "filesystem_of", lambda path: found)

    return put


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes this host have a name."""

    def name(nodename: str) -> None:
        class System:
            def __init__(self) -> None:
                self.nodename = nodename

        monkeypatch.setattr("leasecron.backends.sqlite.setup.os.uname", System)

    return name


def settings_of(backend: SqliteBackend) -> tuple[str, int]:
    """Return the journal mode and the level of synchronous writes."""
    with backend._store.call() as store:
        return store.read(
            lambda connection, _now: (
                connection.execute("PRAGMA journal_mode").fetchone()[0],
                connection.execute("PRAGMA synchronous").fetchone()[0],
            )
        )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("wal", FULL)),
        ({"journal": "wal"}, ("wal", FULL)),
        ({"durability": "normal"}, ("wal", NORMAL)),
        ({"journal": "delete"}, ("delete", FULL)),
        ({"journal": "delete", "durability": "normal"}, ("delete", FULL)),
    ],
)
def test_a_local_store_has_the_settings_it_was_given(
    path: Path, options: dict[str, Any], expected: tuple[str, int]
) -> None:
    backend = SqliteBackend(path, **options)
    backend.open()

    assert settings_of(backend) == expected
    backend.suspend()
    assert settings_of(backend) == expected
    assert backend.warnings == ()
    backend.close()


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.unknown", "no-such-type"])
def test_a_network_store_has_no_write_ahead_log(path: Path, on: OnFilesystem, kind: str) -> None:
    on(kind)
    backend = SqliteBackend(path, durability="normal")
    backend.open()

    assert settings_of(backend) == ("delete", FULL)
    (warning,) = backend.warnings
    assert str(path) in warning
    assert kind in warning
    backend.close()


def test_a_write_ahead_log_on_a_network_is_refused(path: Path, on: OnFilesystem) -> None:
    on("nfs4")

    with pytest.raises(BackendError, match="nfs4") as caught:
        SqliteBackend(path, journal="wal").open()
    assert "journal='auto'" in str(caught.value)
    assert not path.exists()


@pytest.mark.parametrize("option", ["nolock", "local_lock=all"])
def test_a_network_without_working_locks_is_refused(
    path: Path, on: OnFilesystem, option: str
) -> None:
    on("nfs", "rw", option)

    for journal in ("auto", "wal", "delete"):
        with pytest.raises(BackendError, match=option):
            SqliteBackend(path, journal=journal).open()
    assert not path.exists()


def test_a_store_with_a_log_leaves_it_when_it_comes_to_a_network(
    path: Path, on: OnFilesystem
) -> None:
    backend = SqliteBackend(path)
    backend.open()
    backend.claim([a_claim(0, "a", max_late=1e12)])
    backend.close()
    on("nfs4")

    backend.open()

    assert settings_of(backend) == ("delete", FULL)
    assert len(backend.unfinished(["job"])) == 1
    backend.close()


def test_a_store_in_use_with_a_log_is_not_used_on_a_network_with_it(
    path: Path, on: OnFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_setup, "_SWITCH", 0.02)
    local = SqliteBackend(path)
    local.open()
    on("nfs4")

    with pytest.raises(BackendUnavailable, match="the same journal option"):
        SqliteBackend(path).open()
    local.close()
    remote = SqliteBackend(path)
    remote.open()
    remote.close()


def test_a_store_in_use_without_a_log_is_used_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_setup, "_SWITCH", 0.02)
    first = SqliteBackend(path, journal="delete")
    first.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM runs").fetchall()
        second = SqliteBackend(path)

        second.open()

        assert settings_of(second) == ("delete", FULL)
        (warning,) = second.warnings
        assert "'delete'" in warning
        with pytest.raises(BackendUnavailable, match="the same journal option"):
            SqliteBackend(path, journal="wal").open()
    second.close()
    first.close()


def test_another_host_on_the_network_is_named(
    path: Path, on: OnFilesystem, host: Callable[[str], None]
) -> None:
    on("nfs4")
    clock = HandClock()

    def warnings_of(name: str, boot: str | None) -> str:
        host(name)
        clock.boot = boot
        backend = SqliteBackend(path)
        backend.open(clock)
        backend.close()
        return " ".join(backend.warnings[1:])

    assert warnings_of("web1", "boot-1/a") == ""
    assert warnings_of("web1", "boot-2/a") == ""  # the same host after a boot
    assert warnings_of("container", "boot-2/b") == ""  # another name on the same kernel
    assert "container, web1" in warnings_of("web2", "boot-3/a")
    clock.advance(25 * 3600)
    assert warnings_of("web3", None) == ""
    assert "web3" in warnings_of("web4", None)


def test_a_local_store_notes_no_hosts(path: Path) -> None:
    backend = SqliteBackend(path)
    backend.open()
    backend.close()

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM hosts").fetchall() == []


def test_on_a_network_the_wall_clock_judges_the_lease_of_another_boot(
    path: Path, on: OnFilesystem
) -> None:
    on("nfs4")
    clock = HandClock()
    backend = SqliteBackend(path)
    backend.open(clock)
    store = Driver(backend, clock)
    store.win(0, "a")
    with clock.seen_by(boot="boot-b/ns-1", uptime=-4900):
        assert store.claim(0, "b").outcome == "running"
    clock.advance(LEASE)
    with clock.seen_by(boot="boot-b/ns-1", uptime=-4900):
        assert store.claim(0, "b").attempt == 2
    backend.close()


def test_on_a_network_a_lease_of_the_own_boot_survives_a_step_of_the_wall_clock(
    path: Path, on: OnFilesystem
) -> None:
    on("nfs4")
    clock = HandClock()
    backend = SqliteBackend(path)
    backend.open(clock)
    store = Driver(backend, clock)
    store.win(0, "a")
    clock.step(28_800)

    assert store.claim(0, "b").outcome == "running"
    backend.close()
