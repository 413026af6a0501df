"""A SQLite store, looked at by a connection of its own, which changes nothing.

Opening the store as an instance does may bring its schema up to date, change its journal and note
this host in it; so that is not done here.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from leasecron.backends.checks import Check
from leasecron.backends.filesystems import filesystem_of
from leasecron.backends.rows import Moment, read_moment
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.checks import check_filesystem, quick_checks, unusable
from leasecron.backends.sqlite.contents import contents_of
from leasecron.backends.sqlite.errors import is_busy, translated, understood
from leasecron.backends.sqlite.place import Place, examine
from leasecron.backends.sqlite.schema import is_current
from leasecron.backends.sqlite.setup import Settings, reopen_store, turnstile_of
from leasecron.clock import SystemClock
from leasecron.doctor.looks import Look
from leasecron.doctor.space import check_space
from leasecron.doctor.stakes import SQLITE
from leasecron.errors import BackendError

_PATIENT = 3.0
_TURN = 0.25


def look_at_sqlite(backend: SqliteBackend) -> Look:
    """Look at a store; where it is none that can be used, say why and try nothing."""
    try:
        place = examine(backend.path)
        if not place.exists:
            return Look([_missing(backend)])
        return _look(place, backend.settings)
    except BackendError as error:
        return Look([unusable(error), *_around(backend.path)])


def _missing(backend: SqliteBackend) -> Check:
    command = f"leasecron init {shlex.quote(backend.description)}"
    return Check("file", "bad", "missing or empty", f"there is no store yet: make it by {command}")


def _around(path: str) -> Iterator[Check]:
    """Look at what may be the cause of an error that SQLite has no words for."""
    yield check_filesystem(path, filesystem_of(path))
    if os.path.exists(path):
        yield check_space(os.path.dirname(os.path.realpath(path)))


def _look(place: Place, settings: Settings) -> Look:
    moment = read_moment(SystemClock(), local=not place.filesystem.is_network)
    path = place.path
    with translated(path), understood(path), _connected(place, settings) as connection:
        connection.execute("BEGIN")
        checks = quick_checks(connection, place, settings, moment)
        current = is_current(connection, place.path)
        contents = contents_of(connection, moment) if current else []
        connection.execute("COMMIT")
        if current:
            checks.append(_check_write(connection))
        checks.append(_check_clock(moment))
    return Look(checks, os.path.dirname(place.real), SQLITE, contents)


@contextmanager
def _connected(place: Place, settings: Settings) -> Iterator[sqlite3.Connection]:
    connection = reopen_store(place, settings)
    try:
        connection.execute(f"PRAGMA busy_timeout = {round(_PATIENT * 1000)}")
        yield connection
    finally:
        _close(connection, place)


def _close(connection: sqlite3.Connection, place: Place) -> None:
    """Close in turn, as every user of the file does; without making the file for that."""
    turnstile = turnstile_of(place)
    held = turnstile.enter(_TURN, make=False)
    try:
        connection.close()
    finally:
        if held:
            turnstile.leave()
        turnstile.close()


def _check_write(connection: sqlite3.Connection) -> Check:
    """Take the write lock, change something, and take the change back."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        # Without it, SQLite says nothing of a file that it can only read.
        connection.execute("UPDATE meta SET value = value")
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        if is_busy(error):
            reason = "another process is in the middle of a transaction for too long: find out who"
            return Check("write lock", "warning", f"not had in {_PATIENT:g} s", reason)
        return Check("write lock", "bad", str(error), "nothing can be claimed")
    return Check("write lock", "good", "had and given back", "the store can be written")


def _check_clock(moment: Moment) -> Check:
    resolution = time.get_clock_info("time").resolution
    steps = f"this host's own, so without an offset, in steps of {resolution * 1e9:,.0f} ns"
    if not moment.local:
        reason = "each host judges leases by its own wall clock: keep them within a second (NTP)"
        return Check("clock", "warning", steps, reason)
    if moment.boot is None:
        reason = "this system does not name its boots, so a step of the wall clock ends leases"
        return Check("clock", "warning", steps, reason)
    return Check("clock", "good", steps, "leases survive steps of the wall clock and a suspend")
