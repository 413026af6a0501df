"""The clock of a file server, held in the hand of a test."""

from __future__ import annotations

from pathlib import Path

from contract.hand_clock import HandClock
from leasecron.backends.lockdir.backend import LockDirBackend


class HandServerClock:
    """A server whose clock shows what a hand clock shows, plus so many seconds."""

    is_held = False

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.ahead = 0.0

    def read_ns(self) -> int:
        return round((self.clock.now + self.ahead) * 1e9) + 1  # in finer steps than seconds

    def suspend(self) -> None:
        """Hold nothing."""

    def close(self) -> None:
        """Hold nothing."""


def lock_directory(path: Path, clock: HandClock, *, create: bool = True) -> LockDirBackend:
    """Return a lock directory whose server's clock is the given one."""
    backend = LockDirBackend(path, create=create)
    backend.make_server_clock = lambda _folder, _mode: HandServerClock(clock)
    return backend
