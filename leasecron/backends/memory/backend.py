"""The store of one process: the reference for what the others do, and the store of tests.

Data lives as long as the object. It is private to the object, so it coordinates nothing beyond the
schedulers that share it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from sys import intern
from typing import Literal

from leasecron.backends.backfills import BackfillRow, advance, backfill_state, end_backfill
from leasecron.backends.base import PRUNE_BATCH
from leasecron.backends.checks import Check
from leasecron.backends.claims import decide, new_row
from leasecron.backends.holders import finish, heartbeat, may_record, release, retry
from leasecron.backends.memory.tables import NOTHING, Tables, prunable_fences, prunable_rows
from leasecron.backends.rows import (
    ENDED,
    Moment,
    may_be,
    pauses_kept,
    read_moment,
    run_state,
    unfinished_state,
    valid_text,
)
from leasecron.backends.server.protocols import Told
from leasecron.clock import Clock, SystemClock
from leasecron.errors import SchedulerStateError
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
    Retention,
    Retry,
    RunResult,
    RunState,
    from_ms,
    to_ms,
)


class MemoryBackend:
    """A store with leases in the memory of this process."""

    kind: Literal["lease"] = "lease"
    description = "memory://"
    warnings: Sequence[str] = ()
    look_every: float | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock: Clock = SystemClock()
        self._opened = 0
        self._tables: Tables | None = None
        self._hearers: list[Told] = []

    def checks(self) -> list[Check]:
        """Say whom the store is for."""
        reason = "no other process knows of it: for tests, and for applications of one process"
        return [Check("reach", "good", "this process", reason)]

    def open(self, clock: Clock | None = None) -> None:
        with self._lock:
            if not self._opened:
                self._clock = clock or SystemClock()
            if self._tables is None:
                self._tables = Tables(read_moment(self._clock, local=True))
            self._opened += 1

    def close(self) -> None:
        with self._lock:
            self._opened = max(0, self._opened - 1)

    def suspend(self) -> None:
        """Do nothing: memory holds nothing that a fork could harm."""

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._opened = 0
        self._hearers = []

    def hear(self, told: Told) -> None:
        """Have ``told`` called with each run that is asked for, by the thread that asks."""
        self._hearers.append(told)

    def hear_no_more(self, told: Told) -> None:
        """Undo ``hear``; harmless where that was not done."""
        if told in self._hearers:
            self._hearers.remove(told)

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        with self._call() as (tables, moment):
            return [decide(claim, to_ms(claim.slot), tables, moment) for claim in claims]

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        with self._call() as (tables, moment):
            return [heartbeat(ref, to_ms(ref.slot), tables, moment) for ref in leases]

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        with self._call() as (tables, moment):
            return [finish(ending, to_ms(ending.slot), tables, moment) for ending in endings]

    def release(self, endings: Sequence[Ending]) -> list[bool]:
        with self._call() as (tables, moment):
            return [release(ending, to_ms(ending.slot), tables, moment) for ending in endings]

    def unfinished(self, jobs: Sequence[str]) -> list[LeaseState]:
        with self._call() as (tables, moment):
            rows = [row for job in set(jobs) for row in tables.unfinished(job)]
            rows.sort(key=lambda row: (row.slot, row.job))
            return [unfinished_state(row, moment) for row in rows]

    def retry(self, retries: Sequence[Retry]) -> list[bool]:
        with self._call() as (tables, moment):
            return [retry(each, to_ms(each.slot), tables, moment) for each in retries]

    def add_runs(self, runs: Sequence[NewRun]) -> list[bool]:
        with self._call() as (tables, moment):
            answers = [_add_run(run, to_ms(run.slot), tables, moment) for run in runs]
        for run, added in zip(runs, answers, strict=True):
            if added:
                self._tell(run.job, run.slot)
        return answers

    def withdraw(self, runs: Sequence[NewRun]) -> list[bool]:
        with self._call() as (tables, _moment):
            return [tables.withdraw(run.job, to_ms(run.slot)) for run in runs]

    def asked_for(self) -> list[LeaseState]:
        with self._call() as (tables, moment):
            rows = [row for row in tables.open_rows() if row.state not in ENDED]
            found = [row for row in rows if row.origin != "scheduled"]
            found.sort(key=lambda row: (row.slot, row.job))
            return [unfinished_state(row, moment) for row in found]

    def run_state(self, job: str, slot: datetime) -> RunState | None:
        with self._call() as (tables, _moment):
            row = tables.row(job, to_ms(slot))
            if row is None:
                return None
            return run_state(row, tables.results.get(job, NOTHING).get(row.fence))

    def add_backfill(self, backfill: NewBackfill) -> BackfillState:
        with self._call() as (tables, moment):
            row = tables.backfills.get(backfill.job)
            if row is None or row.ended_at is not None:
                asked_at = moment.wall if row is None else max(moment.wall, row.asked_at + 1)
                row = BackfillRow(
                    backfill.job,
                    to_ms(backfill.start),
                    to_ms(backfill.end),
                    backfill.total,
                    backfill.instance,
                    asked_at,
                )
                tables.put_backfill(row)
            state = backfill_state(row)
        self._tell(backfill.job, backfill.start)
        return state

    def backfills(self) -> list[BackfillState]:
        with self._call() as (tables, _moment):
            rows = sorted(tables.backfills.items())
            return [backfill_state(row) for _job, row in rows if row.ended_at is None]

    def backfill(self, job: str) -> BackfillState | None:
        with self._call() as (tables, _moment):
            row = tables.backfill(job)
            return None if row is None else backfill_state(row)

    def succeeded(self, job: str, start: datetime, end: datetime) -> list[datetime]:
        with self._call() as (tables, _moment):
            rows = tables.runs.get(job, NOTHING).values()
            slots = {from_ms(row.slot) for row in rows if row.state == "success"}
            results = tables.results.get(job, NOTHING).values()
            slots |= {result.slot for result in results if result.status == "success"}
            return sorted(slot for slot in slots if start <= slot < end)

    def advance(self, asked: Advance) -> AdvanceAnswer:
        slot = None if asked.slot is None else to_ms(asked.slot)
        cursor = None if asked.cursor is None else to_ms(asked.cursor)
        with self._call() as (tables, moment):
            return advance(asked, slot, cursor, tables, moment)

    def cancel_backfill(self, job: str, asked_at: datetime) -> bool:
        with self._call() as (tables, moment):
            row = tables.backfill(job)
            if row is None or row.ended_at is not None or row.asked_at != to_ms(asked_at):
                return False
            end_backfill(row, tables, moment)
            return True

    def fix(self, jobs: Sequence[OneOff]) -> list[datetime]:
        with self._call() as (tables, _moment):
            return [from_ms(tables.fixed.setdefault(each.job, to_ms(each.at))) for each in jobs]

    def pause(self, job: str, note: str) -> bool:
        with self._call() as (tables, _moment):
            if job not in tables.first_seen:
                return False
            tables.pause(job, note)
            return True

    def resume(self, job: str) -> bool:
        with self._call() as (tables, _moment):
            tables.resume(job)
            return job in tables.first_seen

    def pauses(self, job: str) -> list[Pause]:
        with self._call() as (tables, _moment):
            found = reversed(tables.pauses.get(job, []))
            return [
                Pause(
                    job,
                    from_ms(each.since),
                    None if each.until is None else from_ms(each.until),
                    each.note,
                )
                for each in found
            ]

    def jobs(self) -> list[JobState]:
        with self._call() as (tables, _moment):
            return [tables.job_state(name) for name in sorted(tables.first_seen)]

    def declare(self, jobs: Sequence[Declaration]) -> list[datetime]:
        with self._call() as (tables, moment):
            for each in jobs:
                tables.declared[each.job] = (intern(each.schedule), moment.wall)
            seen = [tables.first_seen.setdefault(each.job, moment.wall) for each in jobs]
            instants = {at: from_ms(at) for at in seen}
            return [instants[at] for at in seen]

    def save_results(self, results: Sequence[RunResult]) -> None:
        with self._call() as (tables, _moment):
            for result in results:
                if may_record(result, tables.row(result.job, to_ms(result.slot))):
                    tables.record(_kept(result))

    def history(
        self, job: str | None = None, *, limit: int = 100, before: RunResult | None = None
    ) -> list[RunResult]:
        with self._call() as (tables, _moment):
            jobs = list(tables.results) if job is None else [job]
            below = LARGEST_INTEGER if before is None or before.fence is None else before.fence
            found = [
                (fence, result)
                for name in jobs
                for fence, result in tables.results.get(name, NOTHING).items()
                if fence < below
            ]
            found.sort(key=lambda item: item[0], reverse=True)
            return [result for _fence, result in found[: max(0, limit)]]

    def prune(self, retentions: Sequence[Retention]) -> bool:
        with self._call() as (tables, moment):
            room = PRUNE_BATCH
            for retention in retentions:
                rows = prunable_rows(retention, tables, moment)
                for row in rows[:room]:
                    tables.remove(row, moment)
                left = len(rows) > room
                room -= min(room, len(rows))
                fences = prunable_fences(retention, tables, moment)
                for fence in fences[:room]:
                    del tables.results[retention.job][fence]
                if left or len(fences) > room:
                    return True
                room -= len(fences)
                tables.forget_pauses(retention.job, moment.wall - pauses_kept(retention))
            return False

    def _tell(self, job: str, slot: datetime) -> None:
        for told in [*self._hearers]:
            told(job, slot)

    @contextmanager
    def _call(self) -> Iterator[tuple[Tables, Moment]]:
        with self._lock:
            if not self._opened or self._tables is None:
                raise SchedulerStateError("the store memory:// is not open")
            moment = read_moment(self._clock, local=True)
            self._tables.begin(moment)
            yield self._tables, moment


def _add_run(run: NewRun, slot: int, tables: Tables, moment: Moment) -> bool:
    row = tables.row(run.job, slot)
    if row is None:
        tables.put(new_row(run, slot, moment))
        return True
    return may_be(run, row)


def _kept(result: RunResult) -> RunResult:
    """Return the record as every store gives it back: the duration is that between its instants."""
    duration = max(0, to_ms(result.ended_at) - to_ms(result.started_at)) / 1000
    return replace(result, duration=duration, error=valid_text(result.error))
