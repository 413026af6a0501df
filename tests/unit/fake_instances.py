"""Several instances in one process: schedulers that share a fake clock and a memory store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from leasecron import Event, RunContext, RunSkipped, Scheduler
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.testing import FakeClock

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
START = NOON + timedelta(milliseconds=1)
"""When time begins in these tests: noon itself would be a slot that is due at the start."""

several_orders = pytest.mark.parametrize("seed", [1, 2, 3])
"""Runs a test with several orders in which threads that are ready together take their turns."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a handler. ``at`` is in monotonic seconds since the instances were made."""

    instance: str
    job: str
    slot: datetime
    attempt: int
    trigger: str
    at: float
    wall: datetime


@dataclass(frozen=True, slots=True)
class Seen:
    """One event, and when it reached its listener, in the same seconds."""

    at: float
    event: Event


class Instances:
    """Makes schedulers that share a clock and a store, and notes what happens in all of them."""

    def __init__(self, clock: FakeClock, backend: MemoryBackend | None = None) -> None:
        self.clock = clock
        self.backend = backend or MemoryBackend()
        self.calls: list[Call] = []
        self.seen: list[Seen] = []
        self._schedulers: list[Scheduler] = []
        self._begun = clock.monotonic()

    def new(self, **arguments: Any) -> Scheduler:
        """Return a scheduler that is not started and has no jobs."""
        name = f"instance-{len(self._schedulers) + 1}"
        scheduler = Scheduler(self.backend, instance=name, clock=self.clock, **arguments)
        scheduler.on("*", lambda event: self.seen.append(Seen(self.at(), event)))
        self._schedulers.append(scheduler)
        return scheduler

    def at(self) -> float:
        """Return the monotonic seconds since these instances were made."""
        return self.clock.monotonic() - self._begun

    def handler(self, busy: float = 0.0) -> Callable[[RunContext], None]:
        """Return a handler that notes its call and then takes ``busy`` seconds."""

        def handle(ctx: RunContext) -> None:
            self.calls.append(
                Call(
                    ctx.instance,
                    ctx.job,
                    ctx.slot,
                    ctx.attempt,
                    ctx.trigger,
                    self.at(),
                    self.clock.now(),
                )
            )
            if busy:
                ctx.sleep(busy)

        return handle

    def move_wall_to(self, instant: datetime) -> None:
        """Set the wall clock."""
        self.clock.jump(wall=instant - self.clock.now())

    def slots(self, job: str = "job", *, since: float = 0.0) -> list[datetime]:
        """Return the slots whose handler was called at ``since`` or later, in order of calls."""
        return [call.slot for call in self.calls if call.job == job and call.at >= since]

    def events(self, name: str, *, since: float = 0.0) -> list[Any]:
        """Return the events of one name that came at ``since`` or later."""
        return [seen.event for seen in self.seen if seen.event.name == name and seen.at >= since]

    def skips(self, reason: str, *, since: float = 0.0) -> list[RunSkipped]:
        """Return the skips for one reason that came at ``since`` or later."""
        return [event for event in self.events("skip", since=since) if event.reason == reason]

    def check_no_slot_ran_twice(self) -> None:
        """Fail if a handler was called twice for one run."""
        runs = [(call.job, call.slot) for call in self.calls]
        assert sorted(runs) == sorted(set(runs))

    def stop(self) -> None:
        """Stop all schedulers; fails if one of them does not end."""
        for scheduler in self._schedulers:
            assert scheduler.stop(timeout=3600)


class Once:
    """A schedule with a single slot."""

    def __init__(self, slot: datetime) -> None:
        self.slot = slot

    def next_after(self, t: datetime) -> datetime | None:
        return self.slot if t < self.slot else None

    def latest_at(self, t: datetime) -> datetime | None:
        return self.slot if self.slot <= t else None


def every(seconds: float, *, start: datetime, count: int) -> list[datetime]:
    """Return ``count`` slots from ``start`` on."""
    return [start + timedelta(seconds=seconds * number) for number in range(count)]


def longest_silence(moments: Sequence[float], begin: float, end: float) -> float:
    """Return the longest time between two of ``moments`` that lie from ``begin`` to ``end``."""
    marks = [begin, *sorted(m for m in moments if begin <= m <= end), end]
    return max(after - before for before, after in pairwise(marks))
