"""Stores that do what a store in memory does, and a look at the rows that they keep."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import psycopg
from support.servers import postgres_url, redis_url
from support.stores import REDIS_ROWS

from contract.held_postgres import HeldPostgres
from contract.held_redis import HeldRedis
from leasecron.backends.base import ControlBackend
from leasecron.backends.rows import ENDED, LEASE_ENDED, RunRow, replaces
from leasecron.backends.sqlite.backend import SqliteBackend

COLUMNS = ", ".join(column.name for column in fields(RunRow))


class WalkedStore(Protocol):
    """A store whose rows can be looked at."""

    is_server: ClassVar[bool]
    """Whether the clock of a server decides, alike for all."""

    @property
    def backend(self) -> ControlBackend:
        """The store itself."""

    def rows(self) -> list[RunRow]:
        """Return the rows of all runs."""

    def drop(self) -> None:
        """Leave nothing behind."""


def as_of_a_server(row: RunRow) -> RunRow:
    """Return a row without what stores of servers do not keep."""
    return replace(row, boot=row.boot and "here", lease_mono=0)


class WalkedSqlite:
    """The store of one host."""

    is_server: ClassVar[bool] = False

    def __init__(self, folder: Path) -> None:
        self.backend = SqliteBackend(folder / "store.db", durability="normal")

    def rows(self) -> list[RunRow]:
        with self.backend._store.call() as store:
            found = store.read(
                lambda connection, _now: connection.execute(
                    f"SELECT {COLUMNS} FROM runs"
                ).fetchall()
            )
        return [RunRow(*values) for values in found]

    def drop(self) -> None:
        """Leave the file to the test."""


class WalkedPostgres:
    """The store in a database; its rows say whether a lease was ended in a column."""

    is_server: ClassVar[bool] = True

    def __init__(self, _folder: Path) -> None:
        self.backend = HeldPostgres(postgres_url())

    def rows(self) -> list[RunRow]:
        columns = COLUMNS.replace("boot", "lease_ended").replace("lease_mono", "0")
        query = f"SELECT {columns} FROM {self.backend._schema}.runs"
        with psycopg.connect(self.backend.address.conninfo) as connection:
            found = connection.execute(query.encode()).fetchall()
        return [_with_boot(RunRow(*values)) for values in found]

    def drop(self) -> None:
        """Leave the schema to the next test."""


class WalkedRedis:
    """The store in Redis, whose rows are packed."""

    is_server: ClassVar[bool] = True

    def __init__(self, _folder: Path) -> None:
        self.backend = HeldRedis(redis_url())

    def rows(self) -> list[RunRow]:
        client: Any = self.backend._client
        keys = self.backend._server.keys
        found = client.eval(REDIS_ROWS, 1, keys[2])
        rows = [self._row(*json.loads(text)) for text in found]
        listed = {name.decode() for name in client.zrange(keys[3], 0, -1)}
        assert listed == {f"{_list(row)}{_place(row)}" for row in rows}
        asked_for = {place.decode() for place in client.hkeys(keys[9])}
        assert asked_for == {
            _place(row) for row in rows if row.origin != "scheduled" and row.state not in ENDED
        }
        return rows

    def _row(self, place: str, state: str, token: str | bool, *values: Any) -> RunRow:
        _length, job, slot = place.split(":")
        *known, retries, origin, cancelled = values
        run: list[Any] = [job, int(slot) - 10**15, state, token or "", *known, 0]
        run += [retries, origin, cancelled]
        return _with_boot(RunRow(*run))

    def drop(self) -> None:
        self.backend.drop()


def _place(row: RunRow) -> str:
    return f"{len(row.job)}:{row.job}:{row.slot + 10**15}"


def _list(row: RunRow) -> str:
    """Return by what the names of the list begin that the row is in."""
    if row.origin == "backfill":
        return "+"
    return "" if replaces(row) else "-"


def _with_boot(row: RunRow) -> RunRow:
    """Return a row in whose place for the boot stood whether its lease was ended."""
    return replace(row, boot=LEASE_ENDED if row.boot else "here")
