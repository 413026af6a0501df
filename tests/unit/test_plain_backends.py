"""Backends from elsewhere, with what a store with leases is about and none of the rest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from leasecron import ConfigurationError, Scheduler
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.plain import OPTIONAL, REQUIRED
from leasecron.clock import Clock
from leasecron.model import (
    Claim,
    ClaimAnswer,
    Ending,
    HeartbeatAnswer,
    LeaseRef,
    LeaseState,
    RunResult,
)
from leasecron.testing import EventRecorder, FakeClock


class Plain:
    """The required methods, written out, and nothing else."""

    kind = "lease"

    def __init__(self) -> None:
        self._inner = MemoryBackend()

    def open(self, clock: Clock | None = None) -> None:
        self._inner.open(clock)

    def close(self) -> None:
        self._inner.close()

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        return self._inner.claim(claims)

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        return self._inner.heartbeat(leases)

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        return self._inner.finish(endings)

    def release(self, endings: Sequence[Ending]) -> list[bool]:
        return self._inner.release(endings)

    def unfinished(self, jobs: Sequence[str]) -> list[LeaseState]:
        return self._inner.unfinished(jobs)

    def save_results(self, results: Sequence[RunResult]) -> None:
        self._inner.save_results(results)

    def history(self, job: str | None = None, *, limit: int = 100) -> list[RunResult]:
        return self._inner.history(job, limit=limit)


def test_a_backend_with_the_required_methods_alone_runs_jobs_and_keeps_history() -> None:
    assert not any(hasattr(Plain(), name) for name in OPTIONAL)
    clock = FakeClock()
    scheduler = Scheduler(Plain(), clock=clock)
    events = EventRecorder(scheduler)
    scheduler.every("tick", "10s", lambda: None, jitter=0)
    scheduler.start()
    clock.advance(150)
    assert scheduler.stop() is True
    assert len(events.of("success")) == 16
    assert events.of("error") == []
    assert len(scheduler.history("tick")) == 16


def test_what_a_backend_has_is_used() -> None:
    class Declaring(Plain):
        declared: list[str] = []  # noqa: RUF012 - looked at by the test

        def declare(self, jobs: Sequence[object]) -> list[object]:
            self.declared += [job.job for job in jobs]  # type: ignore[attr-defined]
            return list(self._inner.declare(jobs))  # type: ignore[arg-type]

    clock = FakeClock()
    scheduler = Scheduler(Declaring(), clock=clock)
    scheduler.every("tick", "10s", lambda: None)
    with scheduler:
        clock.advance(1)
    assert Declaring.declared == ["tick"]


@pytest.mark.parametrize("name", REQUIRED["lease"])
def test_a_backend_that_lacks_a_method_is_refused_and_the_method_named(name: str) -> None:
    class Lacking(Plain):
        pass

    setattr(Lacking, name, None)
    with pytest.raises(ConfigurationError, match=f"has no {name}"):
        Scheduler(Lacking())
