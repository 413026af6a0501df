"""Short words for the calls of a store. Slots are whole seconds after the start of the clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from contract.hand_clock import START, HandClock
from leasecron.backends.base import ControlBackend
from leasecron.model import (
    Claim,
    ClaimAnswer,
    Ending,
    HeartbeatAnswer,
    LeaseRef,
    LeaseState,
    RunResult,
    Status,
    from_seconds,
)

JOB = "job"
LEASE = 20.0


def at(seconds: float) -> datetime:
    """Return the slot so many seconds after the start."""
    return from_seconds(START + seconds)


def a_claim(slot: float, token: str, **fields: Any) -> Claim:
    """Return a claim with everyday values; the instance is called like the token."""
    values: dict[str, Any] = {
        "job": JOB,
        "slot": at(slot),
        "token": token,
        "instance": f"instance-{token}",
        "lease": LEASE,
        "overlap": "skip",
        "max_attempts": 3,
        "max_late": 300.0,
    }
    return Claim(**values | fields)


@dataclass
class Driver:
    """An open store and the clock that it reads."""

    backend: ControlBackend
    clock: HandClock

    def claim(self, slot: float, token: str, **fields: Any) -> ClaimAnswer:
        """Claim one run."""
        (answer,) = self.backend.claim([a_claim(slot, token, **fields)])
        return answer

    def take_over(self, slot: float, token: str, **fields: Any) -> ClaimAnswer:
        """Ask as a backup does."""
        return self.claim(slot, token, mode="takeover", trigger="takeover", **fields)

    def win(self, slot: float, token: str, **fields: Any) -> int:
        """Claim one run, win it, and return its fence."""
        answer = self.claim(slot, token, **fields)
        assert answer.outcome == "won", answer
        assert answer.fence is not None
        return answer.fence

    def heartbeat(
        self, slot: float, token: str, *, job: str = JOB, lease: float = LEASE
    ) -> HeartbeatAnswer:
        """Renew one lease."""
        (answer,) = self.backend.heartbeat([LeaseRef(job, at(slot), token, lease)])
        return answer

    def finish(
        self,
        slot: float,
        token: str,
        status: Status = "success",
        *,
        job: str = JOB,
        keep_lease: bool = False,
    ) -> bool:
        """Record the end of one run."""
        ending = Ending(job, at(slot), token, status, keep_lease=keep_lease)
        (answer,) = self.backend.finish([ending])
        return answer

    def release(self, slot: float, token: str, *, counted: bool = False) -> bool:
        """Give one run back."""
        (answer,) = self.backend.release(
            [Ending(JOB, at(slot), token, "interrupted", counted=counted)]
        )
        return answer

    def save(
        self,
        slot: float,
        fence: int | None,
        status: Status = "success",
        *,
        job: str = JOB,
        error: str | None = None,
        retries: int = 0,
    ) -> None:
        """Save the record of one attempt that took a second and ends now."""
        self.backend.save_results(
            [
                RunResult(
                    job=job,
                    slot=at(slot),
                    attempt=1,
                    fence=fence,
                    instance="saver",
                    trigger="scheduled",
                    status=status,
                    started_at=from_seconds(self.clock.now - 1),
                    ended_at=from_seconds(self.clock.now),
                    duration=1.0,
                    error=error,
                    retries=retries,
                )
            ]
        )

    def statuses(self, job: str | None = JOB) -> list[tuple[int | None, str]]:
        """Return fence and status of every record, oldest first."""
        found = self.backend.history(job, limit=1000)
        return [(result.fence, result.status) for result in reversed(found)]

    def unfinished(self, *jobs: str) -> list[LeaseState]:
        """Return the runs that have not ended."""
        return self.backend.unfinished(jobs or (JOB,))
