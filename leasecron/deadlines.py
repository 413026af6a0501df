"""Deadlines of one clock, the earliest first."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any


class Timer:
    """A deadline that can be cancelled."""

    __slots__ = ("args", "cancelled", "function", "waiting")

    def __init__(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args
        self.cancelled = False
        self.waiting = True


class Deadlines:
    """A heap of timers. Cancelled ones stay until they are due, or until they are the majority."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._cancelled = 0

    def add(self, due: float, timer: Timer) -> Timer:
        """Have ``timer`` popped once ``due`` has come."""
        heapq.heappush(self._heap, (due, next(self._order), timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Have ``timer`` never popped."""
        if timer.waiting and not timer.cancelled:
            self._cancelled += 1
        timer.cancelled = True
        timer.args = ()  # what waits in the heap must not keep a run and its exception alive
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].cancelled]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next_due(self) -> float | None:
        """Return the earliest deadline; a cancelled one may be among them."""
        return self._heap[0][0] if self._heap else None

    def pop(self, now: float, limit: int) -> list[Timer]:
        """Take up to ``limit`` timers that are due."""
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now and len(due) < limit:
            timer = heapq.heappop(self._heap)[2]
            timer.waiting = False
            if timer.cancelled:
                self._cancelled -= 1
            else:
                due.append(timer)
        return due
