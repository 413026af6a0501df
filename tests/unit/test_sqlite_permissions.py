"""What a user without the rights is told. Run as another user where the tests run as root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import filelock  # noqa: F401 - whoever the test becomes need not be able to read this package
import pytest
import sqlite_utils  # noqa: F401 - the same
from contract.driver import a_claim

from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.errors import BackendError

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that everybody may enter."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def store(folder: Path) -> Path:
    """Return a store that was used and closed."""
    path = folder / "store.db"
    backend = SqliteBackend(path)
    backend.open()
    backend.claim([a_claim(0, "a", max_late=1e12)])
    backend.close()
    return path


@pytest.fixture
def as_nobody(store: Path) -> Iterator[None]:
    """Have no rights but those of everybody."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    yield
    if root:
        os.seteuid(0)


def refused(path: Path) -> str:
    with pytest.raises(BackendError) as caught:
        SqliteBackend(path).open()
    assert str(path) in str(caught.value)
    return str(caught.value)


def forbid(path: Path, mode: int) -> None:
    """Take the rights away, as the owner may."""
    euid = os.geteuid()
    if euid == NOBODY:
        os.seteuid(0)
    path.chmod(mode)
    if euid == NOBODY:
        os.seteuid(NOBODY)


@pytest.mark.usefixtures("as_nobody")
def test_a_file_that_may_not_be_written_is_refused(store: Path) -> None:
    forbid(store.parent, 0o777)
    forbid(store, 0o444)
    before = store.read_bytes()

    assert "no permission to write" in refused(store)
    assert store.read_bytes() == before
    forbid(store.parent, 0o755)


@pytest.mark.usefixtures("as_nobody")
def test_a_file_that_may_not_be_read_is_refused(store: Path) -> None:
    forbid(store.parent, 0o777)
    forbid(store, 0o222)

    assert "no permission to read" in refused(store)
    forbid(store.parent, 0o755)


@pytest.mark.usefixtures("as_nobody")
def test_a_folder_that_may_not_be_written_is_refused(store: Path) -> None:
    forbid(store, 0o666)
    forbid(store.parent, 0o555)

    assert "no permission to write in the folder" in refused(store)
    assert "no permission to write in the folder" in refused(store.with_name("new.db"))


@pytest.mark.usefixtures("as_nobody")
def test_a_folder_that_may_not_be_entered_is_refused(store: Path) -> None:
    forbid(store.parent, 0o600 if os.geteuid() == NOBODY else 0o000)

    assert "ermission" in refused(store)
    forbid(store.parent, 0o755)
