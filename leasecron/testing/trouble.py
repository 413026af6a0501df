"""Chance that plays with a simulated cluster: what goes wrong, with whom, and for how long."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from typing import Protocol

from leasecron.errors import BackendUnavailable
from leasecron.testing.fake_clock import FakeClock

SHORTEST = 1.0
SLOWEST = 30.0
TRY_AGAIN = 30.0
"""Seconds after which a process that could not start is started again."""


class Sufferer(Protocol):
    """What can be done to a cluster; see :class:`~leasecron.testing.Cluster`."""

    clock: FakeClock

    def advance(self, seconds: float) -> None: ...
    def crash(self, i: int) -> None: ...
    def freeze(self, i: int, seconds: float) -> None: ...
    def skew(self, i: int, seconds: float) -> None: ...
    def partition(self, i: int) -> None: ...
    def heal(self, i: int) -> None: ...
    def slow_store(self, seconds: float) -> None: ...
    def restart(self, i: int) -> None: ...


class Trouble:
    """Does harm by chance, drawn from the clock's seed, and undoes it later."""

    def __init__(self, cluster: Sufferer, instances: int) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._instances = instances
        self._random = random.Random(f"trouble {cluster.clock.seed}")
        self._mending: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def play(self, seconds: float, every: float, longest: float) -> None:
        """Let time pass with trouble in it, and mend what is left at the end."""
        end = self._clock.monotonic() + seconds
        strike = self._clock.monotonic() + self._random.expovariate(1 / every)
        while self._clock.monotonic() < end:
            mend = self._mending[0][0] if self._mending else math.inf
            # A clock of whole microseconds can be less than one of them short of a deadline.
            self._cluster.advance(max(1e-6, min(strike, mend, end) - self._clock.monotonic()))
            self._mend_until(self._clock.monotonic())
            if strike <= self._clock.monotonic() < end:
                self._strike(longest)
                strike = self._clock.monotonic() + self._random.expovariate(1 / every)
        self._mend_until(math.inf)

    def _strike(self, longest: float) -> None:
        cluster = self._cluster
        i = self._random.randrange(self._instances)
        # As many short ones as long ones: both sides of a lease's length are met.
        lasting = math.exp(self._random.uniform(math.log(SHORTEST), math.log(longest)))
        match self._random.choice(["crash", "freeze", "skew", "partition", "slow", "restart"]):
            case "crash":
                cluster.crash(i)
                self._later(lasting, lambda: self._restart(i))
            case "freeze":
                cluster.freeze(i, lasting)
            case "skew":
                cluster.skew(i, self._random.choice([-1, 1]) * lasting)
                self._later(lasting, lambda: cluster.skew(i, 0.0))
            case "partition":
                cluster.partition(i)
                self._later(lasting, lambda: cluster.heal(i))
            case "slow":
                cluster.slow_store(self._random.uniform(0.0, min(SLOWEST, longest)))
                self._later(lasting, lambda: cluster.slow_store(0.0))
            case _:
                self._restart(i)

    def _restart(self, i: int) -> None:
        try:
            self._cluster.restart(i)
        except BackendUnavailable:  # whoever looks after processes tries again
            self._later(TRY_AGAIN, lambda: self._restart(i))

    def _later(self, seconds: float, mend: Callable[[], None]) -> None:
        at = self._clock.monotonic() + seconds
        heapq.heappush(self._mending, (at, next(self._order), mend))

    def _mend_until(self, now: float) -> None:
        while self._mending and self._mending[0][0] <= now:
            heapq.heappop(self._mending)[2]()
