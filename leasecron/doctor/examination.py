"""A whole examination of a store: what can be looked at, and then what can be tried."""

from __future__ import annotations

from leasecron.backends.base import Backend
from leasecron.backends.checks import Check
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.server.protocols import ServerStore
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.doctor.look_at_lockdir import look_at_lockdir
from leasecron.doctor.look_at_sqlite import look_at_sqlite
from leasecron.doctor.looks import Look
from leasecron.doctor.report import Report
from leasecron.doctor.trials import try_out


def examine_store(backend: Backend, also: str | None = None) -> Report:
    """Say whether a store can be trusted on this machine.

    ``also`` is a second path to the store's directory, by another mount of it. The store is not
    made, not changed and not held up; what the trials make beside it is removed again. Takes about
    five seconds on a machine in order, and with ``also`` up to a minute more.
    """
    look = _look_at(backend)
    tried = [] if look.folder is None else try_out(look.folder, also, look.stakes)
    return Report(backend.description, [*look.checks, *tried, *look.contents])


def _look_at(backend: Backend) -> Look:
    match backend:
        case SqliteBackend():
            return look_at_sqlite(backend)
        case LockDirBackend():
            return look_at_lockdir(backend)
        case MemoryBackend():
            return _look_at_memory(backend)
        case ServerStore():
            return Look(backend.examine())
    checks = [Check("store", "warning", backend.description, "nothing is known of such a store")]
    return Look([*checks, *_quick(backend)])


def _quick(backend: Backend) -> list[Check]:
    backend.open()
    try:
        return [*backend.checks()]
    finally:
        backend.close()


def _look_at_memory(backend: MemoryBackend) -> Look:
    reason = (
        "instances in other processes know nothing of each other and would each run every job: use "
        "sqlite:// or lockdir:// for more than one process"
    )
    private = Check("processes", "warning", "one only", reason)
    return Look([*backend.checks(), private])
