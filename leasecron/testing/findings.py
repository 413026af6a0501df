"""Which promises the evidence of a simulated cluster shows to be broken."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from leasecron.events import RunSkipped, StoreFailed
from leasecron.jobs import Job
from leasecron.model import RunResult
from leasecron.testing.attempts import Attempt

MARGIN = timedelta(minutes=1)
"""An instance that was well for so long before and after a slot must account for it.

After it, the time comes on top for which the slot may wait: its jitter, or for a place.
"""

_Run = tuple[str, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of what happened.

    ``results`` is the history, ``told`` are the results in events. ``jobs`` holds each job and
    since when it is declared. ``is_narrow`` says whether slots may have had to wait for a place.
    """

    attempts: Sequence[Attempt]
    clashes: Sequence[tuple[Attempt, Attempt]]
    results: Sequence[RunResult]
    is_narrow: bool
    skips: Sequence[RunSkipped]
    told: Sequence[RunResult]
    faults: Sequence[StoreFailed]
    jobs: Mapping[str, tuple[Job, datetime]]
    now: datetime
    was_well: Callable[[datetime, datetime], bool]


def findings(evidence: Evidence) -> list[str]:
    """Return one line for each promise that was broken."""
    return [
        *_clashes(evidence),
        *_repetitions(evidence),
        *_ends(evidence),
        *_untrue_records(evidence),
        *_missing_records(evidence),
        *_lost_slots(evidence),
    ]


def _clashes(evidence: Evidence) -> Iterator[str]:
    for one, other in evidence.clashes:
        yield f"held at once: {_named(one)} and {_named(other)}, at {other.began.isoformat()}"


def _repetitions(evidence: Evidence) -> Iterator[str]:
    numbers = Counter((a.job, a.slot, a.attempt) for a in evidence.attempts)
    fences = Counter(a.fence for a in evidence.attempts if a.fence is not None)
    before: dict[_Run, int] = {}
    # By number: a holder that was paused before its handler may begin after its successor.
    for attempt in sorted(evidence.attempts, key=lambda each: each.attempt):
        fence = attempt.fence
        if fence is not None and fence <= before.get((attempt.job, attempt.slot), 0):
            yield f"a fence that does not rise: {_named(attempt)} fence {fence}"
        before[attempt.job, attempt.slot] = fence or 0
        if numbers[attempt.job, attempt.slot, attempt.attempt] > 1:
            yield f"made more than once: {_named(attempt)}"
        if fence is not None and fences[fence] > 1:
            yield f"a fence that others have too: {_named(attempt)} fence {fence}"


def _ends(evidence: Evidence) -> Iterator[str]:
    begun: defaultdict[_Run, int] = defaultdict(int)
    for attempt in evidence.attempts:
        run = (attempt.job, attempt.slot)
        begun[run] = max(begun[run], attempt.attempt)
    ends: defaultdict[_Run, list[RunResult]] = defaultdict(list)
    for result in evidence.results:
        if result.status in ("success", "failed"):
            ends[result.job, result.slot].append(result)
    for run, results in ends.items():
        if len(results) > 1:
            yield f"ended {len(results)} times: {_run(run)}"
        if begun[run] > max(result.attempt for result in results):
            yield f"attempted again after its end: {_run(run)}"


def _untrue_records(evidence: Evidence) -> Iterator[str]:
    made = {(a.job, a.slot, a.attempt): a for a in evidence.attempts}
    for result in evidence.results:
        attempt = made.get((result.job, result.slot, result.attempt))
        what = f"{_run((result.job, result.slot))} attempt {result.attempt}"
        if result.status in ("success", "failed") and attempt is None:
            yield f"recorded as {result.status}, but never made: {what}"
        elif attempt is None:
            continue
        elif result.instance != attempt.instance:
            yield f"recorded as of {result.instance}, but made by {attempt.instance}: {what}"
        elif result.status == "success" and not _returned(attempt):
            yield f"recorded as success, but its handler did not return: {what}"
        elif result.status == "failed" and not _failed(attempt):
            yield f"recorded as failed, but its handler did not fail: {what}"


def _missing_records(evidence: Evidence) -> Iterator[str]:
    recorded = {(r.job, r.slot, r.attempt) for r in evidence.results}
    unsaved = {(f.job, f.slot) for f in evidence.faults if f.operation == "save_results"}
    counts = Counter(r.job for r in evidence.results)
    for result in evidence.told:
        if result.job not in evidence.jobs or (result.job, result.slot) in unsaved:
            continue
        retention = evidence.jobs[result.job][0].options.retention(result.job)
        # Whoever prunes may have a clock that is ahead.
        young = evidence.now - result.ended_at < timedelta(seconds=retention.age) / 2
        kept = young or counts[result.job] < retention.records
        if kept and (result.job, result.slot, result.attempt) not in recorded:
            what = f"{_run((result.job, result.slot))} attempt {result.attempt}"
            yield f"told as {result.status}, and not in the history: {what}"


def _lost_slots(evidence: Evidence) -> Iterator[str]:
    accounted = {(a.job, a.slot) for a in evidence.attempts}
    accounted |= {(r.job, r.slot) for r in evidence.results}
    accounted |= {(s.job, s.slot) for s in evidence.skips if s.reason in ("late", "overlap")}
    for name, (job, since) in evidence.jobs.items():
        options = job.options
        # A run that was given back unmade is replaced when its backups come later than this.
        replaced = timedelta(seconds=options.lease + 2 * options.heartbeat)
        slot = job.schedule.next_after(since + MARGIN)
        while slot is not None and slot + MARGIN < evidence.now:
            following = job.schedule.next_after(slot)
            alone = following is None or following - slot > replaced
            if alone and (name, slot) not in accounted:
                gap = None if following is None else (following - slot).total_seconds()
                waits = options.max_late if evidence.is_narrow else options.jitter_for(gap)
                until = slot + MARGIN + timedelta(seconds=waits)
                if evidence.was_well(slot - MARGIN, until):
                    yield f"neither run nor skipped: {_run((name, slot))}"
            slot = following


def _returned(attempt: Attempt) -> bool:
    return attempt.ended is not None and attempt.exception is None


def _failed(attempt: Attempt) -> bool:
    return attempt.exception is not None or attempt.context.signal.reason == "timeout"


def _named(attempt: Attempt) -> str:
    run = _run((attempt.job, attempt.slot))
    return f"{run} attempt {attempt.attempt} on {attempt.instance}"


def _run(run: _Run) -> str:
    return f"job {run[0]!r} slot {run[1].isoformat()}"
