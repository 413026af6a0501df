"""Fairness between the writers of one SQLite file.

SQLite waits for its write lock by sleeping and asking again, so a process that writes in a tight
loop starves all others for seconds. Writers therefore stand in line first. A place in the line is a
lock on a byte of a file beside the database, and place 0 is the turn itself: who waits holds his
place and asks for the one before it. So who came first gets in first, and only the head of the line
has to ask often; but a process that was stopped in the line is passed by. The line is fairness
only: who cannot have his turn in time goes on without it, and SQLite's own lock decides.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

from leasecron.backends.modes import Owner, open_side_file
from leasecron.backends.sqlite.places import Bytes, Whole

_HEAD = 0.00015  # seconds between two questions of the head of the line
_FURTHER = 0.0002  # what each place behind it adds

_MOVES = 0.03
"""Seconds in which everybody who runs has moved into a free place before his, even beside a handler
that computes, which gives the interpreter back every 5 milliseconds."""

_STAGGER = 0.005  # what each one more who does not move adds, so that the nearest passes by first
_AGAIN = 8 * _HEAD  # enough to see that one who was found not to move still does not
_REMEMBER = 1.0  # for so long

_STUCK = 0.2  # seconds in one place after which whoever has the turn must be stopped
_AVOID = 1.0  # seconds for which nobody who found that out stands in line


@dataclass(frozen=True, slots=True)
class _Gap:
    """A free place, since when it was seen free at each look, and when it was looked at last."""

    place: int
    since: float
    looked: float


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
        self._stopped_until = [0.0] * self._places.count  # until when a place is known to be so

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
        gap: _Gap | None = None
        while place > 0:
            now = time.monotonic()
            ahead = place - 1
            if not places.take(file, ahead, place):
                gap = self._gap_before(place, gap, waited=now - moved)
                ahead = place if gap is None else self._pass_by(place, gap)
            if ahead < place:
                places.free(file, place, places.count)
                self._stopped_until[ahead] = 0.0
                place, moved = ahead, now
            elif now >= deadline:
                places.free(file, place, places.count)
                if place < places.count and gap is None and now - moved >= _STUCK:
                    self._avoided_until = now + _AVOID
                return False
            else:
                time.sleep(_HEAD + _FURTHER * (place - 1))
        return True

    def _gap_before(self, place: int, gap: _Gap | None, *, waited: float) -> _Gap | None:
        """Look for a free place before those who stand before ``place``.

        Not at once after a move: each look costs as much as a question for the place itself, and
        what was seen from the place before says nothing of those who move as well.
        """
        is_known = time.monotonic() < self._stopped_until[place - 1]
        if waited < (_AGAIN if is_known else _MOVES):
            return None
        free = self._places.free_before(self._file, place - 1)
        if free is None:
            return None
        self._stopped_until[free] = 0.0
        now = time.monotonic()
        if gap is None or gap.place != free or now - gap.looked > _MOVES:
            return _Gap(free, now, now)
        return _Gap(free, gap.since, now)

    def _pass_by(self, place: int, gap: _Gap) -> int:
        """Take a place that those between do not move into, since they are stopped, if they are.

        The one who stands behind them passes them by first, so the others keep their order.
        """
        between = range(gap.place + 1, place)
        are_known = all(gap.looked < self._stopped_until[each] for each in between)
        patience = _AGAIN if are_known else _MOVES + _STAGGER * (len(between) - 1)
        if gap.looked - gap.since < patience:
            return place
        if not self._places.take(self._file, gap.place, gap.place + 1):
            return place
        if not are_known:
            for each in between:
                self._stopped_until[each] = gap.looked + _REMEMBER
        return gap.place

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
