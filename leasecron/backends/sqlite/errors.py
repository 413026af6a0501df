"""How SQLite's errors leave the store: transient ones apart from those that stay."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from leasecron.errors import BackendError, BackendUnavailable, LeasecronError

_TRANSIENT = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,  # permissions can be given back, and a file moved back
    }
)
# SQLite's columns take values of any kind, and the first use of one that is wrong tells.
_OF_ANOTHER_KIND = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def is_busy(error: sqlite3.Error) -> bool:
    """Say whether another connection was in the way."""
    return _primary(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn the errors of the driver into those of the package, with the path and SQLite's text."""
    try:
        yield
    except sqlite3.Error as error:
        text = f"the store {path} failed: {error}"
        raise (BackendUnavailable(text) if _is_transient(error) else BackendError(text)) from error
    except UnicodeEncodeError as error:
        raise BackendError(f"the store {path} cannot keep this text: {error}") from error
    except UnicodeDecodeError as error:  # the Python module's, of SQLite's words for the damage
        raise BackendError(f"the store {path} is damaged: {error}") from error


@contextmanager
def understood(path: str) -> Iterator[None]:
    """Turn what comes of values of another kind than ours, read from a store, into BackendError."""
    try:
        yield
    except LeasecronError:
        raise
    except UnicodeEncodeError:  # of what shall be written
        raise
    except _OF_ANOTHER_KIND as error:
        raise BackendError(
            f"the store {path} holds what is none of leasecron's, such as a text for a number "
            f"({type(error).__name__}: {error}): it was changed by others or is damaged"
        ) from error


def is_read_only(error: BaseException) -> bool:
    """Say whether the connection cannot write, though its file is where it was."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None or code == sqlite3.SQLITE_READONLY_DBMOVED:
        return False
    return bool(code & 0xFF == sqlite3.SQLITE_READONLY)


def _is_transient(error: sqlite3.Error) -> bool:
    return _primary(error) in _TRANSIENT


def _primary(error: sqlite3.Error) -> int | None:
    """Return the primary code; errors that the Python module raises by itself have none."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
