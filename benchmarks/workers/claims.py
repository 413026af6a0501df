"""Claims as an instance makes them, for the workers that call a store directly."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta

from leasecron.model import Claim, ClaimAnswer, Ending, RunResult, from_ms


def now_ms() -> int:
    """Return the wall clock in Unix milliseconds, as the slot of a claim."""
    return round(time.time() * 1000)


def claims_of(jobs: Iterable[str], slot_ms: int, instance: str) -> list[Claim]:
    """Return a claim with the default options for each job."""
    slot = from_ms(slot_ms)
    return [
        Claim(job, slot, os.urandom(16).hex(), instance, 20.0, "skip", 3, 300.0) for job in jobs
    ]


def endings_of(claims: Iterable[Claim]) -> list[Ending]:
    """Return the successful ends of the runs."""
    return [Ending(claim.job, claim.slot, claim.token, "success") for claim in claims]


def results_of(claims: Sequence[Claim], answers: Sequence[ClaimAnswer]) -> list[RunResult]:
    """Return the records of runs that were won and took a second."""
    return [
        RunResult(
            job=claim.job,
            slot=claim.slot,
            attempt=1,
            fence=answer.fence,
            instance=claim.instance,
            trigger=claim.trigger,
            status="success",
            started_at=claim.slot,
            ended_at=claim.slot + timedelta(seconds=1),
            duration=1.0,
        )
        for claim, answer in zip(claims, answers, strict=True)
    ]
