"""What goes to a PostgreSQL server and comes from it, as the values of the package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any, Final

from leasecron.backends.rows import LEASE_ENDED, RunRow, keys_of, valid_text
from leasecron.backends.server.backend import early, result_of
from leasecron.model import (
    BackfillState,
    Claim,
    ClaimAnswer,
    HeartbeatAnswer,
    JobState,
    LeaseState,
    Pause,
    RunResult,
    RunState,
    from_ms,
    to_ms,
)

HEARTBEAT_ANSWERS: Final[Sequence[HeartbeatAnswer]] = ("lost", "ok", "replaced")
"""By the number of which a heartbeat is answered."""

_ESCAPE = "\x1a"


def row_values(row: RunRow) -> tuple[Any, ...]:
    """Return a row as the store keeps it, in the order of its columns."""
    *values, boot, _lease_mono, retries, origin, cancelled = astuple(row)
    return (*values, boot == LEASE_ENDED, retries, origin, cancelled)


def columns_of_results(results: Sequence[RunResult]) -> tuple[Sequence[Any], ...]:
    """Return all that records say."""
    return (
        [each.fence for each in results],
        *keys_of(results),
        [each.attempt for each in results],
        [each.instance for each in results],
        [each.trigger for each in results],
        [each.status for each in results],
        [to_ms(each.started_at) for each in results],
        [to_ms(each.ended_at) for each in results],
        [kept_text(each.error) for each in results],
        [each.retries for each in results],
    )


def columns_of_pauses(pauses: Sequence[Pause]) -> tuple[Sequence[Any], ...]:
    """Return all that pauses say."""
    return (
        [each.job for each in pauses],
        [to_ms(each.paused_at) for each in pauses],
        [None if each.resumed_at is None else to_ms(each.resumed_at) for each in pauses],
        [kept_text(each.note) for each in pauses],
    )


def claim_answer(claim: Claim, values: Sequence[Any]) -> ClaimAnswer:
    """Return what was answered to a claim."""
    outcome, attempt, fence, holder, other, more = values
    if outcome == "early":
        return early(claim, other)
    answer = ClaimAnswer(outcome, attempt, fence, holder, None if other is None else from_ms(other))
    if more is not None:
        closed, answer.abandoned, answer.retries, answer.trigger = more
        answer.closed = tuple(record(each.values()) for each in closed or ())
    return answer


def lease_state(values: Sequence[Any]) -> LeaseState:
    """Return a run that has not ended."""
    job, slot, attempt, alive, origin = values
    return LeaseState(job, from_ms(slot), attempt, alive, origin)


def run_state(job: str, slot: datetime, values: Sequence[Any]) -> RunState:
    """Return how a run stands."""
    state, attempt, retries, instance, result, fence, trigger, claimed_at, ended_at = values
    return RunState(
        job,
        slot,
        state,
        attempt,
        retries,
        instance,
        None if result is None else record(result),
        fence or None,
        trigger,
        from_ms(claimed_at),
        None if ended_at is None else from_ms(ended_at),
    )


def backfill_state(values: Sequence[Any]) -> BackfillState:
    """Return a backfill."""
    job, since, until, total, instance, asked_at, cursor, succeeded, failed, ended_at = values
    return BackfillState(
        job,
        from_ms(since),
        from_ms(until),
        total,
        instance,
        from_ms(asked_at),
        None if cursor is None else from_ms(cursor),
        succeeded,
        failed,
        None if ended_at is None else from_ms(ended_at),
    )


def backfill_values(backfill: BackfillState) -> tuple[Any, ...]:
    """Return a backfill as the store keeps it, in the order of its columns."""
    values = astuple(backfill)
    return tuple(to_ms(value) if isinstance(value, datetime) else value for value in values)


def job_state(values: Sequence[Any]) -> JobState:
    """Return a job."""
    name, schedule, first_seen, last_seen, paused_at, note = values
    return JobState(
        name,
        schedule,
        from_ms(first_seen),
        from_ms(last_seen),
        None if paused_at is None else from_ms(paused_at),
        _given_text(note),
    )


def pause_of(job: str, values: Sequence[Any]) -> Pause:
    """Return a pause of a job."""
    paused_at, resumed_at, note = values
    return Pause(
        job,
        from_ms(paused_at),
        None if resumed_at is None else from_ms(resumed_at),
        _given_text(note) or "",
    )


def record(values: Iterable[Any]) -> RunResult:
    """Return a record of the history."""
    *known, error, retries = values
    return result_of([*known, _given_text(error)], retries)


def kept_text(text: str | None) -> str | None:
    """Return text that the server can keep: it has none with a NUL in it."""
    text = valid_text(text)
    if text is None or not ("\0" in text or _ESCAPE in text):
        return text
    return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")


def _given_text(text: str | None) -> str | None:
    if text is None or _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)
