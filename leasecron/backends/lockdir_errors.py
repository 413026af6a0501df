"""How the operating system's errors leave a lock directory: of one job, or of the whole of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from leasecron.errors import BackendError, BackendUnavailable

_OF_ONE_JOB = frozenset(
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
def translated_for_one(path: str) -> Iterator[None]:
    """Turn what concerns one job's folder alone into BackendError, so that it fails alone.

    Opening a store is like that too: what is wrong with it then does not mend itself.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _OF_ONE_JOB:
            raise BackendError(_text(path, error)) from error
        raise BackendUnavailable(_text(path, error)) from error


def _text(path: str, error: OSError) -> str:
    where = error.filename
    # The folder: the names of files differ each time, and a fault that repeats is logged once.
    folder = os.path.dirname(where) if isinstance(where, str) else path
    place = f" in {folder}" if folder.startswith(path + "/") else ""
    return f"the store {path} failed{place}: {error.strerror or error}"
