"""Which promises about backfills were broken, but for those that :class:`Witness` finds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime

from leasecron.testing.control_findings import time_to_begin
from leasecron.testing.evidence import Evidence, named


def backfill_findings(evidence: Evidence) -> Iterator[str]:
    """Yield one line for each promise that was broken."""
    yield from _run_after_success(evidence)
    yield from _left_alone(evidence)


def _run_after_success(evidence: Evidence) -> Iterator[str]:
    """Find the slots of which one run had succeeded, and a later one was begun."""
    succeeded: defaultdict[tuple[str, datetime], list[int]] = defaultdict(list)
    for result in evidence.results:
        if result.status == "success":
            succeeded[result.job, result.slot].append(evidence.run_of(result)[-1])
    for attempt in evidence.attempts:
        times = evidence.run_of(attempt)[-1]
        if any(before < times for before in succeeded[attempt.job, attempt.slot]):
            yield f"a slot that succeeded was run again: {named(attempt)}"


def _left_alone(evidence: Evidence) -> Iterator[str]:
    """Find the backfills whose next step nobody made though an instance was well."""
    for backfill in evidence.witness.backfills:
        if backfill.job not in evidence.jobs:
            continue
        job, since = evidence.jobs[backfill.job]
        for begin, end in backfill.gaps_until(evidence.now):
            found = time_to_begin(evidence, job, (max(begin, since), end), alone=True)
            if found is not None:
                yield f"a backfill did not go on from {found.isoformat()} on: job {job.name!r}"
                break
