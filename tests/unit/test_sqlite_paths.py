"""Which paths and files a SQLite store takes, and what it says of the others."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contract.driver import a_claim

from leasecron.backends.filesystems import Filesystem
from leasecron.backends.sqlite import place as sqlite_place
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.schema import APPLICATION_ID, CHANGES
from leasecron.errors import BackendError, BackendMismatch, ConfigurationError

Place = Any


def opened(path: Path, **options: Any) -> SqliteBackend:
    """Return an open store that has been written to."""
    backend = SqliteBackend(path, **options)
    backend.open()
    backend.claim([a_claim(0, "a", max_late=1e12)])
    return backend


def refused(path: Path, **options: Any) -> str:
    """Return the message with which a store is refused."""
    backend = SqliteBackend(path, **options)
    with pytest.raises(BackendError) as caught:
        backend.open()
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["a#b.db", "a?mode=memory", "100%41.db", " a b ", "ü🎉.db", "file:x", "a'b\".db", "-x"]
)
def test_odd_names_are_plain_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = SqliteBackend(name)
    monkeypatch.chdir("/")
    backend.open()
    backend.suspend()
    assert backend.history() == []
    backend.claim([a_claim(0, "a", max_late=1e12)])

    assert backend.path == str(tmp_path / name)
    assert (tmp_path / name).stat().st_size > 0
    assert {file.name for file in tmp_path.iterdir()} >= {name, f"{name}-turnstile"}
    backend.close()


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_path_that_names_no_file_points_to_the_memory_store(path: str) -> None:
    with pytest.raises(ConfigurationError, match="memory://"):
        SqliteBackend(path)


@pytest.mark.parametrize("path", ["a\0b", b"bytes.db", 7, None])
def test_a_path_that_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises((ConfigurationError, TypeError)):
        SqliteBackend(path)


@pytest.mark.parametrize("option", ["durability", "journal"])
@pytest.mark.parametrize("value", ["FULL", "", None, True, "truncate"])
def test_a_wrong_option_is_named_with_its_value(tmp_path: Path, option: str, value: Any) -> None:
    wrong: dict[str, Any] = {option: value}
    with pytest.raises(ConfigurationError) as caught:
        SqliteBackend(tmp_path / "store.db", **wrong)

    assert f"{option}={value!r}" in str(caught.value)


def test_a_folder_is_never_created(tmp_path: Path) -> None:
    message = refused(tmp_path / "missing" / "store.db")

    assert "does not exist" in message
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")

    assert "not a folder" in refused(tmp_path / "file" / "store.db").lower().replace(
        "not a directory", "not a folder"
    )


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    assert "it is a folder" in refused(tmp_path)


def test_a_special_file_is_not_a_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert "not a regular file" in refused(tmp_path / "pipe")


def test_a_link_that_leads_in_circles_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").symlink_to(tmp_path / "store.db")

    assert "cannot be used" in refused(tmp_path / "store.db")


def test_a_file_with_two_names_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "store.db").close()
    os.link(tmp_path / "store.db", tmp_path / "other.db")

    for name in ("store.db", "other.db"):
        message = refused(tmp_path / name)
        assert "2 hard links" in message
        assert "Mount the directory" in message


def test_a_file_that_is_a_mount_point_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path / "store.db").close()
    monkeypatch.setattr(
        sqlite_place, "filesystem_of", lambda path: Filesystem("ext4", is_mount_point=True)
    )

    message = refused(tmp_path / "store.db")

    assert "itself a mount point" in message
    assert "Mount the directory" in message


def test_two_links_lead_to_one_store_and_one_turnstile(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "data" / "store.db")
    first = opened(tmp_path / "link.db")
    second = SqliteBackend(tmp_path / "data" / "store.db")
    second.open()

    (answer,) = second.claim([a_claim(0, "b", max_late=1e12)])

    assert answer.outcome == "running"
    assert [file.name for file in tmp_path.glob("*-turnstile")] == []
    assert [file.name for file in tmp_path.glob("data/*-turnstile")] == ["store.db-turnstile"]
    first.close()
    second.close()


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()

    opened(tmp_path / "store.db").close()


def test_the_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs(x)")
    before = path.read_bytes()

    assert "another program" in refused(path)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*-wal"))


@pytest.mark.parametrize("pragma", ["application_id = 4711", "user_version = 3"])
def test_a_file_with_marks_of_another_program_is_left_alone(tmp_path: Path, pragma: str) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA {pragma}")
    before = path.read_bytes()

    assert "another program" in refused(path)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(CHANGES) + 1}")
    before = path.read_bytes()

    backend = SqliteBackend(path)
    with pytest.raises(BackendMismatch, match="newer leasecron"):
        backend.open()
    assert path.read_bytes() == before


def test_a_damaged_header_is_reported_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path).close()
    damaged = os.urandom(100) + path.read_bytes()[100:]
    path.write_bytes(damaged)

    assert "not a database" in refused(path)
    assert path.read_bytes() == damaged


def test_a_file_that_was_cut_off_is_reported_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path).close()
    whole = path.read_bytes()
    for length in (len(whole) - 4096, len(whole) // 2 + 1, 50):
        path.write_bytes(whole[:length])
        refused(path)
        assert path.read_bytes() == whole[:length]


def test_a_file_whose_newest_pages_are_still_in_the_log_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first = opened(path)
    assert path.stat().st_size < os.stat(f"{path}-wal").st_size

    second = SqliteBackend(path)
    second.open()

    assert second.unfinished(["job"])
    second.close()
    first.close()


def test_a_damaged_store_does_not_stay_half_open(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"no database at all" * 100)
    backend = SqliteBackend(path)
    with pytest.raises(BackendError):
        backend.open()
    path.unlink()

    backend.open()

    assert backend.history() == []
    backend.close()


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path).close()

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(CHANGES),)
