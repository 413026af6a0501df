"""The file server's clock, which all hosts that share a lock directory agree on."""

from __future__ import annotations

import os
from typing import Protocol

from leasecron.backends.lockdir import descriptors, io
from leasecron.backends.lockdir.files import BARRED
from leasecron.backends.lockdir.names import file_of_probe


class ServerClock(Protocol):
    """The clock by which slots of a lock directory are early or late."""

    @property
    def is_held(self) -> bool:
        """Say whether something is open that must not cross a fork."""

    def read_ns(self) -> int:
        """Return the server's time, in Unix nanoseconds; raises OSError."""

    def suspend(self) -> None:
        """Let go of what is open; the next reading takes it up again."""

    def close(self) -> None:
        """Let go of it, and leave nothing behind."""


class ProbeClock:
    """Reads the clock by having the server date a file of one's own.

    The time is never ahead; it lags by up to a tick of the server's kernel, or by a second where
    the server keeps whole seconds only.
    """

    def __init__(self, folder: str, mode: int) -> None:
        self._folder = folder
        self._path = os.path.join(folder, file_of_probe())
        self._mode = mode
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        return self._descriptor >= 0

    def read_ns(self) -> int:
        return self._read_ns()

    @io.again_if_stale
    def _read_ns(self) -> int:
        if self._descriptor < 0:
            self._descriptor = self._open()
        try:
            return descriptors.touch(self._descriptor)
        except OSError:
            self.suspend()
            raise

    def _open(self) -> int:
        io.check_folder(self._folder)
        try:
            return descriptors.open_probe(self._path, self._mode)
        except OSError as error:
            if error.errno not in BARRED:
                raise
        # Something else is in its place. The file need not be the same one, nor have that name.
        self._path = os.path.join(self._folder, file_of_probe())
        return descriptors.open_probe(self._path, self._mode)

    def suspend(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            descriptors.close(descriptor)

    def close(self) -> None:
        self.suspend()
        io.discard(self._path)


def now_ms(clock: ServerClock) -> int:
    """Return the server's time in Unix milliseconds, rounded down."""
    return clock.read_ns() // 1_000_000
