"""A lock directory, looked at as an instance does that starts, which changes nothing in it."""

from __future__ import annotations

import contextlib

from leasecron.backends.checks import Check
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.doctor.looks import Look
from leasecron.doctor.stakes import LOCKDIR
from leasecron.errors import BackendError, BackendMismatch

_LEASES = Check(
    "leases",
    "good",
    "none",
    "a lock directory has none: a slot that was claimed is not run again, whatever became of it",
)


def look_at_lockdir(backend: LockDirBackend) -> Look:
    """Look at a store; where it is none that can be used, say why and try nothing."""
    try:
        backend.open()
    except BackendError as error:
        name = "format" if isinstance(error, BackendMismatch) else "directory"
        return Look([Check(name, "bad", "cannot be used", str(error))])
    try:
        with contextlib.suppress(BackendError):  # which the check of the history tells of
            backend.history(limit=1)  # reads all of it, and counts what is damaged
        checks = backend.checks()
    finally:
        backend.close()
    return Look(checks, backend.path, LOCKDIR, [_LEASES])
