"""A PostgreSQL store whose server's clock is held in the hand of a test.

It shows what ``now`` returns, which follows a hand clock that the store is opened with.
"""

from __future__ import annotations

import atexit
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from support.servers import with_option

from contract.hand_clock import FAR_AHEAD, START, HandClock
from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.clock import Clock

_HELD = "SELECT current_setting('leasecron.now')::bigint"
_HELD_EARLY = "SELECT slot > now + current_setting('leasecron.early')::bigint"
_SCHEMAS: dict[str, str] = {}
"""By the URL of a server: to make a schema takes ten times as long as to empty it."""


class HeldPostgres(PostgresBackend):
    """An empty store, in the one schema that all tests of this process use in their turn."""

    def __init__(self, url: str) -> None:
        self.early = FAR_AHEAD
        self.now: Callable[[], float] = lambda: START
        is_new = url not in _SCHEMAS
        schema = _SCHEMAS.setdefault(url, f"test-{uuid.uuid4().hex}")
        super().__init__(with_option(url, f"schema={schema}"))
        if is_new:
            self._make()
        self._execute(
            "TRUNCATE {schema}.jobs, {schema}.runs, {schema}.results, {schema}.pauses,"
            " {schema}.backfills",
            f"SELECT setval('{{schema}}.fences', {round(START * 1000)}, false)",
        )

    def open(self, clock: Clock | None = None) -> None:
        super().open(clock)
        if isinstance(clock, HandClock):
            self.now = lambda: START + clock.passed

    def _make(self) -> None:
        super().open()
        super().close()
        self._execute(
            "CREATE OR REPLACE FUNCTION {schema}.now_ms() RETURNS bigint LANGUAGE sql "
            f"VOLATILE AS $body$ {_HELD} $body$",
            "CREATE OR REPLACE FUNCTION {schema}.is_early(slot bigint, now bigint) RETURNS boolean "
            f"LANGUAGE sql VOLATILE AS $body$ {_HELD_EARLY} $body$",
        )
        atexit.register(self._execute, "DROP SCHEMA {schema} CASCADE")

    def _ask(self, call: str, values: Sequence[str | None]) -> Any:
        now = round(self.now() * 1000)
        self._server.ask(
            f"SELECT set_config('leasecron.now', '{now}', false)"
            f" || set_config('leasecron.early', '{self.early}', false)"
        )
        return super()._ask(call, values)

    def _execute(self, *statements: str) -> None:
        with psycopg.connect(self.address.conninfo, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.replace("{schema}", self._schema).encode())
