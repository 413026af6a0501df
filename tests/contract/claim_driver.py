"""Short words for what stores of both kinds do, in the words of those that only know claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from contract.driver import JOB, a_claim, at
from contract.hand_clock import HandClock
from leasecron.backends.base import ClaimOnlyBackend, LeaseBackend
from leasecron.model import ClaimAnswer, Ending, RunResult, Status, from_seconds


@dataclass
class ClaimDriver:
    """An open store and the clock that it reads."""

    backend: ClaimOnlyBackend | LeaseBackend
    clock: HandClock

    def claim(self, slot: float, token: str, **fields: Any) -> ClaimAnswer:
        """Claim one run; overlap is allowed, since a claim-only store cannot forbid it."""
        (answer,) = self.backend.claim([a_claim(slot, token, **{"overlap": "allow"} | fields)])
        return answer

    def wins(self, slot: float, token: str, **fields: Any) -> bool:
        """Claim one run; return whether it was won, and make sure that it else was lost."""
        answer = self.claim(slot, token, **fields)
        assert answer.outcome == "won" or is_lost(answer), answer
        return answer.outcome == "won"

    def run(
        self, slot: float, token: str, status: Status = "success", *, job: str = JOB, **fields: Any
    ) -> RunResult:
        """Win a run, bring it to its end and save its record, which is returned."""
        answer = self.claim(slot, token, job=job, **fields)
        assert answer.outcome == "won", answer
        if self.backend.kind == "lease":
            ending = Ending(job, at(slot), token, status)
            assert self.backend.finish([ending]) == [True]
        now = from_seconds(self.clock.now)
        result = RunResult(
            job=job,
            slot=at(slot),
            attempt=1,
            fence=answer.fence,
            instance=f"instance-{token}",
            trigger="scheduled",
            status=status,
            started_at=now,
            ended_at=from_seconds(self.clock.now + 1.5),
            duration=1.5,
            error=None if status == "success" else "ValueError: ü 🎉 \0 'quoted'",
        )
        self.backend.save_results([result])
        return result


def is_lost(answer: ClaimAnswer) -> bool:
    """Say whether another one has the run; a store without leases cannot tell if it still does."""
    return answer.outcome in {"done", "running"}
