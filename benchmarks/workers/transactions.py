"""How often the SQLite connections of this process ask for the write lock."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Iterator

_WRITING = ("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE")


class Transactions:
    """Learns of every connection that is made from now on, without touching who makes it.

    ``writing`` is how many transactions that may write have begun inside :meth:`counting`. Whatever
    is counted is slower than what is not, so it is not to be timed.
    """

    def __init__(self) -> None:
        self.writing = 0
        self._connections: list[sqlite3.Connection] = []
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def counting(self, *, on: bool = True) -> Iterator[None]:
        """Count what begins in here, if it is ``on``."""
        self._trace(on=on)
        try:
            yield
        finally:
            self._trace(on=False)

    def _trace(self, *, on: bool) -> None:
        for connection in self._connections:
            with contextlib.suppress(sqlite3.ProgrammingError):  # it has been closed
                connection.set_trace_callback(self._note if on else None)

    def _note(self, statement: str) -> None:
        self.writing += statement.upper().startswith(_WRITING)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "sqlite3.connect/handle" and isinstance(arguments[0], sqlite3.Connection):
            self._connections.append(arguments[0])
