"""Which promises the evidence of a simulated cluster shows to be broken."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta

from leasecron.model import RunResult
from leasecron.schedules import Once
from leasecron.testing.attempts import Attempt
from leasecron.testing.backfill_findings import backfill_findings
from leasecron.testing.control_findings import control_findings
from leasecron.testing.evidence import MARGIN, Evidence, Key, named, named_run


def findings(evidence: Evidence) -> list[str]:
    """Return one line for each promise that was broken."""
    return [
        *_clashes(evidence),
        *_repetitions(evidence),
        *_ends(evidence),
        *_untrue_records(evidence),
        *_missing_records(evidence),
        *_lost_slots(evidence),
        *evidence.witness.broken,
        *control_findings(evidence),
        *backfill_findings(evidence),
    ]


def _clashes(evidence: Evidence) -> Iterator[str]:
    for one, other in evidence.clashes:
        yield f"held at once: {named(one)} and {named(other)}, at {other.began.isoformat()}"


def _repetitions(evidence: Evidence) -> Iterator[str]:
    run_of = evidence.run_of
    tries = Counter((a.job, a.slot, a.attempt, a.fence, a.retry) for a in evidence.attempts)
    attempts = {(a.job, a.slot, a.attempt, a.fence): a for a in evidence.attempts}
    numbers = Counter((*run_of(a), a.attempt) for a in attempts.values())
    fences = Counter(a.fence for a in attempts.values() if a.fence is not None)
    before: dict[Key, int] = {}
    for attempt in evidence.attempts:
        number, fence = attempt.attempt, attempt.fence
        if tries[attempt.job, attempt.slot, number, fence, attempt.retry] > 1:
            yield f"made more than once: {named(attempt)} retry {attempt.retry}"
    # By number: a holder that was paused before its handler may begin after its successor.
    for attempt in sorted(attempts.values(), key=lambda each: each.attempt):
        fence = attempt.fence
        run = run_of(attempt)
        if fence is not None and fence <= before.get(run, 0):
            yield f"a fence that does not rise: {named(attempt)} fence {fence}"
        before[run] = fence or 0
        if numbers[*run, attempt.attempt] > 1:
            yield f"made more than once: {named(attempt)}"
        if fence is not None and fences[fence] > 1:
            yield f"a fence that others have too: {named(attempt)} fence {fence}"


def _ends(evidence: Evidence) -> Iterator[str]:
    begun: defaultdict[Key, int] = defaultdict(int)
    for attempt in evidence.attempts:
        run = evidence.run_of(attempt)
        begun[run] = max(begun[run], attempt.attempt)
    ends: defaultdict[Key, list[RunResult]] = defaultdict(list)
    for result in evidence.results:
        if result.status in ("success", "failed"):
            ends[evidence.run_of(result)].append(result)
    for run, results in ends.items():
        job, slot, _ = run
        if len(results) > 1:
            yield f"ended {len(results)} times: {named_run(job, slot)}"
        if begun[run] > max(result.attempt for result in results):
            yield f"attempted again after its end: {named_run(job, slot)}"


def _untrue_records(evidence: Evidence) -> Iterator[str]:
    made = {(evidence.run_of(a), a.attempt): a for a in evidence.attempts}
    for result in evidence.results:
        attempt = made.get((evidence.run_of(result), result.attempt))
        what = f"{named_run(result.job, result.slot)} attempt {result.attempt}"
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
    recorded = {(evidence.run_of(r), r.attempt) for r in evidence.results}
    unsaved = {(f.job, f.slot) for f in evidence.faults if f.operation == "save_results"}
    counts = Counter(r.job for r in evidence.results)
    for result in evidence.told:
        if result.job not in evidence.jobs or (result.job, result.slot) in unsaved:
            continue
        retention = evidence.jobs[result.job][0].options.retention(result.job)
        # Whoever prunes may have a clock that is ahead.
        young = evidence.now - result.ended_at < timedelta(seconds=retention.age) / 2
        kept = young or counts[result.job] < retention.records
        if kept and (evidence.run_of(result), result.attempt) not in recorded:
            what = f"{named_run(result.job, result.slot)} attempt {result.attempt}"
            yield f"told as {result.status}, and not in the history: {what}"


def _lost_slots(evidence: Evidence) -> Iterator[str]:
    accounted = {(a.job, a.slot) for a in evidence.attempts}
    accounted |= {(r.job, r.slot) for r in evidence.results}
    told = ("late", "overlap", "paused")
    accounted |= {(skip.job, skip.slot) for skip in evidence.skips if skip.reason in told}
    for name, (job, since) in evidence.jobs.items():
        options = job.options
        # A run that was given back unmade is replaced when its backups come later than this.
        replaced = timedelta(seconds=options.lease + 2 * options.heartbeat)
        # A process that has not heard from the store has an instant of its own.
        fixed = evidence.witness.fixed.get(name)
        schedule = job.schedule if fixed is None else Once(fixed)
        slot = schedule.next_after(since + MARGIN)
        while slot is not None and slot + MARGIN < evidence.now:
            following = schedule.next_after(slot)
            alone = following is None or following - slot > replaced
            if alone and (name, slot) not in accounted:
                gap = None if following is None else (following - slot).total_seconds()
                waits = options.max_late if evidence.is_narrow else options.jitter_for(gap)
                until = slot + MARGIN + timedelta(seconds=waits)
                if evidence.was_well(slot - MARGIN, until):
                    yield f"neither run nor skipped: {named_run(name, slot)}"
            slot = following


def _returned(attempt: Attempt) -> bool:
    return attempt.ended is not None and attempt.exception is None


def _failed(attempt: Attempt) -> bool:
    return attempt.exception is not None or attempt.context.signal.reason == "timeout"
