"""The store of many hosts: keys of a Redis or Valkey database that begin with one prefix.

Each call is one script that the server executes for a whole batch, and nothing else meanwhile: one
round trip and one transaction. The server's clock alone decides; that of an instance is of no
matter. The scripts are in ``*.lua``.

A store is eleven keys, whatever the number of its jobs, with one hash tag: ``{leasecron}:runs`` and
so on. So a script can name all keys that it touches, a batch of any jobs costs a few commands
inside the server, the fences of all jobs come from one counter, and in a Redis Cluster a store has
one hash slot and is whole at one node, which is as fast as a server alone. Prefixes are shared out
among the nodes, and two environments with a prefix each know nothing of one another.

**What Redis can lose.** The promise is as good as the server's memory of what it has answered:

- With ``appendonly no`` a restarted server comes back as of its last snapshot, or empty. With
  ``appendfsync everysec`` a crash of its machine loses up to a second or two; only ``always`` keeps
  everything that was answered.
- Replicas follow behind the answers. A failover takes back what the new master had not got, and a
  master that was cut off may go on giving answers until it is told; ``min-replicas-to-write``
  shortens that time, and nothing ends it.
- A key that is evicted, flushed or expired is lost as well: ``maxmemory-policy noeviction``.

What was lost is as if it had not been said: a slot that was won can be won by another, while the
first winner still runs or has already ended, and so be run twice; its heartbeat answers ``lost``
at once, and aborts it. Fences keep up with the server's clock and not only count, so that a run
that follows a loss has a greater one than all before, and what a handler writes under
``ctx.fence`` stays guarded. :meth:`RedisBackend.checks` warns of settings that allow a loss.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from leasecron.backends.checks import Check
from leasecron.backends.redis.checks import checks_of, examine, stored_version
from leasecron.backends.redis.connection import RedisConnection
from leasecron.backends.redis.urls import Address
from leasecron.backends.redis.values import (
    answer_of,
    backfill_state_of,
    columns_of_page,
    flags,
    heartbeat_answers,
    job_state_of,
    pause_of,
    record_of,
    run_state_of,
    text_of,
)
from leasecron.backends.redis.wire import Wire
from leasecron.backends.rows import keys_of, valid_text
from leasecron.backends.server.backend import (
    Columns,
    ServerBackend,
    columns_of_claims,
    columns_of_leases,
)
from leasecron.backends.transfer import Absorbed, Page
from leasecron.model import (
    MAX_RECORDS,
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

_RECORDS_OF_A_CALL = 1000
_LARGEST = 8e15
"""What is compared in scripts must be below it: their numbers are floating ones."""


class RedisBackend(ServerBackend[Wire]):
    """A store with leases in a Redis or Valkey database.

    ``url`` is a URL as redis-py takes it, ``redis://user:password@host:port/number`` or
    ``rediss://``, with its options; ``?prefix=`` names the store in the database, "leasecron"
    without it. The password is in no description, error or log line. Wrong values raise
    ConfigurationError.
    """

    def __init__(self, url: str) -> None:
        self.address = Address.of(url)
        self._server: RedisConnection
        super().__init__(RedisConnection(self.address))
        self._sender = os.urandom(8).hex()  # by which it knows its own notices

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        if not claims:
            return []
        found = self._call("claim", *columns_of_claims(claims))
        return [
            # By position: by name it takes three times as long, of each claim that is won.
            ClaimAnswer("won", 1, values) if type(values) is int else answer_of(claim, values)
            for claim, values in zip(claims, json.loads(found), strict=True)
        ]

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        if not leases:
            return []
        return heartbeat_answers(self._call("heartbeat", *columns_of_leases(leases)))

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        if not endings:
            return []
        statuses = [each.status for each in endings]
        keeps = [each.keep_lease for each in endings]
        notes = [valid_text(each.pause) for each in endings]
        return self._call_for("finish", endings, statuses, keeps, notes)

    def release(self, endings: Sequence[Ending]) -> list[bool]:
        if not endings:
            return []
        return self._call_for("release", endings, [each.counted for each in endings], self._sender)

    def retry(self, retries: Sequence[Retry]) -> list[bool]:
        if not retries:
            return []
        return self._call_for("retry", retries, [each.retries for each in retries])

    def add_runs(self, runs: Sequence[NewRun]) -> list[bool]:
        if not runs:
            return []
        instances, triggers = [each.instance for each in runs], [each.trigger for each in runs]
        found = self._call("add_runs", *keys_of(runs), instances, triggers, self._sender)
        answers = flags(found)
        for run, is_added in zip(runs, answers, strict=True):
            if is_added:
                self._tell(run.job, run.slot)
        return answers

    def withdraw(self, runs: Sequence[NewRun]) -> list[bool]:
        return flags(self._call("withdraw", *keys_of(runs))) if runs else []

    def asked_for(self) -> list[LeaseState]:
        found = json.loads(self._call("asked_for"))
        found.sort(key=lambda values: (values[1], values[0]))
        return [LeaseState(job, from_ms(slot), *values) for job, slot, *values in found]

    def run_state(self, job: str, slot: datetime) -> RunState | None:
        milliseconds = to_ms(slot)
        found = self._call("run_state", job, milliseconds)
        return None if found is None else run_state_of(job, milliseconds, json.loads(found))

    def add_backfill(self, backfill: NewBackfill) -> BackfillState:
        start, end = to_ms(backfill.start), to_ms(backfill.end)
        values = (backfill.job, start, end, backfill.total, backfill.instance, self._sender)
        is_new, text = self._call("add_backfill", *values)
        if is_new:
            self._tell(backfill.job, backfill.start)
        return backfill_state_of(json.loads(text))

    def backfills(self) -> list[BackfillState]:
        return [backfill_state_of(each) for each in sorted(json.loads(self._call("backfills")))]

    def backfill(self, job: str) -> BackfillState | None:
        found = self._call("backfill", job)
        return None if found is None else backfill_state_of(json.loads(found))

    def succeeded(self, job: str, start: datetime, end: datetime) -> list[datetime]:
        """Return the slots in ``start <= slot < end`` that succeeded; of many, call by call."""
        # Runs first: one that is pruned meanwhile has left its record by then.
        since, last = to_ms(start), to_ms(end)
        found: set[datetime] = set()
        while since < last:
            since, slots = json.loads(self._call("succeeded", job, since, last))
            found |= {from_ms(slot) for slot in slots}
        records = self.history(job, limit=MAX_RECORDS)
        found |= {each.slot for each in records if each.status == "success"}
        return sorted(slot for slot in found if start <= slot < end)

    def advance(self, asked: Advance) -> AdvanceAnswer:
        instants = (asked.asked_at, asked.cursor, asked.slot)
        values = [None if each is None else to_ms(each) for each in instants]
        answer: AdvanceAnswer = self._call("advance", asked.job, *values).decode()
        return answer

    def cancel_backfill(self, job: str, asked_at: datetime) -> bool:
        return bool(self._call("cancel_backfill", job, to_ms(asked_at)))

    def fix(self, jobs: Sequence[OneOff]) -> list[datetime]:
        names, instants = [each.job for each in jobs], [to_ms(each.at) for each in jobs]
        found = json.loads(self._call("fix", names, instants)) if jobs else []
        return [from_ms(at) for at in found]

    def pause(self, job: str, note: str) -> bool:
        return bool(self._call("pause", job, valid_text(note)))

    def resume(self, job: str) -> bool:
        return bool(self._call("resume", job))

    def pauses(self, job: str) -> list[Pause]:
        return [pause_of(job, values) for values in reversed(json.loads(self._call("pauses", job)))]

    def jobs(self) -> list[JobState]:
        return [job_state_of(values) for values in sorted(json.loads(self._call("jobs")))]

    @property
    def is_missing(self) -> bool:
        """Whether there is no store of this prefix; raise BackendError if nobody can say."""
        return stored_version(self.address) is None

    def examine(self) -> list[Check]:
        """Look at the server and the store by a connection of its own, and change nothing."""
        return examine(self.address)

    def raise_fences(self, next_fence: int) -> None:
        """Give no fence below this one from now on."""
        self._call("absorb", *columns_of_page(Page()), next_fence)

    def absorb(self, page: Page) -> Absorbed:
        """Keep what is not there yet, without a change of what is; a second time without effect."""
        counts = self._call("absorb", *columns_of_page(page), 0)
        return Absorbed(*counts)

    def unfinished(self, jobs: Sequence[str]) -> list[LeaseState]:
        names = list(set(jobs))
        found = json.loads(self._call("unfinished", names)) if names else []
        states = sorted((slot, names[job], *values) for job, slot, *values in found)
        return [LeaseState(job, from_ms(slot), *values) for slot, job, *values in states]

    def declare(self, jobs: Sequence[Declaration]) -> list[datetime]:
        if not jobs:
            return []
        names, schedules = [each.job for each in jobs], [each.schedule for each in jobs]
        found = json.loads(self._call("declare", names, schedules))
        instants = {at: from_ms(at) for at in found}  # one object for all that are new
        return [instants[at] for at in found]

    def save_results(self, results: Sequence[RunResult]) -> None:
        kept = [result for result in results if result.fence is not None]
        if kept:
            fences = [result.fence for result in kept]
            self._call("save", *keys_of(kept), fences, [text_of(result) for result in kept])

    def history(
        self, job: str | None = None, *, limit: int = 100, before: RunResult | None = None
    ) -> list[RunResult]:
        """Return records, newest first; of many, call by call."""
        below = _LARGEST if before is None or before.fence is None else before.fence
        found: list[RunResult] = []
        while len(found) < limit:
            most = min(limit - len(found), _RECORDS_OF_A_CALL)
            of_job = [] if job is None else [job]
            records = json.loads(self._call("history", of_job, min(below, _LARGEST), most))
            found += [record_of(record) for record in records]
            if len(records) < most:
                break
            below = records[-1][1]
        return found

    def _checks(self, wire: Wire) -> list[Check]:
        return checks_of(wire, self.description)

    def _prune(self, columns: Columns, most_records: int, room: int) -> bool:
        return bool(self._call("prune", *columns, most_records, room))

    def _notices(self) -> list[str]:
        found = (notice.partition(" ") for notice in self._server.notices())
        return [notice for sender, _, notice in found if sender != self._sender]

    def _call_for(
        self, operation: str, held: Sequence[Ending] | Sequence[Retry], *columns: Any
    ) -> list[bool]:
        tokens = [each.token for each in held]
        return flags(self._call(operation, *keys_of(held), tokens, *columns))

    def _call(self, operation: str, *columns: Any) -> Any:
        """Execute a script for a batch, of which it gets the columns in JSON."""
        payload = json.dumps(columns, ensure_ascii=False)
        return self._server.run(operation, payload)
