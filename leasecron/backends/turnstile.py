"""Fairness between the writers of one SQLite file.

SQLite waits for its write lock by sleeping and asking again, so a process that writes in a tight
loop starves all others for seconds. Writers therefore stand in line first. A place in the line is a
lock on a byte of a file beside the database, and place 0 is the turn itself: who waits holds his
place and asks for the one before it. So who came first gets in first, and only the head of the line
has to ask often. A process that was stopped in the line is passed by. It is fairness only: who
cannot have his turn in time goes on without it, and SQLite's own lock decides.
"""

from __future__ import annotations

import os
import sys
import time

from leasecron.backends.modes import Owner, open_side_file
from leasecron.backends.places import Bytes, Whole

_HEAD = 0.00015  # seconds between two questions of the head of the line
_FURTHER = 0.0002  # what each place behind it adds
_MOVES = 0.005  # who leaves the place before his free for longer than this is stopped
_STUCK = 0.2  # after so long in one place, whoever has the turn is
_AVOID = 1.0  # and for so long it is not found out about him again


class Turnstile:
    """A bounded line for one turn, in which this object's descriptor of a file has its place.

    Places belong to the descriptor, not to a thread: callers serialise their use of it. The death
    of a process frees them. The file gets the given mode and owner when it is made, which the first
    writer does.
    """

    def __init__(self, path: str, *, mode: int, owner: Owner) -> None:
        self._places = Bytes() if sys.platform == "linux" else Whole()
        self._path = path
        self._mode = mode
        self._owner = owner
        self._file = -1
        self._avoided_until = 0.0
        self._stopped = range(0)  # the places of those who do not move
        self._stopped_until = 0.0

    def enter(self, wait: float, *, make: bool = True) -> bool:
        """Return True once it is this process's turn, or False after ``wait`` seconds.

        It is False, too, where the file cannot be had, or is not there and not to be made, and at
        once for a second after a wait in which nothing moved.
        """
        now = time.monotonic()
        if now < self._avoided_until:
            return False
        if self._file < 0:
            self._file = self._open(make=make)
        if self._file < 0:
            return False
        try:
            return self._stand_in_line(now + wait)
        except OSError:  # a filesystem without such locks
            self.close()
            return False
        except BaseException:  # a signal: all others would wait behind a place that nobody leaves
            self.close()
            raise

    def leave(self) -> None:
        """Let the next one in."""
        try:
            self._places.free(self._file, 0, 1)
        except OSError:
            self.close()

    def close(self) -> None:
        """Close the descriptor, which frees its place too, unless a forked child has a copy."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _stand_in_line(self, deadline: float) -> bool:
        places, file = self._places, self._file
        place, moved = self._join(), time.monotonic()
        gap: tuple[int, float] | None = None
        while place > 0:
            now = time.monotonic()
            ahead = place - 1
            if not places.take(file, ahead, place):
                gap = self._gap_before(place, gap, now)
                ahead = place if gap is None else self._pass_by(place, *gap, now)
            if ahead < place:
                places.free(file, place, places.count)
                place, moved = ahead, now
            elif now >= deadline:
                places.free(file, place, places.count)
                if place < places.count and now - moved >= _STUCK:
                    self._avoided_until = now + _AVOID
                return False
            else:
                time.sleep(_HEAD + _FURTHER * (place - 1))
        return True

    def _gap_before(
        self, place: int, gap: tuple[int, float] | None, now: float
    ) -> tuple[int, float] | None:
        """Return the next free place before those who stand before ``place``, and since when."""
        for free in range(place - 2, -1, -1):
            if self._places.is_free(self._file, free):
                return gap if gap is not None and gap[0] == free else (free, now)
        return None

    def _pass_by(self, place: int, free: int, since: float, now: float) -> int:
        """Take a place that those between do not move into, since they are stopped, if they are.

        The one who stands behind them passes them by first, so all others keep their order.
        """
        between = range(free + 1, place)
        known = now < self._stopped_until and {*between} <= {*self._stopped}
        if not known and now - since < _MOVES * len(between):
            return place
        if not self._places.take(self._file, free, free + 1):
            return place
        if not known:
            self._stopped, self._stopped_until = between, now + _AVOID
        return free

    def _join(self) -> int:
        """Return the place that was had behind all others, or one past the last."""
        places = self._places
        for place in range(places.count):
            # With all places to the end of the line, so that nobody who waits is overtaken.
            if places.take(self._file, place, places.count):
                places.free(self._file, place + 1, places.count)
                return place
        return places.count

    def _open(self, *, make: bool) -> int:
        try:
            if make:
                return open_side_file(self._path, self._mode, self._owner)
            return os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return -1
