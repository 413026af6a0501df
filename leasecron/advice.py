"""What is allowed and seldom meant about a declaration; each line is logged once as a warning."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from leasecron.errors import shown
from leasecron.jobs import DeclaredJob
from leasecron.options import JobOptions
from leasecron.schedules import Every


def on_leases(job: DeclaredJob) -> Iterator[str]:
    """Say what may surprise about a job whose store has leases."""
    lease, schedule = job.options.lease, job.schedule
    if job.options.overlap == "skip" and isinstance(schedule, Every) and schedule.interval < lease:
        yield (
            f"job {shown(job.name)}: its interval ({schedule.interval} s) is shorter than its lease"
            f" ({lease} s), so after a crash its slots are skipped as overlap until the lease is"
            " over; a shorter lease makes that time shorter"
        )


def on_retries(job: DeclaredJob, given: Collection[str]) -> Iterator[str]:
    """Say which of the ``given`` options mean nothing for a job that is never tried again."""
    if not job.options.retries:
        for name in ("backoff", "backoff_max", "retry_on"):
            if name in given:
                yield f"job {shown(job.name)}: {name} means nothing without retries"


def on_claims(who: str, options: JobOptions, given: Collection[str], store: str) -> Iterator[str]:
    """Say which of the ``given`` options mean nothing, or less, where there are no leases."""
    for name in ("lease", "heartbeat", "max_attempts"):
        if name in given:
            yield f"{who}: {name} means nothing with {store}, which has no leases"
    if "overlap" in given and options.overlap == "skip":
        yield (
            f"{who}: overlap='skip' holds within each instance only with {store}, which has no"
            " leases: runs in two instances may overlap"
        )
