"""Which promises about retries, pauses, runs that are asked for and slots that wait were broken.

Those about the order of what the store was told are found by :class:`Witness`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

from leasecron.errors import GiveUp
from leasecron.jobs import Job
from leasecron.testing.attempts import Attempt
from leasecron.testing.evidence import MARGIN, Evidence, Key, named
from leasecron.testing.witnessed import Gap

_STEP = timedelta(seconds=5)  # between the times at which a run that nobody held is looked at


def control_findings(evidence: Evidence) -> Iterator[str]:
    """Yield one line for each promise that was broken."""
    yield from _tries(evidence)
    yield from _given_up_early(evidence)
    yield from _unfounded_refusals(evidence)
    yield from _slots_of_pauses(evidence)
    yield from _not_told(evidence)
    yield from _neglected(evidence)


def _tries(evidence: Evidence) -> Iterator[str]:
    runs: defaultdict[Key, list[Attempt]] = defaultdict(list)
    for attempt in evidence.attempts:
        runs[evidence.run_of(attempt)].append(attempt)
    for (job, _, _), attempts in runs.items():
        # By number: a holder that was paused before its handler may begin after its successor.
        ordered = sorted(attempts, key=lambda each: each.attempt)
        for before, after in pairwise(ordered):
            more = after.retry - before.retry
            # The same try of the same attempt, made twice, is another finding.
            rises = more >= 0 if after.attempt > before.attempt else more in (0, 1)
            if not rises:
                yield f"retry {after.retry} came after retry {before.retry}: {named(after)}"
        most = evidence.jobs[job][0].options.retries if job in evidence.jobs else None
        for attempt in attempts:
            if most is not None and attempt.retry > most:
                yield f"tried again more than {most} times: {named(attempt)}"


def _given_up_early(evidence: Evidence) -> Iterator[str]:
    made = {(evidence.run_of(a), a.attempt): a for a in evidence.attempts}
    for result in evidence.results:
        last = made.get((evidence.run_of(result), result.attempt))
        if result.status != "failed" or last is None or result.job not in evidence.jobs:
            continue
        options = evidence.jobs[result.job][0].options
        worth_it = isinstance(last.exception, options.retry_on)
        given_up = isinstance(last.exception, GiveUp) or last.context.signal.told
        if worth_it and not given_up and last.retry < options.retries:
            yield f"failed for good with retries left: {named(last)} retry {last.retry}"


def _unfounded_refusals(evidence: Evidence) -> Iterator[str]:
    for run, at in evidence.witness.unfounded:
        # A store may go by the clock of whoever pauses a job, and of whoever claims.
        since = min((p.since for p in evidence.witness.pauses if p.job == run.job), default=at)
        if not evidence.was_skewed(min(since, run.slot), at):
            yield f"refused as paused, and its job was not: {run.name}"


def _slots_of_pauses(evidence: Evidence) -> Iterator[str]:
    for run in evidence.witness.all_runs():
        if not run.holdings or run.put_in is not None:
            continue
        won = run.holdings[0].won
        for pause in evidence.witness.pauses:
            until = pause.until
            if pause.job != run.job or until is None or not pause.since < run.slot < until < won:
                continue
            if not evidence.was_skewed(pause.since, won):
                yield f"begun after the pause in which it was due: {run.name}"


def _not_told(evidence: Evidence) -> Iterator[str]:
    attempts: defaultdict[int | None, list[Attempt]] = defaultdict(list)
    for attempt in evidence.attempts:
        attempts[attempt.fence].append(attempt)
    for holding in evidence.witness.holdings:
        if holding.told is None or holding.beat_since is None:
            continue
        for attempt in attempts[holding.fence]:
            went_on = attempt.ended is None or attempt.ended > holding.beat_since
            if attempt.began <= holding.told and went_on and not attempt.context.signal.told:
                yield f"went on when a newer slot waited: {named(attempt)}"


def _neglected(evidence: Evidence) -> Iterator[str]:
    """Find the runs that were put in, and that nobody held though an instance was well."""
    for run in evidence.witness.all_runs():
        if run.job not in evidence.jobs or run.put_in is None:
            continue
        job, since = evidence.jobs[run.job]
        for begin, end in run.gaps_until(evidence.now):
            alone = job.options.overlap != "allow"
            found = time_to_begin(evidence, job, (max(begin, since), end), alone=alone)
            if found is not None:
                what = "asked for" if run.asked_for else "waiting for an older run to end"
                yield f"{what}, and not begun from {found.isoformat()} on: {run.name}"
                break


def time_to_begin(evidence: Evidence, job: Job, gap: Gap, *, alone: bool) -> datetime | None:
    """Return from when on nothing stood in the way of a job for long enough, if nothing did.

    Where it has to be ``alone``, any other run of the job does.
    """
    options = job.options
    enough = MARGIN + timedelta(seconds=options.lease + 2 * options.heartbeat)
    at, end = gap
    while at + enough < end:
        blocked = _is_blocked(evidence, job, at, enough, alone=alone)
        if not blocked and evidence.was_well(at, at + enough):
            return at
        at += _STEP
    return None


def _is_blocked(
    evidence: Evidence, job: Job, at: datetime, enough: timedelta, *, alone: bool
) -> bool:
    until = at + enough
    if any(each.job == job.name and each.touches(at, until) for each in evidence.witness.pauses):
        return True
    return any(
        holding.won < until and holding.until > at
        for holding in evidence.witness.holdings
        if evidence.is_narrow or (alone and holding.claim.job == job.name)
    )
