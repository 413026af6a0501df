"""What ``checks()`` and the doctor say of a SQLite store's filesystem, journal and durability."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import doctor_support
import pytest
from doctor_support import OnFilesystem, by_name, looked, make, verdicts

from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.clock import SystemClock
from leasecron.doctor.look_at_sqlite import look_at_sqlite
from leasecron.errors import SchedulerStateError

path, store, on = doctor_support.path, doctor_support.store, doctor_support.on


# The filesystem and the journal


def test_a_filesystem_that_hosts_may_share_is_warned_of(path: Path, on: OnFilesystem) -> None:
    on("nfs4", "rw", "vers=4.2")
    make(path)

    found = by_name(looked(path))

    assert found["filesystem"].verdict == "warning"
    assert found["filesystem"].found == "nfs4 (rw, vers=4.2)"
    assert found["journal"].verdict == "good"
    assert found["clock"].verdict == "warning"


def test_locks_that_stay_on_one_host_are_bad(path: Path, on: OnFilesystem) -> None:
    make(path)
    on("nfs", "rw", "nolock")

    look = looked(path)

    assert verdicts(look) == {"file": "bad", "filesystem": "bad", "space": "good"}
    assert look.folder is None


def test_a_write_ahead_log_on_a_network_is_bad(path: Path, on: OnFilesystem) -> None:
    make(path)
    on("cifs")

    check = by_name(looked(path))["journal"]

    assert (check.verdict, check.found) == ("bad", "wal")


def test_a_write_ahead_log_that_is_asked_for_on_a_network_is_bad(
    path: Path, on: OnFilesystem
) -> None:
    on("cifs")
    make(path)

    check = by_name(look_at_sqlite(SqliteBackend(path, journal="wal")))["journal"]

    assert (check.verdict, check.found) == ("bad", "delete")


def test_a_slower_journal_than_could_be_had_is_warned_of(path: Path) -> None:
    backend = SqliteBackend(path, journal="delete")
    backend.open()
    backend.close()

    assert by_name(looked(path))["journal"].verdict == "warning"
    assert by_name(look_at_sqlite(backend))["journal"].verdict == "good"


def test_a_journal_other_than_asked_for_is_warned_of(path: Path) -> None:
    make(path)

    look = look_at_sqlite(SqliteBackend(path, journal="delete"))

    assert by_name(look)["journal"].verdict == "warning"


def test_less_durability_that_was_asked_for_is_shown(path: Path) -> None:
    make(path)

    look = look_at_sqlite(SqliteBackend(path, durability="normal"))

    assert by_name(look)["synchronous"].found == "NORMAL"
    assert by_name(look)["synchronous"].verdict == "good"


def test_no_durability_at_all_is_bad(path: Path, store: SqliteBackend) -> None:
    with store._store.call() as inside:
        _opened, link = inside._usable()
        link.connection.execute("PRAGMA synchronous = OFF")

    assert by_name(store.checks())["synchronous"].verdict == "bad"


def test_other_hosts_are_named(path: Path, on: OnFilesystem) -> None:
    on("nfs4")
    make(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE hosts SET host = 'web1', boot = 'another'")
        connection.commit()

    check = by_name(looked(path))["hosts"]

    assert (check.verdict, check.found) == ("warning", "web1")


def test_boots_without_a_name_are_warned_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(path)
    monkeypatch.setattr(SystemClock, "boot_id", lambda self: None)

    assert by_name(looked(path))["clock"].verdict == "warning"


# What start() says


def test_the_checks_of_an_open_store_are_good(store: SqliteBackend) -> None:
    assert set(verdicts(store.checks()).values()) == {"good"}
    assert store.warnings == ()


def test_a_network_is_warned_of_once(path: Path, on: OnFilesystem) -> None:
    on("nfs4")
    backend = SqliteBackend(path)
    backend.open()

    assert verdicts(backend.checks())["filesystem"] == "warning"
    assert len(backend.warnings) == 1
    backend.close()


def test_what_checks_find_beyond_opening_is_a_warning(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasecron.backends.sqlite.setup.set_durability", _no_durability)
    backend = SqliteBackend(path)
    backend.open()

    assert backend.warnings == (by_name(backend.checks())["synchronous"].reason,)
    assert str(path) in backend.warnings[0]
    backend.close()


def _no_durability(connection: sqlite3.Connection, settings: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")


def test_a_file_that_is_gone_is_a_check_and_no_exception(path: Path, store: SqliteBackend) -> None:
    away = path.rename(path.with_name("away.db"))

    assert by_name(store.checks())["file"].verdict == "bad"
    away.rename(path)


def test_a_folder_that_is_gone_is_a_check_and_no_exception(
    path: Path, store: SqliteBackend
) -> None:
    away = path.parent.rename(path.parent.with_name("away"))

    (check,) = store.checks()

    away.rename(path.parent)
    assert check.verdict == "bad"
    assert "does not exist" in check.reason


def test_a_store_that_is_not_open_has_no_checks(path: Path) -> None:
    with pytest.raises(SchedulerStateError):
        SqliteBackend(path).checks()


def test_memory_says_that_it_is_for_one_process() -> None:
    (check,) = MemoryBackend().checks()

    assert check.verdict == "good"
    assert "no other process" in check.reason
