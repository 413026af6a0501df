"""Which of SQLite's errors are outages that may end, and which stay."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.errors import translated
from leasecron.errors import BackendError, BackendUnavailable

TRANSIENT = {
    "SQLITE_BUSY": sqlite3.SQLITE_BUSY,
    "SQLITE_BUSY_SNAPSHOT": sqlite3.SQLITE_BUSY_SNAPSHOT,
    "SQLITE_LOCKED": sqlite3.SQLITE_LOCKED,
    "SQLITE_IOERR": sqlite3.SQLITE_IOERR,
    "SQLITE_IOERR_FSYNC": sqlite3.SQLITE_IOERR_FSYNC,
    "SQLITE_FULL": sqlite3.SQLITE_FULL,
    "SQLITE_CANTOPEN": sqlite3.SQLITE_CANTOPEN,
    "SQLITE_PROTOCOL": sqlite3.SQLITE_PROTOCOL,
    "SQLITE_READONLY_DBMOVED": sqlite3.SQLITE_READONLY_DBMOVED,
}
LASTING = {
    "SQLITE_ERROR": sqlite3.SQLITE_ERROR,
    "SQLITE_CORRUPT": sqlite3.SQLITE_CORRUPT,
    "SQLITE_NOTADB": sqlite3.SQLITE_NOTADB,
    "SQLITE_CONSTRAINT_UNIQUE": sqlite3.SQLITE_CONSTRAINT_UNIQUE,
}


def failure(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize("code", TRANSIENT.values(), ids=TRANSIENT)
def test_an_outage_may_end(code: int) -> None:
    with pytest.raises(BackendUnavailable), translated("/a/store.db"):
        raise failure(code)


@pytest.mark.parametrize("code", LASTING.values(), ids=LASTING)
def test_other_errors_stay(code: int) -> None:
    with pytest.raises(BackendError) as caught, translated("/a/store.db"):
        raise failure(code)

    assert not isinstance(caught.value, BackendUnavailable)


def test_an_error_has_the_path_the_text_and_its_cause() -> None:
    cause = failure(sqlite3.SQLITE_CORRUPT)
    with pytest.raises(BackendError) as caught, translated("/a/store.db"):
        raise cause

    assert str(caught.value) == "the store /a/store.db failed: what SQLite says"
    assert caught.value.__cause__ is cause


def test_an_error_of_the_module_itself_has_no_code() -> None:
    with pytest.raises(BackendError, match="closed"), translated("/a/store.db"):
        raise sqlite3.ProgrammingError("Cannot operate on a closed database.")


def test_errors_of_others_pass() -> None:
    with pytest.raises(KeyError), translated("/a/store.db"):
        raise KeyError("theirs")


def test_a_library_that_is_too_old_is_named_with_what_is_needed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.31.1")
    with pytest.raises(BackendError, match=r"needs SQLite 3\.32 or newer.* has 3\.31\.1"):
        SqliteBackend(path).open()
    assert not path.exists()
