"""Opening the file of a SQLite store: whose it is, its schema and its journal.

A store that is as it should be is opened by reading alone. All else happens under a lock beside
the file, because a change of the journal mode does not wait for other connections but fails, and
because two processes must not migrate at once.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from leasecron.backends.modes import PRIVATE, hand_over, open_side_file
from leasecron.backends.rows import Moment
from leasecron.backends.sqlite.errors import is_busy
from leasecron.backends.sqlite.place import Identity, Place, check_writable, identity_of
from leasecron.backends.sqlite.schema import is_current, migrate, schema_version
from leasecron.backends.sqlite.turnstile import Turnstile
from leasecron.errors import BackendError, BackendUnavailable

Durability = Literal["full", "normal"]
Journal = Literal["auto", "wal", "delete"]

BUSY = 0.5
"""Seconds that SQLite waits for a lock before it answers that it is busy."""

LIBRARY = (3, 32)
"""The SQLite that the statements need, and JSON in it: before it, 999 parameters were the most."""

_SET_UP = 4.0
_SWITCH = 1.0
_DAY = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose; see :class:`~leasecron.backends.sqlite.backend.SqliteBackend`."""

    durability: Durability
    journal: Journal
    mode: int = PRIVATE


@dataclass(frozen=True, slots=True)
class Ready:
    """A connection to a store, which file it is, and what the user should know of it."""

    connection: sqlite3.Connection
    identity: Identity
    warnings: tuple[str, ...]


def turnstile_of(place: Place) -> Turnstile:
    """Return the turnstile of a store, whose file is not made yet."""
    return Turnstile(f"{place.real}-turnstile", mode=place.mode, owner=place.owner)


def check_library(path: str) -> None:
    """Raise BackendError where Python's SQLite is older than what the statements need."""
    if sqlite3.sqlite_version_info < LIBRARY:
        needed = ".".join(map(str, LIBRARY))
        raise BackendError(
            f"the store {path} needs SQLite {needed} or newer, and this Python has "
            f"{sqlite3.sqlite_version}"
        )


def connect(real: str, *, make_like: str | None = None) -> sqlite3.Connection:
    """Open the file; only where another is given whose mode it gets may it come into being."""
    from urllib.parse import quote  # noqa: PLC0415 - slow to import, and needed once a store opens

    target = f"file://{quote(os.fsencode(real))}?mode=rw"
    if make_like is not None:  # else SQLite would make it with what the umask leaves
        target += f"c&modeof={quote(os.fsencode(make_like), safe='')}"
    return sqlite3.connect(
        target, timeout=BUSY, isolation_level=None, check_same_thread=False, uri=True
    )


def open_store(
    place: Place, settings: Settings, moment: Moment, migrating: Callable[[], None]
) -> Ready:
    """Make the store ready for use; raise where it cannot be.

    ``migrating`` is called before a store of an earlier version is brought up to date.
    """
    check_library(place.path)
    if place.filesystem.is_network and settings.journal == "wal":
        raise BackendError(
            f"the store {place.path} is on {place.filesystem.type}, which hosts may share, and a "
            "write-ahead log works on one host only: use journal='auto' or 'delete', or a local "
            "disk"
        )
    connection = connect(place.real) if os.path.lexists(place.real) else _make_file(place)
    try:
        warnings: tuple[str, ...] = ()
        if not _is_ready(connection, place, settings):
            warnings = _make_ready(connection, place, settings, moment, migrating)
        set_durability(connection, settings)
        if place.filesystem.is_network:
            warnings += (_network_warning(place), *_other_hosts(connection, place, moment))
        return Ready(connection, identity_of(place.path), warnings)
    except BaseException:
        connection.close()
        raise


def reopen_store(place: Place, settings: Settings) -> sqlite3.Connection:
    """Return a new connection to a store that this process has opened before; never create it."""
    check_writable(place)
    connection = connect(place.real)
    try:
        is_current(connection, place.path)
        set_durability(connection, settings)
    except BaseException:
        connection.close()
        raise
    return connection


def set_durability(connection: sqlite3.Connection, settings: Settings) -> None:
    """Choose how often SQLite waits for the disk; less than FULL is safe with WAL only."""
    relaxed = settings.durability == "normal" and journal_of(connection) == "wal"
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if relaxed else 'FULL'}")


def journal_of(connection: sqlite3.Connection) -> str:
    """Return the journal mode of the file."""
    return str(connection.execute("PRAGMA journal_mode").fetchall()[0][0])


