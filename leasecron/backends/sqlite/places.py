"""Places in a line: locks on a file that end with the process that has them.

Both kinds belong to the descriptor. The usual record locks belong to the process, so that two
stores of one process would not keep each other out and one would end what the other holds. All
questions are answered at once. A turn is passed on thousands of times a second, and a library's
lock would take much of it and knows no places.
"""

from __future__ import annotations

import struct


class Bytes:
    """A place is a byte, of which the descriptor can lock each on its own: Linux has that."""

    count = 9

    def __init__(self) -> None:
        import fcntl  # noqa: PLC0415 - does not exist on Windows

        self._call = fcntl.fcntl
        self._set = fcntl.F_OFD_SETLK
        self._get = fcntl.F_OFD_GETLK
        self._taken = fcntl.F_WRLCK
        self._free = fcntl.F_UNLCK

    def take(self, file: int, first: int, end: int) -> bool:
        """Take the places before ``end``, all or none; raises OSError where there are no locks."""
        try:
            self._call(file, self._set, _record(self._taken, first, end))
        except (BlockingIOError, PermissionError):  # POSIX leaves the choice
            return False
        return True

    def free_before(self, file: int, place: int) -> int | None:
        """Return the last place before this one that nobody else has, if there is one."""
        for before in range(place - 1, -1, -1):
            asked = _record(self._taken, before, before + 1)
            kind: int = struct.unpack_from("h", self._call(file, self._get, asked))[0]
            if kind == self._free:
                return before
        return None

    def free(self, file: int, first: int, end: int) -> None:
        """Free those of these places that the descriptor has."""
        self._call(file, self._set, _record(self._free, first, end))


class Whole:
    """The one place is the whole file: who waits is let in by chance."""

    count = 1

    def __init__(self) -> None:
        import fcntl  # noqa: PLC0415 - does not exist on Windows

        self._call = fcntl.flock
        self._taken = fcntl.LOCK_EX | fcntl.LOCK_NB
        self._free = fcntl.LOCK_UN

    def take(self, file: int, _first: int, _end: int) -> bool:
        """Take the file; raises OSError where there are no locks."""
        try:
            self._call(file, self._taken)
        except BlockingIOError:
            return False
        return True

    def free_before(self, _file: int, _place: int) -> int | None:
        """Return None: there is no place before the one that is asked for."""
        return None

    def free(self, file: int, first: int, end: int) -> None:
        """Free the file, if its place is among these."""
        if first < self.count and first < end:
            self._call(file, self._free)


def _record(kind: int, first: int, end: int) -> bytes:
    """Return Linux' ``struct flock`` for files of any size, as CPython is built."""
    return struct.pack("hhqqi0q", kind, 0, first, end - first, 0)
