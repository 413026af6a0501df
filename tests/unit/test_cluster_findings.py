"""The check of a simulated cluster: each broken promise is found, and honest evidence passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from leasecron import JobOptions, RunResult, RunSkipped, Scheduler, StoreFailed
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.context import AbortSignal, RunContext
from leasecron.model import (
    Claim,
    ClaimAnswer,
    Ending,
    HeartbeatAnswer,
    LeaseRef,
    SkipReason,
    Status,
)
from leasecron.testing import Attempt, Cluster, FakeClock, make_context
from leasecron.testing.evidence import Evidence
from leasecron.testing.findings import findings
from leasecron.testing.witness import Witness

SLOT = datetime(2026, 1, 1, 1, tzinfo=UTC)
CLOCK = FakeClock()
PROCESS = CLOCK.process()


def attempt(number: int = 1, fence: int | None = None, **changes: Any) -> Attempt:
    fields: dict[str, Any] = {
        "job": "sync",
        "slot": SLOT,
        "attempt": number,
        "fence": number if fence is None else fence,
        "instance": f"instance-{number}",
        "trigger": "scheduled",
        "began": SLOT,
        "ended": SLOT + timedelta(seconds=1),
        "context": context(),
        "process": PROCESS,
    }
    return Attempt(**{**fields, **changes})


def context(reason: Any = None) -> RunContext:
    signal = AbortSignal(CLOCK)
    if reason is not None:
        signal.set(reason)
    return make_context(signal=signal)


def record(number: int = 1, status: Status = "success", instance: str | None = None) -> RunResult:
    return RunResult(
        job="sync",
        slot=SLOT,
        attempt=number,
        fence=number,
        instance=instance or f"instance-{number}",
        trigger="scheduled",
        status=status,
        started_at=SLOT,
        ended_at=SLOT,
        duration=0.0,
    )


def skip(reason: SkipReason) -> RunSkipped:
    return RunSkipped(at=SLOT, job="sync", slot=SLOT, instance="instance-1", reason=reason)


def unsaved() -> StoreFailed:
    return StoreFailed(
        at=SLOT,
        job="sync",
        slot=SLOT,
        instance="instance-1",
        operation="save_results",
        exception=None,
    )


def evidence(
    attempts: Sequence[Attempt], results: Sequence[RunResult] = (), **changes: Any
) -> Evidence:
    scheduler = Scheduler("memory://", clock=CLOCK)
    scheduler.every("sync", "1h", lambda: None)
    whole = Evidence(
        attempts=attempts,
        clashes=[],
        results=results,
        is_narrow=False,
        skips=[],
        told=[],
        faults=[],
        jobs={"sync": (scheduler.jobs["sync"], SLOT - timedelta(minutes=5))},
        now=SLOT + timedelta(minutes=5),
        was_skewed=lambda _since, _until: False,
        was_well=lambda _since, _until: True,
        witness=Witness(CLOCK),
    )
    return replace(whole, **changes)


ERROR = ValueError("no")
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (evidence([attempt()], clashes=[(attempt(), attempt(2))]), "held at once"),
        (evidence([attempt(), attempt(1, fence=2)]), "made more than once"),
        (evidence([attempt(), attempt(2, fence=1)]), "a fence that "),
        (evidence([attempt(fence=7), attempt(2, fence=6)]), "a fence that does not rise"),
        (evidence([attempt(2)], [record(2, instance="x")]), "recorded as of x, but made by"),
        (evidence([attempt(), attempt(2)], [record(), record(2)]), "ended 2 times"),
        (evidence([attempt(), attempt(2)], [record()]), "attempted again after its end"),
        (evidence([], [record()]), "recorded as success, but never made"),
        (evidence([attempt(exception=ERROR)], [record()]), "its handler did not return"),
        (evidence([attempt(ended=None)], [record()]), "its handler did not return"),
        (evidence([attempt()], [record(status="failed")]), "its handler did not fail"),
        (evidence([attempt()], told=[record()]), "told as success, and not in the history"),
        (evidence([]), "neither run nor skipped"),
        (evidence([], skips=[skip("taken")]), "neither run nor skipped"),
    ],
)
def test_a_broken_promise_is_found(seen: Evidence, said: str) -> None:
    found = findings(seen)
    assert found
    assert all(said in line for line in found)
    assert all("job 'sync' slot 2026-01-01T01:00:00+00:00" in line for line in found)


@pytest.mark.parametrize(
    "seen",
    [
        evidence([attempt()], [record()]),
        evidence([attempt(exception=ERROR)], [record(status="failed")]),
        evidence([attempt(context=context("timeout"))], [record(status="failed")]),
        evidence([attempt(ended=None), attempt(2)], [record(status="lost"), record(2)]),
        evidence([attempt()], [record(status="interrupted")]),
        evidence([attempt(2), attempt(1)], [record(1, "lost"), record(2)]),
        evidence([], [record(status="lost")]),
        evidence([], skips=[skip("late")]),
        evidence([], skips=[skip("overlap")]),
        evidence([], was_well=lambda _since, _until: False),
        evidence([], now=SLOT + timedelta(seconds=59)),
        evidence([], jobs={}),
        evidence([], is_narrow=True, was_well=lambda _since, until: until < SLOT + 2 * MINUTE),
        evidence([attempt()], [record()], told=[record()]),
        evidence([attempt()], told=[record()], faults=[unsaved()]),
    ],
)
def test_honest_evidence_passes(seen: Evidence) -> None:
    assert findings(seen) == []


# Stores that break a promise, each in one line: the whole chain from the store to the check.


class Generous(MemoryBackend):
    """Gives the run to everybody who asks."""

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        answers = super().claim(claims)
        return [ClaimAnswer("won", 1, id(a)) if a.outcome == "running" else a for a in answers]


class Forgetful(MemoryBackend):
    """Says that it has stored an end, and has not."""

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        return [True for _ in endings]


class Deaf(MemoryBackend):
    """Hears no heartbeat, and says that it has."""

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        return ["ok" for _ in leases]


class Amnesic(MemoryBackend):
    """Says that it has kept a record, and has not."""

    def save_results(self, results: Sequence[RunResult]) -> None:
        """Keep nothing."""


class Dismissive(MemoryBackend):
    """Says that runs are over that nobody has begun."""

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        return [ClaimAnswer("done") for _ in claims]


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (Generous, "held at once"),
        (Forgetful, "ended 3 times"),
        (Deaf, "held at once"),
        (Amnesic, "told as success, and not in the history"),
        (Dismissive, "neither run nor skipped"),
    ],
)
def test_a_store_that_breaks_a_promise_is_found_out(store: type[MemoryBackend], said: str) -> None:
    options = JobOptions(lease=8, heartbeat=2)
    with Cluster(3, store(), 3, defaults=options) as cluster:
        cluster.every("sync", "5m", lambda ctx: ctx.sleep(20))
        cluster.advance(720)
        with pytest.raises(AssertionError, match=said) as caught:
            cluster.check()
    assert "seed=3" in str(caught.value)
