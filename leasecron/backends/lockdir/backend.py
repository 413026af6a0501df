"""The store of many hosts that share nothing but a directory, be it on NFS.

It knows who won a slot and what became of the runs, and nothing of leases: a run whose instance
died is not run again. A slot has one winner whatever the clocks, caches and lost answers of a
network filesystem do; what cannot be proven is an error, and never a run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Literal

from leasecron.backends.checks import Check
from leasecron.backends.lockdir.checks import quick_checks
from leasecron.backends.lockdir.claims import Claims
from leasecron.backends.lockdir.clock import ProbeClock, ServerClock
from leasecron.backends.lockdir.errors import lasting, passing, translated
from leasecron.backends.lockdir.history import History
from leasecron.backends.lockdir.marker import Directory, find_directory
from leasecron.backends.lockdir.names import CLOCKS, absolute_folder, url_of
from leasecron.backends.lockdir.pruning import Pruning
from leasecron.backends.modes import check_mode
from leasecron.clock import Clock, SystemClock
from leasecron.errors import BackendError, SchedulerStateError
from leasecron.model import (
    Claim,
    ClaimAnswer,
    Declaration,
    Retention,
    RunResult,
    from_ms,
)


class _Opened:
    """What holds from the first ``open`` to the last ``close``."""

    def __init__(self, directory: Directory, server: ServerClock, clock: Clock) -> None:
        self.times = 1
        self.directory = directory
        self.server = server
        self.clock = clock
        self.claims = Claims(directory, server)
        self.history = History(directory, server, _kernel(clock))
        self.pruning = Pruning(directory, server, self.history)

    def checks(self) -> list[Check]:
        return quick_checks(self.directory, self.server, self.clock, self.history)


class LockDirBackend:
    """A claim-only store in a directory that hosts may share.

    ``path`` is made absolute here. The directory must be a store already: ``leasecron init`` makes
    it one, and so does opening it with ``create=True``, which makes the directory too, but never
    the one that it is in. ``mode`` is what files grant in a store that is made, whatever the umask,
    and who may read a file may enter its folder: 0o660 shares the store with a group. Without it
    they are private; in a directory that was there, they are for those who may write in it. A store
    that is there goes on as it was made. What root makes belongs to whom the folder belongs to that
    it is in. A wrong path or mode raises ConfigurationError.
    """

    kind: Literal["claim-only"] = "claim-only"

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool = False, mode: int | None = None
    ) -> None:
        self.path = absolute_folder(path)
        if mode is not None:
            check_mode(mode, "LockDirBackend")
        self._create = create
        self._mode = mode
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._opened: _Opened | None = None
        self._warnings: tuple[str, ...] = ()
        self.make_server_clock: Callable[[str, int], ServerClock] = ProbeClock

    @property
    def description(self) -> str:
        return url_of(self.path)

    @property
    def warnings(self) -> Sequence[str]:
        return self._warnings

    @property
    def torn_lines(self) -> int:
        """How many lines of the history were no records when it was last read."""
        opened = self._opened
        return 0 if opened is None else opened.history.torn

    def checks(self) -> list[Check]:
        """Return what can be told quickly; what fails is a check too, and not raised."""
        try:
            with self._call() as opened:
                return opened.checks()
        except BackendError as error:
            return [Check("directory", "bad", "cannot be used", str(error))]

    def open(self, clock: Clock | None = None) -> None:
        self._check_process()
        with self._lock, translated(self.path), lasting(self.path):
            if self._opened is not None:
                self._opened.times += 1
                return
            self._opened = self._open(clock or SystemClock())

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._opened is None:
                return
            self._opened.times -= 1
            if self._opened.times == 0:
                self._opened.server.close()
                self._opened = None

    def suspend(self) -> None:
        self._check_process()
        with self._lock:
            if self._opened is not None:
                self._opened.server.suspend()

    def forget(self) -> None:
        if self._opened is None or not self._opened.server.is_held:
            self._lock = threading.Lock()
            self._pid = os.getpid()
            self._opened = None

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        with self._call() as opened:
            return opened.claims.decide(claims)

    def declare(self, jobs: Sequence[Declaration]) -> list[datetime]:
        with self._call() as opened:
            return [from_ms(seen) for seen in opened.claims.declare(jobs)]

    def save_results(self, results: Sequence[RunResult]) -> None:
        with self._call() as opened, passing(opened.directory):
            opened.history.append(results)
            # Where another directory has taken its place meanwhile, the records are in that one.
            opened.directory.check()

    def history(
        self, job: str | None = None, *, limit: int = 100, before: RunResult | None = None
    ) -> list[RunResult]:
        with self._call() as opened, lasting(self.path):
            return opened.history.newest(job, limit, before)

    def prune(self, retentions: Sequence[Retention]) -> bool:
        with self._call() as opened, lasting(self.path):
            return opened.pruning.prune(retentions)

    def _open(self, clock: Clock) -> _Opened:
        now = round(clock.wall() * 1000)
        directory = find_directory(self.path, create=self._create, mode=self._mode, now=now)
        server = self.make_server_clock(os.path.join(self.path, CLOCKS), directory.modes.file)
        try:
            opened = _Opened(directory, server, clock)
            bad = [check.reason for check in opened.checks() if check.verdict != "good"]
        except BaseException:
            server.close()
            raise
        self._warnings = tuple(bad)
        return opened

    @contextmanager
    def _call(self) -> Iterator[_Opened]:
        """Have the store for one call, in the directory that was opened and no other."""
        self._check_process()
        with self._lock, translated(self.path):
            if self._opened is None:
                raise SchedulerStateError(f"the store {self.path} is not open")
            self._opened.directory.check()
            yield self._opened

    def _check_process(self) -> None:
        if os.getpid() == self._pid:
            return
        self.forget()
        if os.getpid() != self._pid:
            raise SchedulerStateError(
                f"the store {self.path} was opened before this process was forked, and what it has "
                "open must not cross a fork: open it after the fork, with a scheduler or backend "
                "that is made there"
            )


def _kernel(clock: Clock) -> str:
    """Name the kernel that this process shares with those whose appends do not disturb its own."""
    boot = clock.boot_id()
    return os.uname().nodename if boot is None else boot.partition("/")[0]
