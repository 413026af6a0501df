"""A store without leases in memory: the least that the scheduler needs of one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from leasecron.clock import Clock
from leasecron.model import (
    Claim,
    ClaimAnswer,
    Declaration,
    Retention,
    RunResult,
    from_seconds,
)


class ClaimMemory:
    """Knows who won a slot. Instances that share the object share the store."""

    kind: Literal["claim-only"] = "claim-only"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock: Clock | None = None
        self._claims: dict[tuple[str, datetime], Claim] = {}
        self._seen: dict[str, datetime] = {}
        self.results: list[RunResult] = []

    def open(self, clock: Clock | None = None) -> None:
        self._clock = clock

    def close(self) -> None:
        """Nothing is held."""

    suspend = forget = close

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        with self._lock:
            return [self._decide(claim) for claim in claims]

    def declare(self, jobs: Sequence[Declaration]) -> list[datetime]:
        return [self._seen.setdefault(declared.job, self._now()) for declared in jobs]

    def save_results(self, results: Sequence[RunResult]) -> None:
        self.results += [result for result in results if result not in self.results]

    def history(self, job: str | None = None, *, limit: int = 100) -> list[RunResult]:
        kept = [result for result in self.results if job in (None, result.job)]
        return kept[::-1][:limit]

    def prune(self, retentions: Sequence[Retention]) -> bool:
        return False

    def _decide(self, claim: Claim) -> ClaimAnswer:
        late = (self._now() - claim.slot).total_seconds() > claim.max_late
        holder = self._claims.get((claim.job, claim.slot))
        if claim.mode == "takeover" and (holder is None or holder.token != claim.token):
            return ClaimAnswer("done")
        if holder is None and late:
            return ClaimAnswer("late")
        holder = self._claims.setdefault((claim.job, claim.slot), claim)
        if holder.token == claim.token:
            return ClaimAnswer("won", attempt=1)
        return ClaimAnswer("done", holder=holder.instance)

    def _now(self) -> datetime:
        assert self._clock is not None
        return from_seconds(self._clock.wall())
