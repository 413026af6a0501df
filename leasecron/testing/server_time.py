"""The clock of a file server in simulated time."""

from __future__ import annotations

from leasecron.clock import Clock


class ServerTime:
    """A server whose clock is right, and which dates files as finely as it can."""

    is_held = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def read_ns(self) -> int:
        """Return the simulated time in Unix nanoseconds."""
        return round(self._clock.wall() * 1_000_000) * 1000 + 1  # never in whole seconds

    def suspend(self) -> None:
        """Hold nothing."""

    def close(self) -> None:
        """Hold nothing."""
