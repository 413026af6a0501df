"""The store of one process: the reference for what the others do, and the store of tests.

Data lives as long as the object. It is private to the object, so it coordinates nothing beyond the
schedulers that share it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from sys import intern
from types import MappingProxyType
from typing import Any, Literal

from leasecron.backends.base import PRUNE_BATCH
from leasecron.backends.checks import Check
from leasecron.backends.claims import decide, new_row
from leasecron.backends.holders import finish, heartbeat, may_record, release, retry
from leasecron.backends.rows import (
    ENDED,
    Moment,
    OpenRuns,
    RunRow,
    is_open,
    lost_result,
    pauses_kept,
    prunable,
    read_moment,
    replaces,
    run_state,
    unfinished_state,
    valid_text,
)
from leasecron.backends.servers import Told
from leasecron.clock import Clock, SystemClock
from leasecron.errors import SchedulerStateError
from leasecron.model import (
    LARGEST_INTEGER,
    MAX_RECORDS,
    Claim,
    ClaimAnswer,
    Declaration,
    Ending,
    HeartbeatAnswer,
    JobState,
    LeaseRef,
    LeaseState,
    NewRun,
    Pause,
    Retention,
    Retry,
    RunResult,
    RunState,
    from_ms,
    to_ms,
)

_NOTHING: Mapping[int, Any] = MappingProxyType({})


@dataclass(slots=True)
class _Pause:
    """A pause in integer milliseconds; ``until`` is None while it lasts."""

    since: int
    until: int | None
    note: str


class _Tables:
    """The rows, as the decisions see them; of a job that never ran there is nothing but its name.

    ``first_seen`` and the pruned mark of a job are integer milliseconds; ``declared`` is its
    schedule in words and when it was last seen.
    """

    def __init__(self, created: Moment) -> None:
        self.runs: dict[str, dict[int, RunRow]] = {}
        self._open: dict[str, dict[int, RunRow]] = {}
        self._seen: dict[str, OpenRuns] = {}
        self.results: dict[str, dict[int, RunResult]] = {}
        self.first_seen: dict[str, int] = {}
        self.declared: dict[str, tuple[str, int]] = {}
        self.pauses: dict[str, list[_Pause]] = {}
        self._pruned: dict[str, int] = {}
        self._fence = created.wall
        self._moment = created

    def row(self, job: str, slot: int) -> RunRow | None:
        return self.runs.get(job, _NOTHING).get(slot)

    def begin(self, moment: Moment) -> None:
        """Begin a call: leases are judged afresh."""
        self._moment = moment
        self._seen.clear()

    def open_runs(self, job: str) -> OpenRuns | None:
        found = self._seen.get(job)
        if found is None:
            found = self._seen[job] = OpenRuns(self._open.get(job, _NOTHING).values(), self._moment)
        return found

    def unfinished(self, job: str) -> list[RunRow]:
        found = self._open.get(job, _NOTHING)
        return [row for row in found.values() if row.state not in ENDED]

    def claimed_between(self, job: str, after: int, until: int) -> bool:
        rows = self.runs.get(job, _NOTHING)
        return any(after < slot <= until and replaces(row) for slot, row in rows.items())

    def pruned(self, job: str) -> int | None:
        return self._pruned.get(job)

    def is_paused(self, job: str, slot: int | None) -> bool:
        return any(
            pause.until is None or (slot is not None and pause.since <= slot <= pause.until)
            for pause in self.pauses.get(job, ())
        )

    def pause(self, job: str, note: str) -> None:
        pauses = self.pauses.setdefault(job, [])
        last = pauses[-1] if pauses else None
        if last is None or (last.until is not None and last.until < self._moment.wall):
            pauses.append(_Pause(self._moment.wall, None, note))
        elif last.until is not None:  # begun in the moment in which that one ended
            last.until, last.note = None, note

    def resume(self, job: str) -> None:
        pauses = self.pauses.get(job)
        if pauses and pauses[-1].until is None:
            pauses[-1].until = max(self._moment.wall, pauses[-1].since)

    def next_fence(self) -> int:
        self._fence += 1
        return self._fence - 1

    def put(self, row: RunRow) -> None:
        self.runs.setdefault(row.job, {})[row.slot] = row
        if is_open(row):
            self._open.setdefault(row.job, {})[row.slot] = row
        else:
            self._close(row)
        if row.job in self._seen:
            self._seen[row.job].put(row)

    def record(self, result: RunResult) -> None:
        assert result.fence is not None
        self.results.setdefault(result.job, {}).setdefault(result.fence, result)

    def remove(self, row: RunRow, moment: Moment) -> None:
        """Prune a row. An attempt that nobody saw the end of leaves its record."""
        if row.state == "claimed":
            self.record(lost_result(row, moment))
        del self.runs[row.job][row.slot]
        self._close(row)
        self.first_seen.setdefault(row.job, moment.wall)
        if row.origin == "scheduled":
            self._pruned[row.job] = max(row.slot, self._pruned.get(row.job, row.slot))

    def forget_pauses(self, job: str, before: int) -> None:
        kept = [p for p in self.pauses.get(job, ()) if p.until is None or p.until >= before]
        if kept:
            self.pauses[job] = kept
        else:
            self.pauses.pop(job, None)

    def open_rows(self) -> Iterator[RunRow]:
        for rows in self._open.values():
            yield from rows.values()

    def withdraw(self, job: str, slot: int) -> bool:
        row = self.row(job, slot)
        if row is None or row.attempt or row.origin == "scheduled":
            return False
        del self.runs[job][slot]
        self._close(row)
        return True

    def job_state(self, name: str) -> JobState:
        first_seen = self.first_seen[name]
        schedule, last_seen = self.declared.get(name, ("", first_seen))
        last = self.pauses[name][-1] if self.pauses.get(name) else None
        if last is None or last.until is not None:
            return JobState(name, schedule, from_ms(first_seen), from_ms(last_seen))
        since = from_ms(last.since)
        return JobState(name, schedule, from_ms(first_seen), from_ms(last_seen), since, last.note)

    def _close(self, row: RunRow) -> None:
        rows = self._open.get(row.job)
        if rows is not None and rows.pop(row.slot, None) is not None and not rows:
            del self._open[row.job]


class MemoryBackend:
    """A store with leases in the memory of this process."""

    kind: Literal["lease"] = "lease"
    description = "memory://"
    warnings: Sequence[str] = ()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock: Clock = SystemClock()
        self._opened = 0
        self._tables: _Tables | None = None
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
                self._tables = _Tables(read_moment(self._clock, local=True))
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
            for told in self._hearers if added else ():
                told(run.job, run.slot)
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
            return run_state(row, tables.results.get(job, _NOTHING).get(row.fence))

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
                for fence, result in tables.results.get(name, _NOTHING).items()
                if fence < below
            ]
            found.sort(key=lambda item: item[0], reverse=True)
            return [result for _fence, result in found[: max(0, limit)]]

    def prune(self, retentions: Sequence[Retention]) -> bool:
        with self._call() as (tables, moment):
            room = PRUNE_BATCH
            for retention in retentions:
                rows = _prunable_rows(retention, tables, moment)
                for row in rows[:room]:
                    tables.remove(row, moment)
                left = len(rows) > room
                room -= min(room, len(rows))
                fences = _prunable_fences(retention, tables, moment)
                for fence in fences[:room]:
                    del tables.results[retention.job][fence]
                if left or len(fences) > room:
                    return True
                room -= len(fences)
                tables.forget_pauses(retention.job, moment.wall - pauses_kept(retention))
            return False

    @contextmanager
    def _call(self) -> Iterator[tuple[_Tables, Moment]]:
        with self._lock:
            if not self._opened or self._tables is None:
                raise SchedulerStateError("the store memory:// is not open")
            moment = read_moment(self._clock, local=True)
            self._tables.begin(moment)
            yield self._tables, moment


def _add_run(run: NewRun, slot: int, tables: _Tables, moment: Moment) -> bool:
    row = tables.row(run.job, slot)
    if row is None:
        tables.first_seen.setdefault(run.job, moment.wall)
        tables.put(new_row(run, slot, moment))
        return True
    return row.origin != "scheduled"


def _kept(result: RunResult) -> RunResult:
    """Return the record as every store gives it back: the duration is that between its instants."""
    duration = max(0, to_ms(result.ended_at) - to_ms(result.started_at)) / 1000
    return replace(result, duration=duration, error=valid_text(result.error))


def _prunable_rows(retention: Retention, tables: _Tables, moment: Moment) -> list[RunRow]:
    rows = tables.runs.get(retention.job, _NOTHING)
    newest = max((slot for slot, row in rows.items() if replaces(row)), default=-math.inf)
    old = [row for slot, row in rows.items() if slot + retention.runs * 1000 < moment.wall]
    found = [row for row in old if prunable(row, newest, retention.runs, moment)]
    return sorted(found, key=lambda row: row.slot)


def _prunable_fences(retention: Retention, tables: _Tables, moment: Moment) -> list[int]:
    results = tables.results.get(retention.job, _NOTHING)
    if len(results) <= retention.records:
        return []
    fences = sorted(results, reverse=True)
    oldest = moment.wall - retention.age * 1000
    old = [f for f in fences[retention.records :] if to_ms(results[f].ended_at) < oldest]
    return sorted({*old, *fences[MAX_RECORDS:]})
