"""What is known of all that happened in a simulated cluster, and how it is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from leasecron.events import RunSkipped, StoreFailed
from leasecron.jobs import Job
from leasecron.model import RunResult
from leasecron.testing.attempts import Attempt
from leasecron.testing.witness import Witness

MARGIN = timedelta(minutes=1)
"""An instance that was well for so long before and after a slot must account for it.

After it, the time comes on top for which the slot may wait: its jitter, or for a place.
"""

Key = tuple[str, datetime, int]
"""A run: its job's name, its slot, and how often a backfill had begun it anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known of what happened.

    ``results`` is the history, ``told`` are the results in events. ``jobs`` holds each job and
    since when it is declared. ``is_narrow`` says whether slots may have had to wait for a place.
    ``was_skewed`` says whether any wall clock was wrong, ``was_well`` whether none was and an
    instance was well all the time.
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
    was_skewed: Callable[[datetime, datetime], bool]
    was_well: Callable[[datetime, datetime], bool]
    witness: Witness

    def run_of(self, what: Attempt | RunResult) -> Key:
        """Return the run that an attempt or its record is of."""
        job, slot = what.job, what.slot
        return job, slot, self.witness.begun_anew(job, slot, what.fence)


def named(attempt: Attempt) -> str:
    """Name an attempt in a finding."""
    run = named_run(attempt.job, attempt.slot)
    return f"{run} attempt {attempt.attempt} on {attempt.instance}"


def named_run(job: str, slot: datetime) -> str:
    """Name a run in a finding."""
    return f"job {job!r} slot {slot.isoformat()}"
