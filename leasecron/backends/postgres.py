"""The store of many hosts: a schema of a PostgreSQL database.

Each call is one statement that calls one function of the schema, for a whole batch: one round trip
and one transaction. The server's clock alone decides; that of an instance is of no matter. The
functions are in ``postgres_*.sql``, of which that of the tables says why they are right at READ
COMMITTED.

Nothing is kept in a session: no settings, no prepared statements, no locks. So a pooler that gives
each transaction another session, as pgbouncer does, may stand in between.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any

from leasecron.backends.checks import Check
from leasecron.backends.postgres_checks import checks_of, examine
from leasecron.backends.postgres_connection import PostgresConnection, connect
from leasecron.backends.postgres_errors import translated
from leasecron.backends.postgres_schema import in_schema, quoted, script_of, version_of
from leasecron.backends.postgres_urls import Address
from leasecron.backends.postgres_wire import Wire
from leasecron.backends.rows import LEASE_ENDED, RunRow, keys_of, valid_text
from leasecron.backends.server_backend import (
    Columns,
    ServerBackend,
    columns_of_claims,
    columns_of_leases,
    early,
    result_of,
)
from leasecron.backends.transfer import Absorbed, Page
from leasecron.model import (
    LARGEST_INTEGER,
    Claim,
    ClaimAnswer,
    Declaration,
    Ending,
    HeartbeatAnswer,
    LeaseRef,
    LeaseState,
    RunResult,
    from_ms,
    to_ms,
)

_CALL = "SELECT {schema}.{call}"
_ESCAPE = "\x1a"


class PostgresBackend(ServerBackend[Wire]):
    """A store with leases in a PostgreSQL database.

    ``url`` is a URL as libpq takes it, ``postgresql://user:password@host:port/database``, with its
    options; ``?schema=`` names the schema, "leasecron" without it, which is made where it is
    missing. A second connection listens for runs that are given back, so that they are taken over
    at once; behind a pooler, and with ``?listen=off``, there is none. The password is in no
    description, error or log line. Wrong values raise ConfigurationError.
    """

    def __init__(self, url: str) -> None:
        self.address = address = Address.of(url)
        self._server: PostgresConnection
        super().__init__(
            PostgresConnection(
                address.conninfo, address.schema, address.description, listens=address.listens
            )
        )
        self._schema = quoted(address.schema)

    @property
    def is_missing(self) -> bool:
        """Whether there is no such schema of ours; raises BackendError where nobody can say."""
        with translated(self.description):
            wire = connect(self.address.conninfo, self.description, first=True)
            try:
                return not version_of(wire, self.address.schema)
            finally:
                wire.close()

    def examine(self) -> list[Check]:
        """Look at the server and the store by a connection of its own, and change nothing."""
        return examine(self.address)

    def script(self) -> str:
        """Return the SQL that makes the schema, and what lets another role use it."""
        return script_of(self.address.schema, self.address.user)

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        if not claims:
            return []
        found = self._call("claim", *columns_of_claims(claims))
        answers = zip(*found, strict=True)
        return [_answer(claim, values) for claim, values in zip(claims, answers, strict=True)]

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        if not leases:
            return []
        found = self._call("heartbeat", *columns_of_leases(leases))
        return ["ok" if renewed else "lost" for renewed in found]

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        return self._end("finish", endings)

    def release(self, endings: Sequence[Ending]) -> list[bool]:
        return self._end("release", endings)

    def unfinished(self, jobs: Sequence[str]) -> list[LeaseState]:
        found = self._call("unfinished", list(jobs)) if jobs else None
        return [
            LeaseState(job, from_ms(slot), attempt, alive)
            for job, slot, attempt, alive in found or ()
        ]

    def declare(self, jobs: Sequence[Declaration]) -> list[datetime]:
        if not jobs:
            return []
        names, schedules = [each.job for each in jobs], [each.schedule for each in jobs]
        found = self._call("declare_jobs", names, schedules)
        instants = {at: from_ms(at) for at in found}  # one object for all that are new
        return [instants[at] for at in found]

    def save_results(self, results: Sequence[RunResult]) -> None:
        kept = [result for result in results if result.fence is not None]
        if kept:
            self._call("save_results", *_columns_of(kept))

    def raise_fences(self, next_fence: int) -> None:
        """Give no fence below this one from now on."""
        self._call("raise_fences", next_fence)

    def absorb(self, page: Page) -> Absorbed:
        """Keep what is not there yet, without a change of what is; a second time without effect."""
        jobs = runs = records = clashing = 0
        if page.jobs:
            jobs = self._call("absorb_jobs", *zip(*map(astuple, page.jobs), strict=True))
        if page.runs:
            runs = self._call("absorb_runs", *zip(*map(_row, page.runs), strict=True))
        if page.results:
            records, clashing = self._call("absorb_results", *_columns_of(page.results))
        return Absorbed(jobs, runs, records, clashing)

    def history(
        self, job: str | None = None, *, limit: int = 100, before: RunResult | None = None
    ) -> list[RunResult]:
        if limit <= 0:
            return []
        below = LARGEST_INTEGER if before is None or before.fence is None else before.fence
        most = min(limit, LARGEST_INTEGER)
        found = self._ask("history($1, $2, $3)", [job, str(below), str(most)])
        return [_result(values) for values in found or ()]

    def _checks(self, wire: Wire) -> list[Check]:
        return checks_of(wire, self.description)

    def _prune(self, columns: Columns, most_records: int, room: int) -> bool:
        return bool(self._call("prune", *columns, most_records, room))

    def _notices(self) -> list[str]:
        return self._server.notices()

    def _end(self, function: str, endings: Sequence[Ending]) -> list[bool]:
        if not endings:
            return []
        found: list[bool] = self._call(
            function,
            *keys_of(endings),
            [each.token for each in endings],
            [each.status for each in endings],
            [each.keep_lease for each in endings],
            [each.counted for each in endings],
        )
        return found

    def _call(self, function: str, *columns: Any) -> Any:
        """Call a function of the schema with a JSON array for each column of the batch."""
        places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        return self._ask(f"{function}({places})", [json.dumps(column) for column in columns])

    def _ask(self, call: str, values: Sequence[str | None]) -> Any:
        statement = in_schema(_CALL.replace("{call}", call), self.address.schema)
        answer = self._server.ask(statement, values)
        return json.loads(answer) if answer else None


def _row(row: RunRow) -> tuple[Any, ...]:
    *values, boot, _lease_mono = astuple(row)
    return (*values, boot == LEASE_ENDED)


def _columns_of(results: Sequence[RunResult]) -> tuple[Sequence[Any], ...]:
    return (
        [each.fence for each in results],
        *keys_of(results),
        [each.attempt for each in results],
        [each.instance for each in results],
        [each.trigger for each in results],
        [each.status for each in results],
        [to_ms(each.started_at) for each in results],
        [to_ms(each.ended_at) for each in results],
        [_without_nul(each.error) for each in results],
    )


def _answer(claim: Claim, values: Sequence[Any]) -> ClaimAnswer:
    outcome, attempt, fence, holder, other, abandoned, closed = values
    if outcome == "early":
        return early(claim, other)
    return ClaimAnswer(
        outcome,
        attempt,
        fence,
        holder,
        None if other is None else from_ms(other),
        None,
        () if closed is None else tuple(_result(record.values()) for record in closed),
        abandoned,
    )


def _result(values: Iterable[Any]) -> RunResult:
    *known, error = values
    return result_of([*known, _with_nul(error)])


def _without_nul(text: str | None) -> str | None:
    """Return text that the server can keep: it has none with a NUL in it."""
    text = valid_text(text)
    if text is None or not ("\0" in text or _ESCAPE in text):
        return text
    return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")


def _with_nul(text: str | None) -> str | None:
    if text is None or _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)
