"""What is known of a store that does not answer: since when, when to ask again, what was told."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from leasecron.backends.base import Backend
from leasecron.clock import Clock
from leasecron.errors import BackendUnavailable
from leasecron.logger import logger

FIRST_DELAY = 0.05
LONGEST_DELAY = 1.0
"""Seconds until a store is asked again: the first time, and after many."""

REPORT_AGAIN_AFTER = 5.0
MOST_REASONS = 5
"""What one kind of call may tell of one outage: it may begin by a lost connection, and go on by a
password that is wrong.
"""

TOLD_OF_RETURN_AFTER = 5.0
_REMEMBERED = 100
_NUMBER = re.compile(r"\d+")  # such as of a port or a process, which is another one each time


class Outages:
    """The outage that goes on, if one does, and those before it; used by the store thread only.

    ``on_error`` is told of each reason once for each kind of call of an outage, and of one that
    flickers every five seconds.
    """

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        on_error: Callable[[str, Sequence[Any], BaseException], None],
    ) -> None:
        self.error: BackendUnavailable | None = None  # while one goes on
        self.ask_again_at = 0.0
        self._backend = backend
        self._clock = clock
        self._on_error = on_error
        self._since = 0.0
        self._delay = 0.0
        self._put_off = 0.0  # the delay of items that were not asked for, since others failed
        self._told: dict[str, set[str]] = {}  # the reasons, by the kind of call that failed
        self._told_at: dict[tuple[str, str], float] = {}

    def go_on(self, error: BackendUnavailable) -> None:
        """Note that the store is not available, and ask it later."""
        now = self._clock.monotonic()
        if self.error is None:
            self._since = now
        self.error = error
        self._delay = _longer(self._delay)
        # Not all instances at once: a server that comes back has enough to do.
        self.ask_again_at = now + self._delay * (0.5 + self._clock.random.random() / 2)

    def end(self, operation: str) -> None:
        """Note that the store has answered; whoever has read of a long outage reads of its end."""
        lasted = self._clock.monotonic() - self._since
        if self.error is not None and lasted >= TOLD_OF_RETURN_AFTER:
            logger.warning("%s answers again, after %.0f s", self._backend.description, lasted)
        self._delay, self._put_off, self.error = 0.0, 0.0, None
        self._told.pop(operation, None)

    def put_off(self) -> float:
        """Return until when items wait that would hardly fare better than those that failed."""
        self._put_off = _longer(self._put_off)
        return self._clock.monotonic() + self._put_off

    def report(self, operation: str, items: Sequence[Any], error: Exception) -> None:
        """Tell of a failure, unless that was done."""
        now = self._clock.monotonic()
        reason = _NUMBER.sub("", str(error))
        told = self._told.setdefault(operation, set())
        last = self._told_at.get((operation, reason), -math.inf)
        if reason in told or len(told) == MOST_REASONS or now - last < REPORT_AGAIN_AFTER:
            return
        told.add(reason)
        if len(self._told_at) >= _REMEMBERED:
            self._told_at.clear()
        self._told_at[operation, reason] = now
        self._on_error(operation, items, error)


def _longer(delay: float) -> float:
    return min(LONGEST_DELAY, max(FIRST_DELAY, delay * 2))
