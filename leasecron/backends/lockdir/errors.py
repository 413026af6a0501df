"""How the operating system's errors leave a lock directory: of one item, or of the whole of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from leasecron.backends.base import OneUnavailable
from leasecron.backends.lockdir.marker import Directory
from leasecron.errors import BackendError, BackendUnavailable

_LASTING = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
    }
)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn errors of the whole store into BackendUnavailable: the same call may succeed later."""
    try:
        yield
    except OSError as error:
        raise BackendUnavailable(_text(path, error)) from error


@contextmanager
def lasting(path: str) -> Iterator[None]:
    """Turn what does not mend itself, such as a missing permission, into BackendError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _LASTING:
            raise
        raise BackendError(_text(path, error)) from error


@contextmanager
def passing(directory: Directory) -> Iterator[None]:
    """Turn an error, while the directory itself can be read, into one that is of this item alone.

    It is asked for again, and what else was asked for does not wait for that.
    """
    try:
        yield
    except OSError as error:
        directory.check()
        raise OneUnavailable(_text(directory.path, error)) from error


def _text(path: str, error: OSError) -> str:
    where = error.filename
    # The folder: the names of files differ each time, and a fault that repeats is logged once.
    folder = os.path.dirname(where) if isinstance(where, str) else path
    place = f" in {folder}" if folder.startswith(path + "/") else ""
    return f"the store {path} failed{place}: {error.strerror or error}"
