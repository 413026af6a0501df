"""A clock that only moves when a test moves it, and on which nothing waits."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from leasecron.clock import SystemWaker, Waker

START = 1_790_000_000.0

FAR_AHEAD = 10**15
"""Milliseconds by which a server lets the slots of most tests be ahead of its clock.

Otherwise it would have such runs only after its clock was set back.
"""


class HandClock:
    """Wall time, monotonic time and boot, each set by hand."""

    def __init__(self) -> None:
        self.random = random.Random(0)
        self.now = START
        self.uptime = 5000.0
        self.boot: str | None = "boot-a/ns-1"
        self.passed = 0.0  # in truth, which is what the clock of a server shows

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.uptime

    def boot_id(self) -> str | None:
        return self.boot

    def waker(self) -> Waker:
        return SystemWaker()

    def start_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        raise AssertionError("a store starts no thread")

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.uptime += seconds
        self.passed += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock, and nothing else."""
        self.now += seconds

    @contextmanager
    def seen_by(
        self, *, boot: str | None = "boot-a/ns-1", wall: float = 0.0, uptime: float = 0.0
    ) -> Iterator[None]:
        """Be the clock of another observer, whose clocks differ by so many seconds."""
        before = (self.boot, self.now, self.uptime)
        self.boot, self.now, self.uptime = boot, self.now + wall, self.uptime + uptime
        try:
            yield
        finally:
            self.boot, self.now, self.uptime = before
