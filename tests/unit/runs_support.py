"""Instances on one store in one process, and a store that fails or lies on demand."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, Unpack, cast

from claim_memory import ClaimMemory

from leasecron import (
    BackendError,
    BackendUnavailable,
    JobOptionArgs,
    JobOptions,
    RunResult,
    Scheduler,
)
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.clock import Clock
from leasecron.events import Event
from leasecron.model import (
    Advance,
    AdvanceAnswer,
    BackfillState,
    Claim,
    ClaimAnswer,
    Declaration,
    Ending,
    HeartbeatAnswer,
    JobState,
    LeaseRef,
    LeaseState,
    NewBackfill,
    NewRun,
    OneOff,
    Pause,
    Retention,
    Retry,
    RunState,
)
from leasecron.testing import EventRecorder, FakeClock

SEEDS = range(5)
LEASE = 8.0
HEARTBEAT = 2.0
MARGIN = 0.8
OPTIONS = JobOptions(lease=LEASE, heartbeat=HEARTBEAT, jitter=0)

_MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
_T = TypeVar("_T")


def at(seconds: float) -> datetime:
    """Return an instant on the day on which the tests take place."""
    return _MIDNIGHT + timedelta(seconds=seconds)


def seconds(clock: Clock) -> float:
    """Return the seconds since midnight."""
    return round(clock.wall() - _MIDNIGHT.timestamp(), 6)


def nap(clock: Clock, seconds: float) -> None:
    """Sleep in simulated time, deaf to every signal."""
    with contextlib.suppress(queue.Empty):
        clock.waker().get(seconds)


@dataclass(frozen=True)
class StoreCall:
    """One call that an instance made of its store, ``at`` so many seconds after midnight."""

    operation: str
    at: float
    items: list[Any]


class FaultyStore:
    """A memory store at the end of a line that can be cut.

    ``faults`` raises before the store hears of a call, ``deaf`` after it has done what it was asked
    to, ``scripts`` answers in its place (None: ask it after all). One that is ``polled`` tells of
    nothing by itself.
    """

    description = "memory://"
    warnings: Sequence[str] = ()

    def __init__(self, inner: MemoryBackend | ClaimMemory, clock: Clock) -> None:
        self.inner = cast("MemoryBackend", inner)  # a store without leases is not asked the rest
        self.kind = inner.kind
        self.calls: list[StoreCall] = []
        self.faults: dict[str, Callable[[], Exception]] = {}
        self.deaf: set[str] = set()
        self.scripts: dict[str, Callable[[list[Any]], Any]] = {}
        self.polled = False
        self._clock = clock

    def cut(self, *operations: str) -> None:
        """Let these calls fail as if the store were away for a while; all calls without a name."""
        for operation in operations or ("*",):
            self.faults[operation] = lambda: BackendUnavailable("the line is cut")

    def break_(self, *operations: str) -> None:
        """Let these calls fail for good."""
        for operation in operations:
            self.faults[operation] = lambda: BackendError("the disk is broken")

    def heal(self) -> None:
        """Let every call through again."""
        self.faults.clear()
        self.deaf.clear()
        self.scripts.clear()

    def of(self, operation: str, mode: str | None = None) -> list[StoreCall]:
        """Return the calls of one kind; of claims only those in ``mode``."""
        calls = [call for call in self.calls if call.operation == operation]
        return [c for c in calls if mode is None or any(item.mode == mode for item in c.items)]

    def checks(self, slot: datetime) -> list[float]:
        """Return when the run of ``slot`` was checked by its backup."""
        calls = self.of("claim", "takeover")
        return [call.at for call in calls if slot in [item.slot for item in call.items]]

    def open(self, clock: Clock | None = None) -> None:
        self._ask("open", [], lambda _: self.inner.open(clock))

    def close(self) -> None:
        self._ask("close", [], lambda _: self.inner.close())

    def suspend(self) -> None:
        self.inner.suspend()

    def forget(self) -> None:
        self.inner.forget()

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        return self._ask("claim", claims, self.inner.claim)

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        return self._ask("heartbeat", leases, self.inner.heartbeat)

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        return self._ask("finish", endings, self.inner.finish)

    def release(self, endings: Sequence[Ending]) -> list[bool]:
        return self._ask("release", endings, self.inner.release)

    def unfinished(self, jobs: Sequence[str]) -> list[LeaseState]:
        return self._ask("unfinished", jobs, self.inner.unfinished)

    def declare(self, jobs: Sequence[Declaration]) -> list[datetime]:
        return self._ask("declare", jobs, self.inner.declare)

    def save_results(self, results: Sequence[RunResult]) -> None:
        self._ask("save_results", results, self.inner.save_results)

    def history(self, job: str | None = None, *, limit: int = 100) -> list[RunResult]:
        return self._ask("history", [], lambda _: self.inner.history(job, limit=limit))

    def prune(self, retentions: Sequence[Retention]) -> bool:
        return self._ask("prune", retentions, self.inner.prune)

    def retry(self, retries: Sequence[Retry]) -> list[bool]:
        return self._ask("retry", retries, self.inner.retry)

    def add_runs(self, runs: Sequence[NewRun]) -> list[bool]:
        return self._ask("add_runs", runs, self.inner.add_runs)

    def withdraw(self, runs: Sequence[NewRun]) -> list[bool]:
        return self._ask("withdraw", runs, self.inner.withdraw)

    def asked_for(self) -> list[LeaseState]:
        return self._ask("asked_for", [], lambda _: self.inner.asked_for())

    def run_state(self, job: str, slot: datetime) -> RunState | None:
        return self._ask("run_state", [], lambda _: self.inner.run_state(job, slot))

    def add_backfill(self, backfill: NewBackfill) -> BackfillState:
        return self._ask("add_backfill", [backfill], lambda _: self.inner.add_backfill(backfill))

    def backfills(self) -> list[BackfillState]:
        return self._ask("backfills", [], lambda _: self.inner.backfills())

    def backfill(self, job: str) -> BackfillState | None:
        return self._ask("backfill", [], lambda _: self.inner.backfill(job))

    def succeeded(self, job: str, start: datetime, end: datetime) -> list[datetime]:
        return self._ask("succeeded", [], lambda _: self.inner.succeeded(job, start, end))

    def advance(self, asked: Advance) -> AdvanceAnswer:
        return self._ask("advance", [asked], lambda _: self.inner.advance(asked))

    def cancel_backfill(self, job: str, asked_at: datetime) -> bool:
        return self._ask(
            "cancel_backfill", [job], lambda _: self.inner.cancel_backfill(job, asked_at)
        )

    def fix(self, jobs: Sequence[OneOff]) -> list[datetime]:
        return self._ask("fix", jobs, self.inner.fix)

    def pause(self, job: str, note: str) -> bool:
        return self._ask("pause", [job], lambda _: self.inner.pause(job, note))

    def resume(self, job: str) -> bool:
        return self._ask("resume", [job], lambda _: self.inner.resume(job))

    def pauses(self, job: str) -> list[Pause]:
        return self._ask("pauses", [job], lambda _: self.inner.pauses(job))

    def jobs(self) -> list[JobState]:
        return self._ask("jobs", [], lambda _: self.inner.jobs())

    @property
    def look_every(self) -> float | None:
        return 1.0 if self.polled else None

    def hear(self, told: Callable[[str, datetime], None]) -> None:
        if self.kind == "lease" and not self.polled:
            self.inner.hear(told)

    def hear_no_more(self, told: Callable[[str, datetime], None]) -> None:
        if self.kind == "lease":
            self.inner.hear_no_more(told)

    def _ask(self, operation: str, items: Sequence[Any], ask: Callable[[list[Any]], _T]) -> _T:
        self.calls.append(StoreCall(operation, seconds(self._clock), [*items]))
        fault = self.faults.get(operation) or self.faults.get("*")
        if fault is not None:
            raise fault()
        script = self.scripts.get(operation)
        scripted: _T | None = None if script is None else script([*items])
        if scripted is not None:
            return scripted
        answer = ask([*items])
        if operation in self.deaf:
            raise BackendUnavailable("the answer was lost")
        return answer


class Instance:
    """One scheduler with its own line to the common store, and what it has said."""

    def __init__(
        self, clock: FakeClock, memory: MemoryBackend | ClaimMemory, name: str, places: int
    ) -> None:
        self.clock = clock
        self.store = FaultyStore(memory, clock)
        self.scheduler = Scheduler(
            self.store,
            instance=name,
            clock=clock,
            defaults=OPTIONS if memory.kind == "lease" else JobOptions(jitter=0),
            max_running=places,
        )
        self.recorder = EventRecorder(self.scheduler)

    def every(
        self,
        interval: float,
        handler: Callable[..., object],
        name: str = "sync",
        **options: Unpack[JobOptionArgs],
    ) -> None:
        """Declare a job."""
        self.scheduler.every(name, interval, handler, **options)

    def start(self) -> None:
        self.scheduler.start()

    def running(self) -> bool:
        """Say whether it claims runs."""
        return self.scheduler.running

    def of(self, name: str) -> list[Any]:
        """Return the events of one name."""
        return list(self.recorder.of(name))

    @property
    def events(self) -> list[Event]:
        """All events so far."""
        return self.recorder.events

    @property
    def told(self) -> list[str]:
        """The names of all events so far."""
        return [event.name for event in self.recorder.events]


class Fleet:
    """Instances that share a clock and a store."""

    def __init__(self, seed: int, memory: MemoryBackend | ClaimMemory | None = None) -> None:
        self.clock = FakeClock(at(4.5), seed=seed)
        self.memory = memory or MemoryBackend()
        self.instances: list[Instance] = []

    def instance(self, name: str | None = None, *, places: int = 200) -> Instance:
        """Add an instance, not started."""
        name = name or "abcdefgh"[len(self.instances)]
        instance = Instance(self.clock, self.memory, name, places)
        self.instances.append(instance)
        return instance

    def start(self) -> None:
        """Start all instances and let them come to rest."""
        for instance in self.instances:
            instance.start()
        self.clock.settle()

    def nap(self, seconds: float) -> None:
        """Sleep in simulated time, deaf to every signal; for handlers."""
        nap(self.clock, seconds)

    def until(self, seconds: float) -> None:
        """Let time pass until so many seconds after midnight."""
        self.clock.advance(at(seconds) - self.clock.now())

    def history(self, job: str = "sync") -> list[RunResult]:
        """Return what the store knows, newest first."""
        self.memory.open(self.clock)
        try:
            return self.memory.history(job)
        finally:
            self.memory.close()

    def pauses(self, job: str = "sync") -> list[Pause]:
        """Return what the store knows of a job's pauses, newest first."""
        self.memory.open(self.clock)
        try:
            return cast("MemoryBackend", self.memory).pauses(job)
        finally:
            self.memory.close()

    def close(self) -> None:
        """End every thread."""
        for instance in self.instances:
            instance.store.heal()
            instance.scheduler.stop(timeout=3600)
