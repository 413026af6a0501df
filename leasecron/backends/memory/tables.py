"""What a store in memory holds, as the decisions see it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from leasecron.backends.backfills import BackfillRow
from leasecron.backends.rows import (
    ENDED,
    Moment,
    OpenRuns,
    RunRow,
    is_open,
    lost_result,
    may_be_newest,
    prunable,
    replaces,
)
from leasecron.model import MAX_RECORDS, JobState, Retention, RunResult, from_ms, to_ms

NOTHING: Mapping[int, Any] = MappingProxyType({})


@dataclass(slots=True)
class PauseRow:
    """A pause in integer milliseconds; ``until`` is None while it lasts."""

    since: int
    until: int | None
    note: str


class Tables:
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
        self.pauses: dict[str, list[PauseRow]] = {}
        self.backfills: dict[str, BackfillRow] = {}  # the newest of each job
        self.fixed: dict[str, int] = {}  # the instants of jobs that run once
        self._pruned: dict[str, int] = {}
        self._fence = created.wall
        self._moment = created

    def row(self, job: str, slot: int) -> RunRow | None:
        return self.runs.get(job, NOTHING).get(slot)

    def begin(self, moment: Moment) -> None:
        """Begin a call: leases are judged afresh."""
        self._moment = moment
        self._seen.clear()

    def open_runs(self, job: str) -> OpenRuns | None:
        found = self._seen.get(job)
        if found is None:
            found = self._seen[job] = OpenRuns(self._open.get(job, NOTHING).values(), self._moment)
        return found

    def unfinished(self, job: str) -> list[RunRow]:
        found = self._open.get(job, NOTHING)
        return [row for row in found.values() if row.state not in ENDED]

    def claimed_between(self, job: str, after: int, until: int) -> bool:
        rows = self.runs.get(job, NOTHING)
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
            pauses.append(PauseRow(self._moment.wall, None, note))
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
        if row.origin != "manual":
            self._pruned[row.job] = max(row.slot, self._pruned.get(row.job, row.slot))

    def backfill(self, job: str) -> BackfillRow | None:
        return self.backfills.get(job)

    def put_backfill(self, row: BackfillRow) -> None:
        self.backfills[row.job] = row

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


def prunable_rows(retention: Retention, tables: Tables, moment: Moment) -> list[RunRow]:
    rows = tables.runs.get(retention.job, NOTHING)
    newest = max((slot for slot, row in rows.items() if may_be_newest(row)), default=-math.inf)
    old = [row for slot, row in rows.items() if slot + retention.runs * 1000 < moment.wall]
    found = [row for row in old if prunable(row, newest, retention.runs, moment)]
    return sorted(found, key=lambda row: row.slot)


def prunable_fences(retention: Retention, tables: Tables, moment: Moment) -> list[int]:
    results = tables.results.get(retention.job, NOTHING)
    if len(results) <= retention.records:
        return []
    fences = sorted(results, reverse=True)
    oldest = moment.wall - retention.age * 1000
    old = [f for f in fences[retention.records :] if to_ms(results[f].ended_at) < oldest]
    return sorted({*old, *fences[MAX_RECORDS:]})
