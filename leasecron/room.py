"""How many runs an instance takes on at once, and the slots that wait until it has room."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple

from leasecron.clock import Clock
from leasecron.deadlines import Timer
from leasecron.jobs import DeclaredJob
from leasecron.model import Mode, Trigger
from leasecron.runs import Key
from leasecron.timers import JobTimers


class Request(NamedTuple):
    """A run that this instance would claim, with a ``token`` that it has claimed it with before."""

    job: DeclaredJob
    slot: datetime
    trigger: Trigger
    mode: Mode = "claim"
    token: str | None = None

    @property
    def key(self) -> Key:
        """What the run is known by."""
        return (self.job.name, self.slot)

    def time_left(self, clock: Clock) -> float:
        """Seconds until the slot is too late to be claimed."""
        limit = self.job.options.lateness_limit(self.trigger)
        return self.slot.timestamp() + limit - clock.wall()


CLAIMS = 250
"""Claims on their way at once. What lives is looked at by the garbage collector again and again:
more in a batch cost more there than they save on the disk."""


class Room:
    """Counts the places that claims on their way and running handlers take.

    A request that finds no place waits, first come first served, until a place is free or its slot
    is too late. So one web worker never starts 500 threads while the others idle. ``claiming`` are
    the claims on their way, as their owner keeps them.
    """

    def __init__(
        self,
        places: int,
        claiming: AbstractSet[Key],
        clock: Clock,
        timers: JobTimers,
        enter: Callable[[Request], object],
        too_late: Callable[[Request], None],
    ) -> None:
        self._free = places
        self._claiming = claiming
        self._clock = clock
        self._timers = timers
        self._enter = enter
        self._too_late = too_late
        # Ordered, since finding the first of a plain dict costs as much as were removed before it.
        self._waiting: OrderedDict[Request, float] = OrderedDict()  # and when it is too late
        self._next_late = math.inf
        self._late_timer: Timer | None = None
        self._filling = False

    def ask(self, request: Request) -> None:
        """Let ``request`` enter now or as soon as there is room."""
        if self._may_claim() and self.try_enter():
            self._enter(request)
        elif request not in self._waiting:
            late = self._clock.monotonic() + request.time_left(self._clock)
            self._waiting[request] = late
            if late < self._next_late:
                self._look_at(late)

    def try_enter(self) -> bool:
        """Take a place if there is one."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    def leave(self) -> None:
        """Give a place back."""
        self._free += 1
        self.fill()

    def fill(self) -> None:
        """Let in who has waited longest, as far as there is room."""
        if self._filling:  # who enters may leave at once: the loop below lets in the next one
            return
        self._filling = True
        try:
            while self._waiting and self._may_claim() and self.try_enter():
                request, _late = self._waiting.popitem(last=False)
                self._enter(request)
        finally:
            self._filling = False

    def forget(self, job: DeclaredJob | None = None) -> None:
        """Drop what waits, of ``job`` or of all jobs."""
        for request in [r for r in self._waiting if job is None or r.job is job]:
            del self._waiting[request]

    def _may_claim(self) -> bool:
        return len(self._claiming) < CLAIMS

    def _look_at(self, late: float) -> None:
        if self._late_timer is not None:
            self._timers.cancel(self._late_timer)
        self._next_late = late
        self._late_timer = self._timers.at(late, self._give_up)

    def _give_up(self) -> None:
        """Drop what has become too late; one timer serves all, whose earliest may have left."""
        self._late_timer, self._next_late = None, math.inf
        now = self._clock.monotonic()
        over = [request for request, late in self._waiting.items() if late <= now]
        for request in over:
            del self._waiting[request]
        if self._waiting:
            self._look_at(min(self._waiting.values()))
        for request in over:
            self._too_late(request)
