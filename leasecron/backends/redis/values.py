"""How a Redis store writes down rows, records and answers, and reads them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any

from leasecron.backends.rows import LEASE_ENDED, RunRow, valid_text
from leasecron.backends.server.backend import early, result_of
from leasecron.backends.transfer import Page
from leasecron.model import (
    BackfillState,
    Claim,
    ClaimAnswer,
    HeartbeatAnswer,
    JobState,
    Pause,
    RunResult,
    RunState,
    from_ms,
    to_ms,
)

_HEARTBEATS: dict[int, HeartbeatAnswer] = {0x30: "lost", 0x31: "ok", 0x32: "replaced"}
_VALUES_OF_RECORD = 10
"""Those that a record always had; what came later is behind them, and may not be there."""


def flags(answer: bytes) -> list[bool]:
    """Return what was answered to each item of a call."""
    return [flag == 0x31 for flag in answer]


def heartbeat_answers(answer: bytes) -> list[HeartbeatAnswer]:
    """Return what was answered to each lease."""
    return [_HEARTBEATS[flag] for flag in answer]


def answer_of(claim: Claim, values: Sequence[Any]) -> ClaimAnswer:
    """Return the answer to a claim that did not simply win."""
    outcome, attempt, fence, holder, other, closed, abandoned, retries, trigger = values
    if outcome == "early":
        return early(claim, other)
    return ClaimAnswer(
        outcome,
        attempt,
        fence,
        holder,
        None if other is None else from_ms(other),
        None,
        tuple(record_of(record) for record in closed),
        abandoned,
        retries,
        trigger,
    )


def columns_of_page(page: Page) -> tuple[Sequence[Any], ...]:
    """Return all that another store hands over."""
    return (
        [each.name for each in page.jobs],
        [(each.first_seen, each.last_seen, each.schedule, each.once_at) for each in page.jobs],
        [each.pruned for each in page.jobs],
        [row.job for row in page.runs],
        [row.slot for row in page.runs],
        [values_of_row(row) for row in page.runs],
        [each.fence for each in page.results],
        [each.job for each in page.results],
        [text_of(each) for each in page.results],
        [each.job for each in page.pauses],
        [values_of_pause(each) for each in page.pauses],
        [values_of_backfill(each) for each in page.backfills],
    )


def values_of_row(row: RunRow) -> tuple[Any, ...]:
    """Return what is packed of a row."""
    _job, _slot, state, token, *values, boot, _lease_mono, retries, origin, cancelled = astuple(row)
    return (state, token or False, *values, boot == LEASE_ENDED, retries, origin, cancelled)


def text_of(result: RunResult) -> str:
    """Return a record as the store keeps it; the scripts look at its first number only."""
    return json.dumps(
        [
            to_ms(result.ended_at),
            result.fence,
            result.job,
            to_ms(result.slot),
            result.attempt,
            result.instance,
            result.trigger,
            result.status,
            to_ms(result.started_at),
            valid_text(result.error),
            result.retries,
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def record_of(values: Sequence[Any]) -> RunResult:
    """Return what a record says."""
    ended_at, *known, error = values[:_VALUES_OF_RECORD]
    return result_of([*known, ended_at, error], *values[_VALUES_OF_RECORD:])


def values_of_pause(pause: Pause) -> tuple[Any, ...]:
    """Return what is packed of a pause."""
    ended = pause.resumed_at is not None and to_ms(pause.resumed_at)
    return (to_ms(pause.paused_at), ended, valid_text(pause.note))


def pause_of(job: str, values: Sequence[Any]) -> Pause:
    """Return what is known of a pause."""
    since, ended, note = values
    return Pause(job, from_ms(since), None if ended is None else from_ms(ended), note)


def job_state_of(values: Sequence[Any]) -> JobState:
    """Return what is known of a job."""
    name, schedule, first, last, since, note = values
    paused_at = None if since is None else from_ms(since)
    return JobState(name, schedule, from_ms(first), from_ms(last), paused_at, note)


def run_state_of(job: str, slot: int, values: Sequence[Any]) -> RunState:
    """Return how a run stands; another run's record, which a copy may have put there, is none."""
    state, attempt, retries, instance, found, fence, trigger, began_at, ended_at = values
    latest = None if found is None else record_of(found)
    if latest is not None and (latest.job, to_ms(latest.slot)) != (job, slot):
        latest = None
    return RunState(
        job,
        from_ms(slot),
        state,
        attempt,
        retries,
        instance,
        latest,
        fence or None,
        trigger,
        from_ms(began_at),
        None if ended_at is None else from_ms(ended_at),
    )


def values_of_backfill(backfill: BackfillState) -> list[Any]:
    """Return what is kept of a backfill, with False for an instant that is not there."""
    return [
        to_ms(value) if isinstance(value, datetime) else False if value is None else value
        for value in astuple(backfill)
    ]


def backfill_state_of(values: Sequence[Any]) -> BackfillState:
    """Return what is known of a backfill."""
    job, since, ends, total, instance, asked_at, cursor, succeeded, failed, ended_at = values
    return BackfillState(
        job,
        from_ms(since),
        from_ms(ends),
        total,
        instance,
        from_ms(asked_at),
        None if cursor is None else from_ms(cursor),
        succeeded,
        failed,
        None if ended_at is None else from_ms(ended_at),
    )
