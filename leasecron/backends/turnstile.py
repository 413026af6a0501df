"""Fairness between the writers of one SQLite file.

SQLite waits for its write lock by sleeping and asking again, so a process that writes in a tight
loop starves all others for seconds. Writers therefore pass a lock on a file beside the database
first. It is fairness only: who cannot have it in time goes on without it, and SQLite's own lock
decides.
"""

from __future__ import annotations

import os
import time

from leasecron.backends.modes import Owner, open_side_file

_POLL = 0.0005


class Turnstile:
    """A bounded exclusive lock on a file, held by this object's descriptor.

    The lock belongs to the descriptor, not to a thread: callers serialise their use of it. The file
    gets the given mode and owner when it is made, which the first writer does.
    """

    def __init__(self, path: str, *, mode: int, owner: Owner) -> None:
        from portalocker import (  # noqa: PLC0415 - slow to import, and only SQLite needs it
            AlreadyLocked,
            LockException,
            LockFlags,
            lock,
            unlock,
        )

        self._lock = lock
        self._unlock = unlock
        self._taken = AlreadyLocked
        self._failed = LockException
        self._flags = LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING
        self._path = path
        self._mode = mode
        self._owner = owner
        self._file = -1

    def enter(self, wait: float, *, make: bool = True) -> bool:
        """Return True once it is this process's turn, or False after ``wait`` seconds.

        It is False, too, where the file cannot be had, or is not there and not to be made.
        """
        if self._file < 0:
            self._file = self._open(make=make)
        if self._file < 0:
            return False
        deadline = time.monotonic() + wait
        while True:
            try:
                self._lock(self._file, self._flags)
            except self._taken:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL)
            except self._failed:
                return False
            else:
                return True

    def leave(self) -> None:
        """Let the next one in."""
        try:
            self._unlock(self._file)
        except self._failed:
            self.close()

    def close(self) -> None:
        """Close the descriptor, which ends the lock too, unless a forked child has a copy."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self, *, make: bool) -> int:
        try:
            if make:
                return open_side_file(self._path, self._mode, self._owner)
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return -1
