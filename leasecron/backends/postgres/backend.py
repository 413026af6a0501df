"""The store of many hosts: a schema of a PostgreSQL database.

Each call is one statement that calls one function of the schema, for a whole batch: one round trip
and one transaction. The server's clock alone decides; that of an instance is of no matter. The
functions are in ``*.sql``, of which that of the tables says why they are right at READ
COMMITTED.

Nothing is kept in a session: no settings, no prepared statements, no locks. So a pooler that gives
each transaction another session, as pgbouncer does, may stand in between.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any

from leasecron.backends.checks import Check
from leasecron.backends.postgres.checks import checks_of, examine
from leasecron.backends.postgres.connection import PostgresConnection, connect
from leasecron.backends.postgres.errors import translated
from leasecron.backends.postgres.schema import in_schema, quoted, script_of, version_of
from leasecron.backends.postgres.urls import Address
from leasecron.backends.postgres.values import (
    HEARTBEAT_ANSWERS,
    backfill_state,
    backfill_values,
    claim_answer,
    columns_of_pauses,
    columns_of_results,
    job_state,
    kept_text,
    lease_state,
    pause_of,
    record,
    row_values,
    run_state,
)
from leasecron.backends.postgres.wire import Wire
from leasecron.backends.rows import keys_of
from leasecron.backends.server.backend import (
    Columns,
    ServerBackend,
    columns_of_claims,
    columns_of_leases,
)
from leasecron.backends.transfer import Absorbed, Page
from leasecron.model import (
    LARGEST_INTEGER,
    Advance,
    AdvanceAnswer,
    BackfillState,
    Claim,
    ClaimAnswer,
    Declaration,
    Ending,
    HeartbeatAnswer,
    JobState,
    LeaseRef,
    LeaseState,
    NewBackfill,
    NewRun,
    OneOff,
    Pause,
    Retry,
    RunResult,
    RunState,
    from_ms,
    to_ms,
)

_CALL = "SELECT {schema}.{call}"


class PostgresBackend(ServerBackend[Wire]):
    """A store with leases in a PostgreSQL database.

    ``url`` is a URL as libpq takes it, ``postgresql://user:password@host:port/database``, with its
    options; ``?schema=`` names the schema, "leasecron" without it, which is made where it is
    missing. A second connection listens for runs that are given back or asked for, so that they are
    taken at once; behind a pooler, and with ``?listen=off``, there is none. The password is in no
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
        *columns, pauses = columns_of_claims(claims)
        found = self._call("claim", *columns, pauses if any(pauses) else [])
        answers = zip(*found, strict=True)
        return [claim_answer(claim, values) for claim, values in zip(claims, answers, strict=True)]

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        if not leases:
            return []
        found = self._call("heartbeat", *columns_of_leases(leases))
        return [HEARTBEAT_ANSWERS[each] for each in found]

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        return self._end("finish", endings, [kept_text(each.pause) for each in endings])

    def release(self, endings: Sequence[Ending]) -> list[bool]:
        return self._end("release", endings)

    def retry(self, retries: Sequence[Retry]) -> list[bool]:
        if not retries:
            return []
        found: list[bool] = self._call(
            "retry",
            *keys_of(retries),
            [each.token for each in retries],
            [each.retries for each in retries],
        )
        return found

    def unfinished(self, jobs: Sequence[str]) -> list[LeaseState]:
        found = self._call("unfinished", list(jobs)) if jobs else None
        return [lease_state(values) for values in found or ()]

    def add_runs(self, runs: Sequence[NewRun]) -> list[bool]:
        if not runs:
            return []
        instances, triggers = [run.instance for run in runs], [run.trigger for run in runs]
        answers: list[bool] = self._call("add_runs", *keys_of(runs), instances, triggers)
        for run, added in zip(runs, answers, strict=True):
            if added:
                self._tell(run.job, run.slot)  # the server tells other processes only
        return answers

    def withdraw(self, runs: Sequence[NewRun]) -> list[bool]:
        found: list[bool] = self._call("withdraw", *keys_of(runs)) if runs else []
        return found

    def asked_for(self) -> list[LeaseState]:
        return [lease_state(values) for values in self._call("asked_for") or ()]

    def run_state(self, job: str, slot: datetime) -> RunState | None:
        found = self._ask("run_state($1, $2)", [job, str(to_ms(slot))])
        return None if found is None else run_state(job, slot, found)

    def add_backfill(self, backfill: NewBackfill) -> BackfillState:
        start, end = to_ms(backfill.start), to_ms(backfill.end)
        values = [backfill.job, str(start), str(end), str(backfill.total), backfill.instance]
        is_new, found = self._ask("add_backfill($1, $2, $3, $4, $5)", values)
        if is_new:
            self._tell(backfill.job, backfill.start)  # the server tells other processes only
        return backfill_state(found)

    def backfills(self) -> list[BackfillState]:
        return [backfill_state(values) for values in self._call("backfills_that_go_on") or ()]

    def backfill(self, job: str) -> BackfillState | None:
        found = self._ask("backfill_of($1)", [job])
        return None if found is None else backfill_state(found)

    def succeeded(self, job: str, start: datetime, end: datetime) -> list[datetime]:
        values = [job, str(to_ms(start)), str(to_ms(end))]
        return [from_ms(slot) for slot in self._ask("succeeded($1, $2, $3)", values) or ()]

    def advance(self, asked: Advance) -> AdvanceAnswer:
        instants = (asked.asked_at, asked.cursor, asked.slot)
        texts = [None if each is None else str(to_ms(each)) for each in instants]
        answer: AdvanceAnswer = self._ask("advance($1, $2, $3, $4)", [asked.job, *texts])
        return answer

    def cancel_backfill(self, job: str, asked_at: datetime) -> bool:
        return bool(self._ask("cancel_backfill($1, $2)", [job, str(to_ms(asked_at))]))

    def fix(self, jobs: Sequence[OneOff]) -> list[datetime]:
        names, instants = [each.job for each in jobs], [to_ms(each.at) for each in jobs]
        return [from_ms(at) for at in self._call("fix", names, instants) or ()]

    def pause(self, job: str, note: str) -> bool:
        return bool(self._ask("pause($1, $2)", [job, kept_text(note)]))

    def resume(self, job: str) -> bool:
        return bool(self._ask("resume($1)", [job]))

    def pauses(self, job: str) -> list[Pause]:
        return [pause_of(job, values) for values in self._ask("pauses_of($1)", [job]) or ()]

    def jobs(self) -> list[JobState]:
        return [job_state(values) for values in self._call("known_jobs") or ()]

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
            self._call("save_results", *columns_of_results(kept))

    def raise_fences(self, next_fence: int) -> None:
        """Give no fence below this one from now on."""
        self._call("raise_fences", next_fence)

    def absorb(self, page: Page) -> Absorbed:
        """Keep what is not there yet, without a change of what is; a second time without effect."""
        jobs = runs = records = clashing = 0
        if page.jobs:
            jobs = self._call("absorb_jobs", *zip(*map(astuple, page.jobs), strict=True))
        if page.runs:
            runs = self._call("absorb_runs", *zip(*map(row_values, page.runs), strict=True))
        if page.results:
            records, clashing = self._call("absorb_results", *columns_of_results(page.results))
        if page.pauses:
            self._call("absorb_pauses", *columns_of_pauses(page.pauses))
        if page.backfills:
            columns = zip(*map(backfill_values, page.backfills), strict=True)
            self._call("absorb_backfills", *columns)
        return Absorbed(jobs, runs, records, clashing)

    def history(
        self, job: str | None = None, *, limit: int = 100, before: RunResult | None = None
    ) -> list[RunResult]:
        if limit <= 0:
            return []
        below = LARGEST_INTEGER if before is None or before.fence is None else before.fence
        most = min(limit, LARGEST_INTEGER)
        found = self._ask("history($1, $2, $3)", [job, str(below), str(most)])
        return [record(values) for values in found or ()]

    def _checks(self, wire: Wire) -> list[Check]:
        return checks_of(wire, self.description)

    def _prune(self, columns: Columns, most_records: int, room: int) -> bool:
        return bool(self._call("prune", *columns, most_records, room))

    def _notices(self) -> list[str]:
        return self._server.notices()

    def _end(self, function: str, endings: Sequence[Ending], *columns: Sequence[Any]) -> list[bool]:
        if not endings:
            return []
        found: list[bool] = self._call(
            function,
            *keys_of(endings),
            [each.token for each in endings],
            [each.status for each in endings],
            [each.keep_lease for each in endings],
            [each.counted for each in endings],
            *columns,
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
