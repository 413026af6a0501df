"""The connections of a PostgreSQL store: one for its calls, and one that listens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import psycopg

from leasecron.backends.postgres.errors import ONLY_READS, is_refused, translated
from leasecron.backends.postgres.schema import (
    ASK,
    check_version,
    make_ready,
    newest_version,
    quoted,
    version_of,
)
from leasecron.backends.postgres.wire import ServerError, ServerSilent, Wire
from leasecron.backends.server.connection import ServerConnection
from leasecron.errors import BackendError, BackendUnavailable

OLDEST = 13
"""The oldest server whose functions are enough."""

_READS_ONLY = """
    SELECT (pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean)::text
"""

CALL = 2.0
"""Seconds that a call may take in all before its connection is given up."""


def connect(conninfo: str, description: str, *, first: bool) -> Wire:
    """Return a connection to a server that a store can be in.

    What is wrong with it the ``first`` time stays so; later it may be one that is being replaced.
    """
    try:
        wire = Wire(conninfo)
    except psycopg.OperationalError as error:
        if first and is_refused(error):
            text = f"the store {description} cannot be used: {str(error).strip()}"
            raise BackendError(text) from error
        raise
    try:
        _check_server(wire, description, first=first)
    except BaseException:
        wire.close()
        raise
    return wire


def _check_server(wire: Wire, description: str, *, first: bool) -> None:
    if wire.version < OLDEST * 10_000:
        raise BackendError(
            f"the store {description} needs PostgreSQL {OLDEST} or newer, and the server "
            f"is of version {wire.version // 10_000}"
        )
    isolation = wire.ask("SELECT current_setting('transaction_isolation')", [], ASK)
    if isolation != "read committed":
        raise BackendError(
            f"the store {description} needs sessions at read committed, and these are at"
            f" {isolation}: set default_transaction_isolation for its role"
        )
    encoding = wire.ask("SELECT current_setting('server_encoding')", [], ASK)
    if encoding != "UTF8":
        raise BackendError(
            f"the store {description} needs a database whose encoding is UTF8, and this one's is"
            f" {encoding}"
        )
    if wire.ask(_READS_ONLY, [], ASK) == "true":
        text = f"the store {description} can only be read: it is a replica, or set so"
        raise BackendError(text) if first else BackendUnavailable(text)


class PostgresConnection(ServerConnection[Wire]):
    """Calls of a server, and what it notifies of."""

    def __init__(self, conninfo: str, schema: str, description: str, *, listens: bool) -> None:
        super().__init__(description)
        self._conninfo = conninfo
        self._schema = schema
        self._listens = self._can_listen = listens

    def ask(self, statement: str, values: Sequence[str | None] = ()) -> str:
        """Execute a statement of one row and one column and return that, or an empty text."""
        with self.usable() as wire:
            return wire.ask(statement, values, CALL) or ""

    def _heard(self, listener: Wire) -> list[str]:
        return [] if self._wire is None else listener.notices(besides=self._wire.process)

    def _new_listener(self) -> Wire | None:
        if not self._can_listen:
            return None
        listener = Wire(self._conninfo)
        try:
            listener.run(f"LISTEN {quoted(self._schema)}", ASK)
        except BaseException:
            listener.close()
            raise
        return listener

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self.description)

    def _is_gone(self, error: BaseException) -> bool:
        if isinstance(error, ServerError):
            return error.code == ONLY_READS  # another one may have taken its place
        # One that was cut short, by a signal or at the end of the process, may still be answered.
        return isinstance(error, ServerSilent) or not isinstance(error, Exception)

    def _connected(self) -> Wire:
        """Return a connection to a server that can be used, with the store in it ready."""
        wire = connect(self._conninfo, self.description, first=not self._times)
        try:
            version = version_of(wire, self._schema)
            check_version(version, self.description)
            if version < newest_version():
                make_ready(wire, self._schema, self.description)
            # A pooler would give the session of a listener to others.
            self._can_listen = self._listens and not wire.is_pooled(ASK)
        except BaseException:
            wire.close()
            raise
        return wire
