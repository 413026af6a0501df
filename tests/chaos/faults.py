"""What befalls the store of a chaos run, one thing at a time; this is about those in files."""

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from chaos.locks import Lock, keep_others_out, locks_of
from chaos.log import Log
from chaos.place import Place
from chaos.plan import Kind


class Faults(Protocol):
    """What befalls a store, one thing at a time."""

    def begin(self, kind: Kind) -> bool:
        """Let it befall the store; False where another thing has not ended, or it cannot be."""

    def end(self) -> None:
        """End what has befallen it, if anything has."""

    def locks_of(self, pid: int) -> list[Lock]:
        """Return those that a process has on it."""

    def is_held_by(self, locks: Sequence[Lock]) -> bool:
        """Say whether nobody else can write to it as long as somebody has these locks."""


class StoreFaults:
    """Begins and ends the faults ``lock``, ``full`` and ``away``, and writes them down."""

    def __init__(self, place: Place, log: Log) -> None:
        self._place = place
        self._log = log
        self._now: Kind | None = None
        self._since = 0.0
        self._stranger: sqlite3.Connection | None = None
        self._next_fence: int | None = None

    def begin(self, kind: Kind) -> bool:
        """Let it befall the store; False where another one has not ended, or it cannot be."""
        if self._now is not None:
            return False
        self._since = time.monotonic()
        if kind == "lock":
            self._stranger = _locked(self._place.path)
            if self._stranger is None:
                return False
            self._since = time.monotonic()
            self._next_fence = _next_fence(self._stranger)
        elif kind == "full":
            self._place.fill()
        else:
            self._place.away()
            self._since = time.monotonic()
        self._now = kind
        return True

    def end(self) -> None:
        """End what has befallen it, if anything has."""
        if self._now is None:
            return
        until = time.monotonic()
        if self._stranger is not None:
            self._stranger.execute("COMMIT")
            self._stranger.close()
            self._stranger = None
        elif self._now == "full":
            self._place.empty()
            until = time.monotonic()
        else:
            trespassed = self._place.back()
            if trespassed:
                self._log.note("trespassed", names=trespassed)
        # What nobody can get around ends before it is ended, for the checker is strict about it.
        facts = {"kind": self._now, "since": self._since, "until": until}
        self._log.note("fault", **facts, next_fence=self._next_fence)
        self._now = self._next_fence = None

    def locks_of(self, pid: int) -> list[Lock]:
        """Return those that a process has on it."""
        return locks_of(pid, self._place.path) if self._place.kind == "sqlite" else []

    def is_held_by(self, locks: Sequence[Lock]) -> bool:
        """Say whether nobody else can write to it as long as somebody has these locks."""
        return keep_others_out(locks, self._place.path)


def _locked(path: Path) -> sqlite3.Connection | None:
    """Hold the file as a shell with an open transaction does; None where it is not to be had."""
    if not path.exists():  # no instance has come so far
        return None
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=2.0, isolation_level=None
    )
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        connection.close()
        return None
    return connection


def _next_fence(connection: sqlite3.Connection) -> int | None:
    """Return what nobody can have won before the transaction ends; None in a file without it."""
    try:
        row = connection.execute("SELECT value FROM meta WHERE key = 'next_fence'").fetchone()
    except sqlite3.OperationalError:  # the instance that makes the file has come no further
        return None
    return None if row is None else int(row[0])
