"""What may be removed from a lock directory: claims of days long past, and what crashes left.

A claim that is removed could be won again. So it goes only when its slot is late by the longest
that claims for it allow now, and for twice as long as a client may believe in what it once saw; and
a mark says up to which day claims are gone, for another version of the application that allows for
more. The newest claim of a job stays for ever. Two processes that prune at once do no harm.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from leasecron.backends.base import PRUNE_BATCH
from leasecron.backends.lockdir import io
from leasecron.backends.lockdir.clock import ServerClock, now_ms
from leasecron.backends.lockdir.history import History
from leasecron.backends.lockdir.locks import one_at_a_time
from leasecron.backends.lockdir.marker import Directory
from leasecron.backends.lockdir.merging import Merging
from leasecron.backends.lockdir.names import (
    CLOCKS,
    HISTORY,
    JOBS,
    LOCKS,
    PRUNE_LOCK,
    as_day,
    as_mark,
    as_slot,
    folder_of_job,
    is_private,
    mark_of,
)
from leasecron.model import Retention, to_ms

CACHES = 120.0
"""Seconds: twice the longest that a network client believes in what it once saw of a folder."""

HOUR = 3600 * 1000
DAY = 24 * HOUR
_NAMES = 20_000


@dataclass(slots=True)
class _Budget:
    """What is left of the files that one call may remove, and of the names that it may look at."""

    files: int = PRUNE_BATCH
    names: int = _NAMES

    @property
    def is_used_up(self) -> bool:
        return self.files <= 0 or self.names <= 0

    def names_in(self, folder: str) -> list[str]:
        names = io.names_in(folder)
        self.names -= len(names) + 1
        return names

    def some_names_in(self, folder: str) -> list[str]:
        """Return as many names as this call may still remove, and one more."""
        names = io.some_names_in(folder, max(0, self.files) + 1)
        self.names -= len(names) + 1
        return names

    def remove(self, path: str) -> bool:
        """Remove a file; False where this call may not any more."""
        if self.files <= 0:
            return False
        # What somebody put there and cannot be removed, such as a folder, stays.
        with contextlib.suppress(IsADirectoryError, PermissionError):
            io.remove(path)
        self.files -= 1
        return True


class Pruning:
    """Prunes one open lock directory, a bounded piece at a time."""

    def __init__(self, directory: Directory, server: ServerClock, history: History) -> None:
        self._directory = directory
        self._server = server
        self._merging = Merging(directory, history)
        self._checked: dict[Retention, int] = {}
        self._swept: dict[str, int] = {}

    def prune(self, retentions: Sequence[Retention]) -> bool:
        """Remove what may go; True when some is left. Does nothing while another one does it."""
        lock = os.path.join(self._directory.path, LOCKS, PRUNE_LOCK)
        with one_at_a_time(lock, self._directory.modes.file) as is_turn:
            if not is_turn:
                return False
            now, budget = now_ms(self._server), _Budget()
            for retention in retentions:
                if budget.is_used_up:
                    return True
                if _is_recent(self._checked.get(retention), now, HOUR):
                    continue
                # A folder that another user keeps to himself is no reason to keep all others.
                with contextlib.suppress(PermissionError, NotADirectoryError):
                    if not self._prune_job(retention, now, budget):
                        return True
                self._checked[retention] = now
            if not self._sweep_rest(now, budget):
                return True
            with contextlib.suppress(NotADirectoryError):
                self._merging.merge(retentions, now)
            return False

    def _prune_job(self, retention: Retention, now: int, budget: _Budget) -> bool:
        """Prune the claims of one job; False when that is not finished."""
        folder = os.path.join(self._directory.path, JOBS, folder_of_job(retention.job))
        io.check_folder(folder)
        days = sorted(day for name in budget.names_in(folder) if (day := as_day(name)) is not None)
        until = now - (retention.runs + CACHES) * 1000
        old = [day for day in days if _end_of(day) <= until]
        for day in old:
            path = os.path.join(folder, day.isoformat())
            if not _is_folder(path):  # a link could lead to what is not ours
                continue
            if budget.files > 0:
                self._mark(folder, day)
            if not _empty(path, budget, keep_newest=day == days[-1]):
                return False
            if day != days[-1]:
                io.remove_folder(path)
        if _is_recent(self._swept.get(folder), now, DAY):
            return True
        young = [os.path.join(folder, day.isoformat()) for day in days if day not in old]
        if not all(_sweep(path, now, budget) for path in (folder, *filter(_is_folder, young))):
            return False
        self._swept[folder] = now
        return True

    def _mark(self, folder: str, day: date) -> None:
        """Say that claims up to a day may be gone, before the first of them is."""
        marks = [name for name in io.names_in(folder) if as_mark(name) is not None]
        mark = mark_of(day)
        if max(marks, default="") >= mark:
            return
        try:
            io.write_new(os.path.join(folder, mark), b"", self._directory.modes.file)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            _turn_into(os.path.join(folder, mark), os.path.join(folder, day.isoformat()), error)
        io.sync_folder(folder)
        for name in marks:
            io.discard(os.path.join(folder, name))

    def _sweep_rest(self, now: int, budget: _Budget) -> bool:
        root = self._directory.path
        if _is_recent(self._swept.get(root), now, HOUR):
            return True
        finished = _sweep(root, now, budget)
        for name in (HISTORY, CLOCKS):
            folder = os.path.join(root, name)
            if finished and _is_folder(folder):
                finished = _sweep(folder, now, budget, every=name == CLOCKS)
        if finished:
            self._swept[root] = now
        return finished


def _empty(path: str, budget: _Budget, *, keep_newest: bool) -> bool:
    """Remove the claims of a day's folder, and what was to become claims."""
    # One claim more than may be removed tells whether some are left. Only to keep the newest must
    # all names be seen, and a day of a busy job has a hundred thousand.
    names = budget.names_in(path) if keep_newest else budget.some_names_in(path)
    claims = [name for name in names if as_slot(name) is not None]
    if keep_newest and claims:
        claims.remove(max(claims, key=int))
    return all(
        budget.remove(os.path.join(path, name)) for name in [*filter(is_private, names), *claims]
    )


def _turn_into(mark: str, path: str, error: OSError) -> None:
    """Make a mark of one of the claims that it is about, where there is no room for another file.

    Else a full disk could not be pruned.
    """
    claims = [name for name in io.some_names_in(path, 2) if as_slot(name) is not None]
    if not claims:
        raise error
    io.move(os.path.join(path, claims[0]), mark)


def _sweep(folder: str, now: int, budget: _Budget, *, every: bool = False) -> bool:
    """Remove the private files, or ``every`` file, that nobody has touched for a day."""
    for name in budget.names_in(folder):
        if not (is_private(name) or (every and not name.startswith("."))):
            continue
        path = os.path.join(folder, name)
        modified = io.modified_ms(path)
        if modified is not None and modified < now - DAY and not budget.remove(path):
            return False
    return True


def _is_folder(path: str) -> bool:
    found = io.status_of(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _is_recent(then: int | None, now: int, length: int) -> bool:
    return then is not None and then <= now < then + length


def _end_of(day: date) -> int:
    return to_ms(datetime.combine(day, time(), UTC)) + DAY