def _wanted_journal(place: Place, settings: Settings) -> str:
    return "delete" if place.filesystem.is_network or settings.journal == "delete" else "wal"


def _is_ready(connection: sqlite3.Connection, place: Place, settings: Settings) -> bool:
    ready = is_current(connection, place.path)
    return ready and journal_of(connection) == _wanted_journal(place, settings)


def _make_file(place: Place) -> sqlite3.Connection:
    """Make the file of a new store, which stays empty for now."""
    with _set_up(place) as lock_file:
        is_new = not os.path.lexists(place.real)
        connection = connect(place.real, make_like=lock_file)
        try:
            if is_new:
                hand_over(place.real, place.owner)
        except BaseException:
            connection.close()
            raise
        return connection


def _make_ready(
    connection: sqlite3.Connection,
    place: Place,
    settings: Settings,
    moment: Moment,
    migrating: Callable[[], None],
) -> tuple[str, ...]:
    with _set_up(place):
        current = is_current(connection, place.path)
        warnings = _set_journal(connection, place, settings)
        if not current:
            if schema_version(connection, place.path):
                migrating()
            migrate(connection, moment.wall)
        return warnings


@contextmanager
def _set_up(place: Place) -> Iterator[str]:
    """Have the lock of those who set the store up, a file that grants what the store's does."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - slow to import, and needed once

    lock = FileLock(
        f"{place.real}-setup.lock",
        timeout=_SET_UP,
        poll_interval=0.01,
        fallback_to_soft=False,
        mode=place.mode,
    )
    try:
        os.close(open_side_file(lock.lock_file, place.mode, place.owner))
        with lock:
            yield lock.lock_file
    except Timeout as error:
        raise BackendUnavailable(
            f"the store {place.path} is being set up by another process for more than "
            f"{_SET_UP:g} s (lock file {lock.lock_file}): a large store of an earlier version "
            "takes longer to be brought up to date, once"
        ) from error
    except OSError as error:
        raise BackendError(f"the store {place.path} cannot be set up: {error}") from error


def _set_journal(
    connection: sqlite3.Connection, place: Place, settings: Settings
) -> tuple[str, ...]:
    wanted = _wanted_journal(place, settings)
    found = _switch_journal(connection, wanted)
    if found == wanted:
        return ()
    text = f"the store {place.path} stays in journal mode {found!r}, and {wanted!r} cannot be had"
    if settings.journal == "auto" and not place.filesystem.is_network:
        return (f"{text}; it works, with less throughput",)
    raise BackendUnavailable(
        f"{text} while other processes use it: give all instances the same journal option"
    )


def _switch_journal(connection: sqlite3.Connection, wanted: str) -> str:
    """Return the mode after the attempt, which waits for others; SQLite itself does not here."""
    deadline = time.monotonic() + _SWITCH
    while journal_of(connection) != wanted:
        try:
            answer = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchall()[0][0]
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if time.monotonic() >= deadline:
                break
            time.sleep(0.005)
        else:
            return str(answer)
    return journal_of(connection)


def _network_warning(place: Place) -> str:
    return (
        f"the store {place.path} is on {place.filesystem.type}: SQLite needs working locks there, "
        "uses its slower rollback journal, and instances on several hosts judge leases by their "
        "wall clocks"
    )


def _other_hosts(connection: sqlite3.Connection, place: Place, moment: Moment) -> tuple[str, ...]:
    """Note this host in the store, and name the others of the last day.

    Containers of one kernel have names of their own, so an equal boot is no other host.
    """
    host = os.uname().nodename
    boot = None if moment.boot is None else moment.boot.partition("/")[0]
    connection.execute(
        "INSERT INTO hosts(host, boot, seen) VALUES (?, ?, ?) "
        "ON CONFLICT (host) DO UPDATE SET boot = excluded.boot, seen = excluded.seen",
        (host, boot, moment.wall),
    )
    rows = connection.execute(
        "SELECT host FROM hosts WHERE host <> ? AND (boot IS NOT ? OR boot IS NULL) AND seen > ? "
        "ORDER BY host",
        (host, boot, moment.wall - _DAY),
    ).fetchall()
    if not rows:
        return ()
    names = ", ".join(str(row[0]) for row in rows)
    text = (
        f"the store {place.path} was used by {names} in the last day, and now by {host}: over "
        f"{place.filesystem.type} that is safe only where its locks work between hosts"
    )
    return (text,)
