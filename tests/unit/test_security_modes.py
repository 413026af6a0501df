"""What the files of a store grant when they are made, whatever the umask."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract.driver import a_claim

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.rows import Moment
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.setup import Journal
from leasecron.backends.urls import backend_for
from leasecron.errors import ConfigurationError
from leasecron.model import Declaration, Retention, from_seconds

Backend = SqliteBackend | LockDirBackend


@pytest.fixture(params=[0o000, 0o077], ids=lambda umask: f"umask-{umask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """The umask of the process, which changes nothing."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@contextmanager
def in_use(backend: Backend) -> Iterator[None]:
    """Have a store open of which every kind of call was made."""
    backend.open()
    now = from_seconds(time.time())
    backend.declare([Declaration("job", "")])
    backend.claim([replace(a_claim(0, "a"), slot=now)])
    backend.prune([Retention("job", 0.0, 0, 0.0)])
    yield
    backend.close()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> tuple[set[int], set[int]]:
    """Return the modes of all files in a folder, and of all folders."""
    paths = [*folder.rglob("*")]
    return (
        {mode_of(path) for path in paths if path.is_file()},
        {mode_of(path) for path in paths if path.is_dir()},
    )


def while_written(path: Path, mode: int | None, journal: Journal) -> dict[str, int]:
    """Return the modes of a SQLite store's files in the middle of a transaction."""
    options: dict[str, Any] = {} if mode is None else {"mode": mode}
    backend = SqliteBackend(path, journal=journal, **options)

    def look(connection: sqlite3.Connection, _now: Moment) -> dict[str, int]:
        connection.execute("UPDATE meta SET value = value + 1")
        return {file.name: mode_of(file) for file in path.parent.iterdir()}

    with in_use(backend), backend._store.call() as store:
        return store.write(look)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [None, 0o660])
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_the_files_of_sqlite_grant_what_was_asked_for(
    tmp_path: Path, mode: int | None, journal: Journal
) -> None:
    found = while_written(tmp_path / "store.db", mode, journal)

    beside = ("-wal", "-shm") if journal == "wal" else ("-journal",)
    assert set(found) == {f"store.db{end}" for end in ("", "-turnstile", "-setup.lock", *beside)}
    assert set(found.values()) == {0o600 if mode is None else mode}


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o666])
def test_a_sqlite_store_that_is_there_keeps_its_mode_and_the_files_beside_it_follow(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "store.db"
    path.touch()
    path.chmod(mode)

    assert set(while_written(path, 0o660, "wal").values()) == {mode}


def test_a_lock_file_left_by_an_older_store_decides_nothing(tmp_path: Path) -> None:
    left = tmp_path / "store.db-setup.lock"
    left.touch()
    left.chmod(0o666)

    assert set(while_written(tmp_path / "store.db", None, "wal").values()) == {0o600}


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(
    ("mode", "file", "folder"),
    [
        (None, 0o600, 0o700),
        (0o660, 0o660, 0o770),
        (0o640, 0o640, 0o750),
    ],
)
def test_who_may_read_the_files_of_a_lock_directory_may_enter_its_folders(
    tmp_path: Path, mode: int | None, file: int, folder: int
) -> None:
    locks = tmp_path / "locks"
    with in_use(LockDirBackend(locks, create=True, mode=mode)):
        assert modes(tmp_path) == ({file}, {folder})

    with in_use(LockDirBackend(locks, create=True, mode=0o600)):  # it was made differently
        assert modes(tmp_path) == ({file}, {folder})
    with in_use(LockDirBackend(locks)):
        assert modes(tmp_path) == ({file}, {folder})


@pytest.mark.parametrize(
    ("granted", "file"),
    [(0o700, 0o600), (0o755, 0o600), (0o775, 0o660), (0o1777, 0o666), (0o2770, 0o660)],
)
def test_in_a_directory_that_was_there_files_are_for_those_who_may_write_in_it(
    tmp_path: Path, granted: int, file: int
) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    locks.chmod(granted)
    with in_use(LockDirBackend(locks, create=True)):
        files, folders = modes(locks)
    assert files == {file}
    assert folders == {file | file >> 2 & 0o111 | granted & 0o2000}
    assert mode_of(locks) == granted


def test_a_lock_directory_of_an_older_version_goes_on_as_it_was_made(tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    with in_use(LockDirBackend(locks, create=True)):
        pass
    for path in (locks, *locks.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)

    with in_use(LockDirBackend(locks)):
        assert modes(locks) == ({0o644}, {0o755})


def test_a_url_may_name_the_mode(tmp_path: Path) -> None:
    for text in ("0660", "660"):
        backend = backend_for(f"sqlite:///{tmp_path}/{text}.db?mode={text}&durability=normal")
        backend.open()
        backend.close()
        assert mode_of(tmp_path / f"{text}.db") == 0o660


@pytest.mark.parametrize("text", ["ro", "", "0o660", "66", "00660", "0777", "0060", "-660", "0980"])
def test_a_url_with_a_wrong_mode_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="right"):
        backend_for(f"sqlite:///{tmp_path}/x.db?mode={text}")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("mode", [0, 0o400, 0o060, 0o700, 0o770, 0o777, 0o1600, 660, -1, 10**9])
@pytest.mark.parametrize("kind", [SqliteBackend, LockDirBackend])
def test_a_mode_that_is_none_for_files_is_refused(
    kind: type[Backend], mode: int, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        kind(tmp_path / "x.db", mode=mode)
    assert (f"0o{mode:o}" if 0 <= mode < 10**6 else f"{mode}") in str(caught.value)
    assert "such as 0o600" in str(caught.value)


@pytest.mark.parametrize("mode", ["0660", "rw", 432.0, True, [], b"660"])
@pytest.mark.parametrize("kind", [SqliteBackend, LockDirBackend])
def test_a_mode_is_an_int(kind: type[Backend], mode: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        kind(tmp_path / "x.db", mode=mode)
    assert repr(mode) in str(caught.value)
