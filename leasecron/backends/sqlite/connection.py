"""The one connection that a SQLite store has in a process, and what keeps it safe.

All calls share it, one at a time. Every transaction that may write begins with BEGIN IMMEDIATE: one
that begins by reading fails at once, without waiting, when another process wrote in between. The
connection is used and closed only in the process that opened it, and nobody but SQLite ever opens
the database's files.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from leasecron.backends.rows import Moment, read_moment
from leasecron.backends.sqlite.errors import is_read_only, translated, understood
from leasecron.backends.sqlite.place import (
    Identity,
    Place,
    check_identity,
    check_log,
    examine,
    log_identity,
)
from leasecron.backends.sqlite.setup import (
    BUSY,
    Settings,
    open_store,
    reopen_store,
    turnstile_of,
)
from leasecron.clock import Clock, SystemClock
from leasecron.errors import SchedulerStateError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection, Moment], T]

_CALL = 0.75  # what a call may wait for others in all
_TURN = 0.25  # of that, for its turn
_CHECK_EVERY = 1.0


class _Link:
    """A connection and its turnstile, which only exist together."""

    def __init__(self, connection: sqlite3.Connection, place: Place) -> None:
        self.connection = connection
        self.broken = False
        self._place = place
        self._log: Identity | None = None
        self._log_noted = False
        self._turnstile = turnstile_of(place)
        self._wait = BUSY

    def close(self) -> None:
        """Close both, in turn: the last connection of all writes the log back into the database."""
        held = self._turnstile.enter(_TURN, make=False)  # who only reads leaves no file behind
        try:
            self.connection.close()
        finally:
            if held:
                self._turnstile.leave()
            self._turnstile.close()

    def in_turn(self, begin: str, work: Callable[[sqlite3.Connection], T], deadline: float) -> T:
        """Do ``work`` as one transaction that writes."""
        held = self._turnstile.enter(min(_TURN, deadline - time.monotonic()))
        try:
            result = self.transaction(begin, work, deadline)
        finally:
            if held:
                self._turnstile.leave()
        if not self._log_noted:  # it has certainly been made by now, and stays until we close
            self._log, self._log_noted = log_identity(self._place.real), True
        return result

    def check_log(self) -> None:
        """Raise BackendUnavailable where the log that is written to is no longer in its place."""
        check_log(self._place, self._log)

    def transaction(
        self, begin: str, work: Callable[[sqlite3.Connection], T], deadline: float
    ) -> T:
        """Do ``work`` between ``begin`` and COMMIT, either of which may wait for others."""
        try:
            self._wait_until(deadline)
            self.connection.execute(begin)
            with understood(self._place.path):
                result = work(self.connection)
            self._wait_until(deadline)
            self.connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back()
            if is_read_only(error):  # and stays so when the file can be written again
                self.broken = True
            raise
        return result

    def _wait_until(self, deadline: float) -> None:
        wait = min(BUSY, max(0.0, deadline - time.monotonic()))
        if abs(wait - self._wait) > 0.05:
            self.connection.execute(f"PRAGMA busy_timeout = {round(wait * 1000)}")
            self._wait = wait

    def _roll_back(self) -> None:
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error:  # then only a new connection has a known state
            self.broken = True


@dataclass(slots=True)
class _Opened:
    """What holds from the first ``open`` to the last ``close``."""

    place: Place
    clock: Clock
    identity: Identity
    checked: float = -math.inf
    times: int = 1


class StoreConnection:
    """Transactions on one store file, counted opens, and the way over forks and outages."""

    def __init__(self, path: str, settings: Settings) -> None:
        self.path = path
        self.warnings: tuple[str, ...] = ()
        self._settings = settings
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._opened: _Opened | None = None
        self._link: _Link | None = None
        self._deadline = 0.0
        self.migrating = False  # read by other threads: an open that may take minutes

    def open(self, clock: Clock | None) -> None:
        """Open the store, making its file if it is missing; raise where that is not possible."""
        self._check_process()
        with self._lock, translated(self.path):
            if self._opened is not None:
                self._opened.times += 1
                return
            clock = clock or SystemClock()
            place = examine(self.path, self._settings.mode)
            moment = read_moment(clock, local=not place.filesystem.is_network)
            try:
                ready = open_store(place, self._settings, moment, self._migrate)
            finally:
                self.migrating = False
            self.warnings = ready.warnings
            self._link = _Link(ready.connection, place)
            self._opened = _Opened(place, clock, ready.identity)

    def close(self) -> None:
        """Undo one ``open``. In a forked child the connection is left alone."""
        if os.getpid() != self._pid:
            return
        with self._lock, translated(self.path):
            if self._opened is None:
                return
            self._opened.times -= 1
            if self._opened.times == 0:
                self._opened = None
                self._let_go()

    def suspend(self) -> None:
        """Close the connection until the next call, so that a fork finds none."""
        self._check_process()
        with self._lock, translated(self.path):
            self._let_go()

    def forget(self) -> None:
        """Be unopened, in a child forked while suspended; leave an inherited connection alone."""
        if self._link is None:
            self._lock = threading.Lock()
            self._pid = os.getpid()
            self._opened = None

    @contextmanager
    def call(self) -> Iterator[StoreConnection]:
        """Have the store for one call: ``read`` and ``write`` are for use inside."""
        self._check_process()
        with self._lock, translated(self.path):
            self._deadline = time.monotonic() + _CALL
            yield self

    def read(self, work: Work[T]) -> T:
        """Do ``work`` on one snapshot."""
        opened, link = self._usable()
        return link.transaction(
            "BEGIN", lambda connection: work(connection, _now(opened)), self._deadline
        )

    def write(self, work: Work[T]) -> T:
        """Do ``work`` under the write lock."""
        opened, link = self._usable()
        now = opened.clock.monotonic()
        if not opened.checked <= now < opened.checked + _CHECK_EVERY:
            check_identity(self.path, opened.identity)
            link.check_log()
            opened.checked = now
        return link.in_turn(
            "BEGIN IMMEDIATE", lambda connection: work(connection, _now(opened)), self._deadline
        )

    def _migrate(self) -> None:
        self.migrating = True

    def _usable(self) -> tuple[_Opened, _Link]:
        opened = self._opened
        if opened is None:
            raise SchedulerStateError(f"the store {self.path} is not open")
        if self._link is not None and self._link.broken:
            self._let_go()
        if self._link is None:
            self._link = self._reopen(opened)
        return opened, self._link

    def _reopen(self, opened: _Opened) -> _Link:
        check_identity(self.path, opened.identity)
        link = _Link(reopen_store(opened.place, self._settings), opened.place)
        try:  # again, since what was opened need not be what was looked at
            check_identity(self.path, opened.identity)
        except BaseException:
            link.close()
            raise
        return link

    def _let_go(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _check_process(self) -> None:
        if os.getpid() == self._pid:
            return
        if self._link is None:
            self.forget()
        else:
            raise SchedulerStateError(
                f"the store {self.path} was opened before this process was forked, and a "
                "connection must not cross a fork: open it after the fork, with a scheduler or "
                "backend that is made there"
            )


def _now(opened: _Opened) -> Moment:
    return read_moment(opened.clock, local=not opened.place.filesystem.is_network)
