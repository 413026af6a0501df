"""One statement of a PostgreSQL server at a time, with an end to the wait for it.

What a server does not answer in time is given up together with the connection: a server that is
stopped keeps its connections alive, so only our own clock tells. psycopg connects, and libpq, as
psycopg wraps it, sends and receives.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

CONNECT = 2
"""Whole seconds until an attempt to connect is given up, for each host that is named."""

# For the server's sake: who has given up a connection no longer waits for what it asked. And for
# ours: where snapshots are older than the locks, what was decided by them could be wrong.
_OPTIONS = "-c statement_timeout=5000 -c default_transaction_isolation=read\\ committed"
_NOT_LET_THROUGH = "unsupported startup parameter"

_FINE = frozenset({pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK})


class ServerError(Exception):
    """The server refused a statement; ``code`` is its five characters of SQLSTATE."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ServerSilent(Exception):
    """The server did not answer in time, or the connection to it is gone."""


class Wire:
    """A connection to a server."""

    def __init__(self, conninfo: str) -> None:
        """Connect, with a limit to each statement where what is in between lets it through.

        Raises :class:`psycopg.OperationalError` where that is not possible.
        """
        options = conninfo_to_dict(conninfo).get("options")
        try:
            self._connection = _connected(
                conninfo, f"{options} {_OPTIONS}" if options else _OPTIONS
            )
        except psycopg.OperationalError as error:
            if _NOT_LET_THROUGH not in str(error):
                raise
            self._connection = _connected(conninfo, options)
        self._server = self._connection.pgconn
        self._server.nonblocking = 1

    @property
    def version(self) -> int:
        """The version of the server: 150004 for 15.4."""
        return self._server.server_version

    @property
    def database(self) -> str:
        """The name of the database."""
        return (self._server.db or b"").decode()

    @property
    def descriptor(self) -> int:
        """What can be read once there are notices, or the connection has ended."""
        return self._server.socket

    def is_pooled(self, timeout: float) -> bool:
        """Say whether a pooler stands in between, which shares sessions among its users."""
        # It makes up the number of the process that the client is told at the beginning.
        found = self.ask("SELECT pg_backend_pid()::text", [], timeout)
        return found != str(self.process)

    @property
    def process(self) -> int:
        """The number of the server's process that serves this connection."""
        return self._server.backend_pid

    def notices(self, besides: int) -> list[str]:
        """Return what was notified of, ``besides`` by one process, without waiting.

        Raises ServerSilent.
        """
        try:
            self._server.consume_input()
            found = []
            while (notice := self._server.notifies()) is not None:
                if notice.be_pid != besides:
                    found.append(notice.extra.decode())
        except psycopg.OperationalError as error:
            raise ServerSilent(str(error).strip()) from error
        return found

    def ask(self, statement: str, values: Sequence[str | None], timeout: float) -> str | None:
        """Execute a statement of one row and one column, and return that.

        Raises ServerError or ServerSilent.
        """
        encoded = [None if value is None else value.encode() for value in values]
        results = self._do(
            lambda: self._server.send_query_params(statement.encode(), encoded), timeout
        )
        found = results[-1].get_value(0, 0) if results[-1].ntuples else None
        return None if found is None else found.decode()

    def run(self, script: str, timeout: float) -> None:
        """Execute statements, without any values; raise ServerError or ServerSilent."""
        self._do(lambda: self._server.send_query(script.encode()), timeout)

    def close(self) -> None:
        """Let go of the connection, without waiting for anything."""
        self._connection.close()

    def _do(self, send: Callable[[], None], timeout: float) -> list[pq.abc.PGresult]:
        deadline = time.monotonic() + timeout
        try:
            send()
            while self._server.flush():
                self._wait(select.POLLIN | select.POLLOUT, deadline)
                self._server.consume_input()
            return self._receive(deadline)
        except psycopg.OperationalError as error:
            raise ServerSilent(str(error).strip()) from error

    def _receive(self, deadline: float) -> list[pq.abc.PGresult]:
        results = []
        refused: ServerError | None = None
        while True:
            while self._server.is_busy():
                self._wait(select.POLLIN, deadline)
                self._server.consume_input()
            result = self._server.get_result()
            if result is None:
                break
            results.append(result)
            if result.status not in _FINE and refused is None:
                refused = _refusal(result)
        if refused is not None and self._server.status != pq.ConnStatus.OK:
            raise ServerSilent(str(refused)) from refused  # those were its last words
        if refused is not None:
            raise refused
        return results

    def _wait(self, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._server.socket, events)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise ServerSilent("it did not answer in time")


def _connected(conninfo: str, options: str | int | None) -> psycopg.Connection:
    return psycopg.Connection.connect(
        conninfo,
        autocommit=True,
        connect_timeout=CONNECT,
        application_name="leasecron",
        client_encoding="UTF8",
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
        options=options,
    )


def _refusal(result: pq.abc.PGresult) -> ServerError:
    code = result.error_field(pq.DiagnosticField.SQLSTATE)
    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    return ServerError("" if code is None else code.decode(), message.decode(errors="replace"))
