"""What can be told of a SQLite store in a few milliseconds, without changing anything.

Of the database's files nothing is opened here: they are asked through a connection that SQLite
has, or by ``stat``.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence

from leasecron.backends.checks import Check
from leasecron.backends.filesystems import Filesystem
from leasecron.backends.rows import Moment
from leasecron.backends.sqlite.connection import StoreConnection
from leasecron.backends.sqlite.place import Place, examine
from leasecron.backends.sqlite.schema import CHANGES, schema_version
from leasecron.backends.sqlite.setup import Settings, journal_of
from leasecron.errors import BackendError, BackendMismatch

_SAID_BY_OPEN = frozenset({"filesystem", "journal", "hosts"})
_DAY = 24 * 3600 * 1000
_LEVELS = ("OFF", "NORMAL", "FULL", "EXTRA")
_HOSTS = """
    SELECT host FROM hosts WHERE host <> ? AND (boot IS NOT ? OR boot IS NULL) AND seen > ?
    ORDER BY host
"""
_OWN = {
    "overlay": "and a container's own layer: other containers do not see it",
    "ramfs": "and in memory: the store is gone after a restart of the machine",
    "tmpfs": "and in memory: the store is gone after a restart of the machine",
}


def checks_of(store: StoreConnection, settings: Settings) -> list[Check]:
    """Look at an open store; what fails is a check too, and not raised."""
    try:
        place = examine(store.path)
        with store.call() as call:
            return call.read(lambda connection, now: quick_checks(connection, place, settings, now))
    except BackendError as error:
        return [unusable(error)]


def not_said_by_open(checks: Sequence[Check]) -> list[str]:
    """Return why checks are not good, as far as opening the store gives no warning of its own."""
    others = (check for check in checks if check.name not in _SAID_BY_OPEN)
    return [check.reason for check in others if check.verdict != "good"]


def quick_checks(
    connection: sqlite3.Connection, place: Place, settings: Settings, moment: Moment
) -> list[Check]:
    """Look at the file, its filesystem, its schema, its journal and the hosts that use it."""
    return [
        check_file(place),
        check_filesystem(place.path, place.filesystem),
        _check_schema(connection, place.path),
        _check_journal(connection, place, settings),
        _check_synchronous(connection, place.path),
        *_check_hosts(connection, place, moment),
    ]


def unusable(error: BackendError) -> Check:
    """Return what it means that the store, or what is in it, cannot be used."""
    name = "schema" if isinstance(error, BackendMismatch) else "file"
    return Check(name, "bad", "cannot be used", str(error))


def check_file(place: Place) -> Check:
    """Look at what the path leads to; ``place`` was found to be usable as far as it exists."""
    try:
        size = os.stat(place.real).st_size
    except OSError as error:
        reason = f"the file of the store {place.path} is gone: nothing is claimed until it is back"
        return Check("file", "bad", error.strerror or "gone", reason)
    return Check("file", "good", f"{size:,} bytes", "it can be read and written, under one name")


def check_filesystem(path: str, filesystem: Filesystem) -> Check:
    """Say whether the store is on a filesystem that SQLite works on without reserve."""
    found = str(filesystem)
    option = filesystem.private_locks
    if option:
        reason = (
            f"with the mount option {option} no host sees the locks of another, and two would "
            "write at once: mount it with working locks, or use lockdir://"
        )
        return Check("filesystem", "bad", found, reason)
    if filesystem.is_network:
        reason = (
            f"hosts may share the {filesystem.type} under the store {path}: SQLite needs working "
            "locks there, uses its slower rollback journal, and instances on several hosts judge "
            "leases by their wall clocks"
        )
        return Check("filesystem", "warning", found, reason)
    reason = f"it is local to this host{_also(filesystem)}"
    return Check("filesystem", "good", found, reason)


def _also(filesystem: Filesystem) -> str:
    return f", {_OWN[filesystem.type]}" if filesystem.type in _OWN else ""


def _check_schema(connection: sqlite3.Connection, path: str) -> Check:
    version = schema_version(connection, path)
    found = f"version {version} of {len(CHANGES)}"
    if version == len(CHANGES):
        return Check("schema", "good", found, "this leasecron knows it")
    if version > len(CHANGES):
        reason = f"the store {path} was made by a newer leasecron: update leasecron here too"
        return Check("schema", "bad", found, reason)
    reason = f"the next start() brings the store {path} up to date, which older versions refuse"
    return Check("schema", "warning", found, reason)


def _check_journal(connection: sqlite3.Connection, place: Place, settings: Settings) -> Check:
    found = journal_of(connection)
    shared = place.filesystem.is_network
    if found == "wal":
        return _judge_log(place, settings, shared=shared)
    if shared and settings.journal == "wal":
        reason = "start() refuses journal=wal on a filesystem that hosts may share: leave it out"
        return Check("journal", "bad", found, reason)
    if shared or settings.journal == "delete":
        return Check(
            "journal", "good", found, "as it has to be on this filesystem or was asked for"
        )
    reason = (
        f"the store {place.path} has journal mode {found!r}: it works, with less throughput, until "
        "start() changes it once no other process uses the store"
    )
    return Check("journal", "warning", found, reason)


def _judge_log(place: Place, settings: Settings, *, shared: bool) -> Check:
    if shared:
        reason = (
            f"a write-ahead log works on one host only, and hosts may share "
            f"{place.filesystem.type}: stop all instances, and start() changes it"
        )
        return Check("journal", "bad", "wal", reason)
    if settings.journal == "delete":
        reason = (
            f"the store {place.path} has journal mode 'wal' though 'delete' was asked for: start() "
            "changes it once no other process uses the store"
        )
        return Check("journal", "warning", "wal", reason)
    return Check("journal", "good", "wal", "readers and writers do not wait for each other")


def _check_synchronous(connection: sqlite3.Connection, path: str) -> Check:
    level = int(connection.execute("PRAGMA synchronous").fetchall()[0][0])
    found = _LEVELS[level]
    if level >= _LEVELS.index("FULL"):
        return Check("synchronous", "good", found, "what was committed survives a loss of power")
    if level == _LEVELS.index("NORMAL"):
        reason = "a loss of power may take the last commits back: a finished run is run again"
        return Check("synchronous", "good", found, reason)
    reason = f"a loss of power may destroy the store {path}"
    return Check("synchronous", "bad", found, reason)


def _check_hosts(connection: sqlite3.Connection, place: Place, moment: Moment) -> list[Check]:
    """Name the other hosts of the last day; only stores on shared filesystems note them."""
    if not place.filesystem.is_network:
        return []
    host = os.uname().nodename
    boot = None if moment.boot is None else moment.boot.partition("/")[0]
    rows = connection.execute(_HOSTS, (host, boot, moment.wall - _DAY)).fetchall()
    if not rows:
        return [Check("hosts", "good", "this one", "no other one used the store in the last day")]
    reason = (
        f"these hosts used the store {place.path} in the last day, which is safe only where the "
        f"locks of {place.filesystem.type} work between hosts"
    )
    return [Check("hosts", "warning", ", ".join(str(row[0]) for row in rows), reason)]
