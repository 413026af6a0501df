"""Stores in servers, seen from outside by a process that runs no scheduler."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg
import redis
from psycopg.rows import dict_row

from support.servers import postgres_url, redis_url, with_option

Row = dict[str, Any]

# Of Redis the rows are packed, each by the name of its place.
REDIS_ROWS = """
    local rows = {}
    local found = redis.call('HGETALL', KEYS[1])
    for i = 1, #found, 2 do
        local state, token, attempt, lost, fence, released, instance, trigger, claimed_at,
            lease_until, ended, retries, origin, cancelled = cmsgpack.unpack(found[i + 1])
        rows[#rows + 1] = cjson.encode({
            found[i], state, token, attempt, lost, fence, released or cjson.null, instance, trigger,
            claimed_at, lease_until, ended, retries or 0, origin or 'scheduled', cancelled or false
        })
    end
    return rows
"""
_RUN = (
    *("state", "token", "attempt", "lost", "fence", "released_fence", "instance", "trigger"),
    *("claimed_at", "lease_until", "lease_ended", "retries", "origin", "cancelled"),
)
_RESULT = (
    *("ended_at", "fence", "job", "slot", "attempt", "instance", "trigger", "status"),
    *("started_at", "error", "retries"),
)


class StoreView(Protocol):
    """What a test asks of a store, whichever it is."""

    @property
    def url(self) -> str:
        """The store's, as a scheduler is given it."""

    def runs(self, job: str) -> list[Row]:
        """Return the rows of a job's runs by slot."""

    def results(self, job: str) -> list[Row]:
        """Return the history of a job, oldest first."""

    def integrity(self) -> str:
        """Return ``ok`` where the store is in order as a whole."""

    def is_locked(self) -> bool:
        """Say whether somebody is in the middle of a transaction that writes."""


class PostgresView:
    """A schema of its own in the server for tests."""

    def __init__(self) -> None:
        self.schema = f"s{uuid.uuid4().hex}"
        self.url = with_option(postgres_url(), f"schema={self.schema}")

    def runs(self, job: str) -> list[Row]:
        return self._rows("runs", "slot", job)

    def results(self, job: str) -> list[Row]:
        return self._rows("results", "fence", job)

    def integrity(self) -> str:
        return "ok"

    def is_locked(self) -> bool:
        """Say no: a transaction is one statement, which the server ends by itself."""
        return False

    def drop(self) -> None:
        """Remove the schema."""
        with psycopg.connect(postgres_url(), autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE".encode())

    def _rows(self, table: str, order: str, job: str) -> list[Row]:
        with psycopg.connect(postgres_url(), row_factory=dict_row) as connection:
            query = f"SELECT * FROM {self.schema}.{table} WHERE job = %s ORDER BY {order}"
            return connection.execute(query.encode(), [job]).fetchall()


class RedisView:
    """A prefix of its own in the server for tests."""

    def __init__(self) -> None:
        self.prefix = f"p{uuid.uuid4().hex}"
        self.url = with_option(redis_url(), f"prefix={self.prefix}")
        self._client: Any = redis.from_url(redis_url())

    def runs(self, job: str) -> list[Row]:
        found = self._client.eval(REDIS_ROWS, 1, f"{{{self.prefix}}}:runs")
        rows = [self._run(*json.loads(text)) for text in found]
        return sorted((row for row in rows if row["job"] == job), key=lambda row: row["slot"])

    def results(self, job: str) -> list[Row]:
        found: Sequence[bytes] = self._client.hvals(f"{{{self.prefix}}}:records")
        rows = [dict(zip(_RESULT, json.loads(text), strict=True)) for text in found]
        return sorted((row for row in rows if row["job"] == job), key=lambda row: row["fence"])

    def integrity(self) -> str:
        return "ok"

    def is_locked(self) -> bool:
        """Say no: a script ends by itself, whatever becomes of who has sent it."""
        return False

    def drop(self) -> None:
        """Remove its keys."""
        for key in self._client.keys(f"{{{self.prefix}}}:*"):
            self._client.delete(key)
        self._client.close()

    def _run(self, place: str, *values: Any) -> Row:
        _length, job, slot = place.split(":")
        return {"job": job, "slot": int(slot) - 10**15, **dict(zip(_RUN, values, strict=True))}
