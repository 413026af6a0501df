"""A simulated cluster: several instances in one process, on one fake clock and one store."""

from __future__ import annotations

import os
import warnings
from datetime import datetime, tzinfo
from types import TracebackType
from typing import Self

from leasecron.backends.base import Backend
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.urls import backend_for
from leasecron.durations import Duration
from leasecron.errors import ConfigurationError, SchedulerStateError, shown
from leasecron.events import RunFailed, RunSkipped, RunSucceeded, StoreFailed
from leasecron.model import RunResult
from leasecron.options import JobOptions
from leasecron.scheduler import Scheduler
from leasecron.testing.attempts import Attempt, Attempts
from leasecron.testing.declared import Declared
from leasecron.testing.evidence import Evidence
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.findings import findings
from leasecron.testing.hazards import Hazards, simulated
from leasecron.testing.instance import Instance
from leasecron.testing.recorder import EventRecorder
from leasecron.testing.server_time import ServerTime
from leasecron.testing.trouble import Trouble
from leasecron.testing.witness import Witness

_DEFAULTS = JobOptions()
_ALL = 1_000_000
_SHOWN = 20
_WIDE = 200  # places, which no test of promises fills: with fewer a slot may have to wait for one


class Cluster(Declared, Hazards):
    """Several real schedulers on simulated time and one store, and all that can befall them.

    Each instance is a simulated process: its threads are frozen and killed together, its wall clock
    may be off, its way to the store may be cut. All are on one machine. Whatever chance decides,
    the order of the threads included, is drawn from ``seed``, so that a seed replays step by step.
    Nothing sleeps: a simulated week takes seconds.

    ::

        with Cluster(instances=3, seed=7) as cluster:
            cluster.every("sync", "10m", sync)
            cluster.advance("1h")
            cluster.crash(0)
            cluster.advance("1h")
            cluster.check()

    Trouble befalls an instance while its threads wait, in the clock or on the way to the store:
    never in the middle of a line or of a transaction. Handlers shall wait by ``ctx.sleep`` or
    ``ctx.signal.wait``; what they do takes no simulated time. One that raises has failed, and the
    test goes on: see ``attempts`` and ``events.of("failure")``.

    ``clock`` is the :class:`FakeClock` of all (its ``jump`` passes over slots, so :meth:`check`
    misses them), ``events`` an :class:`EventRecorder` of what all instances tell.

    - ``instances``: how many, ``instance-0`` and so on; a process that takes the place of
      another one is called ``instance-0.1``.
    - ``store``: as for :class:`Scheduler`. With a URL or a path each instance has a backend of its
      own; ``memory://`` and a backend object are shared. A lock directory's server has its clock
      simulated too.
    - ``start``: when time begins, an aware datetime; 2026-01-01T00:00:00Z if None.
    - ``defaults``, ``tz``, ``max_running``: as for :class:`Scheduler`, for each instance.

    Raises :class:`ConfigurationError` for a wrong argument.
    """

    def __init__(
        self,
        instances: int = 3,
        store: object = "memory://",
        seed: int = 0,
        *,
        start: datetime | None = None,
        defaults: JobOptions = _DEFAULTS,
        tz: str | tzinfo = "UTC",
        max_running: int = 200,
    ) -> None:
        if type(instances) is not int or instances < 1:
            raise ConfigurationError(f"instances is {shown(instances)}; right is an int from 1")
        if type(seed) is not int:
            raise ConfigurationError(f"seed is {shown(seed)}; right is an int")
        if start is not None and not isinstance(start, datetime):
            raise ConfigurationError(f"start is {shown(start)}; right is an aware datetime")
        super().__init__(FakeClock(start, seed=seed), tz)
        self._store = store
        self._shared: Backend | None = None
        if store == "memory://" or not isinstance(store, (str, os.PathLike)):
            self._shared = self._backend()
        self._attempts = Attempts(self.clock.now)
        self._witness = Witness(self.clock)
        self._is_narrow = max_running < _WIDE
        arguments = {"defaults": defaults, "tz": tz, "max_running": max_running}
        self._instances = [
            Instance(
                f"instance-{i}",
                self.clock,
                self._backend,
                self._attempts,
                self._witness,
                arguments,
            )
            for i in range(instances)
        ]
        self._trouble = Trouble(self, instances)
        self._done: list[str] = []
        self._old: set[tuple[str, datetime, int]] = set()  # what the store held before
        self._started = self._closed = False
        self.events = EventRecorder(self)

    def __repr__(self) -> str:
        return (
            f"Cluster({len(self._instances)}, {self._store!r}, seed={self.clock.seed})"
            f" at {self.clock.now().isoformat()}"
        )

    # The course of things

    def start(self) -> None:
        """Start all instances; harmless when started."""
        if self._closed:
            raise SchedulerStateError("the cluster is closed; make another one")
        if self._started:
            return
        if self._shared is not None:
            self._shared.open(self.clock)  # first, so that its time is nobody's own
        self._started = True
        self._old = {_key(result) for result in self.history(limit=_ALL)}
        for instance in self._instances:
            instance.start()
        self.clock.settle()

    def advance(self, seconds: Duration) -> None:
        """Let simulated time pass, from deadline to deadline; starts what is not started."""
        self.start()
        self.clock.advance(simulated("advance", seconds))

    def close(self) -> None:
        """Stop everything; harmless when closed.

        The handlers of killed processes are left by an exception now. One that still waits outside
        of simulated time is warned of.
        """
        if self._closed:
            return
        self._closed = True
        for instance in self._instances:
            instance.end()
        self.clock.settle()
        if self._shared is not None and self._started:
            self._shared.close()
        for attempt in self._attempts.live:  # all others have ended by now
            warnings.warn(f"a handler waits in real time: {attempt}", RuntimeWarning, stacklevel=2)

    # What can be seen

    @property
    def schedulers(self) -> list[Scheduler]:
        """The scheduler of each instance, as of now."""
        return [instance.scheduler for instance in self._instances]

    @property
    def attempts(self) -> list[Attempt]:
        """All calls of handlers so far, in order."""
        return [*self._attempts.all]

    def history(self, job: str | None = None, *, limit: int = 100) -> list[RunResult]:
        """Return what the store knows of past runs, newest first."""
        return Scheduler(self._backend(), clock=self.clock).history(job, limit=limit)

    def check(self) -> None:
        """Raise AssertionError where a promise was broken so far; its text has the seed.

        - No two instances held one run at once, nor two runs of a job with ``overlap="skip"``
          (without leases: within an instance).
        - No attempt was made twice, none after the run's end, and each run has ended once at most.
          The tries of an attempt follow each other, and are no more than ``retries`` allows.
        - No run was begun while its job was paused, and no slot of a pause after it.
        - A slot that waits was begun after the end of the older runs that it had to wait for, and
          after no newer one waited; with ``overlap="cancel"`` the older run was told to make way.
        - A run that was asked for, and the newest slot that waits, was begun once an instance was
          well for a minute and the length of a takeover while nothing stood in the way.
        - Of a backfill one slot was run at a time, none that had succeeded, none before a slot of
          the schedule that waited, and the next one once an instance was well for as long.
        - A job that runs once did so at the instant that was fixed first.
        - The history says the truth of each success and failure, and lacks none that was told of.
        - Each slot that was due while an instance was well and nobody's clock was wrong, from a
          minute before it until a minute after its jitter, has an attempt, a record, or a skip that
          explains it (without leases: while all were well). Where ``max_running`` may make slots
          wait, until a minute after ``max_late``. Jobs that were removed, or declared with one
          instance alone, are left out.
        """
        found = findings(self._evidence())
        if found:
            raise AssertionError(
                "\n".join(
                    [
                        f"{self!r}: {len(found)} broken promises, the first of them:",
                        *found[:_SHOWN],
                        "what was done to it last:",
                        *self._done[-_SHOWN:],
                    ]
                )
            )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _evidence(self) -> Evidence:
        scheduler = self._instances[0].scheduler
        return Evidence(
            attempts=self.attempts,
            clashes=self._attempts.clashes,
            results=[r for r in self.history(limit=_ALL) if _key(r) not in self._old],
            is_narrow=self._is_narrow,
            skips=self.events.of(RunSkipped),
            told=[
                *(event.result for event in self.events.of(RunSucceeded)),
                *(event.result for event in self.events.of(RunFailed) if not event.will_retry),
            ],
            faults=self.events.of(StoreFailed),
            jobs={
                name: (scheduler.jobs[name], since)
                for name, since in self._declared.items()
                if name in scheduler.jobs
            },
            now=self.clock.now(),
            was_skewed=self._was_skewed,
            was_well=self._was_well,
            witness=self._witness,
        )

    def _backend(self) -> Backend:
        if self._shared is not None:
            return self._shared
        backend = backend_for(self._store)
        if isinstance(backend, LockDirBackend):
            backend.make_server_clock = lambda _folder, _mode: ServerTime(self.clock)
        return backend

    def _was_skewed(self, since: datetime, until: datetime) -> bool:
        return any(instance.was_skewed(since, until) for instance in self._instances)

    def _was_well(self, since: datetime, until: datetime) -> bool:
        if self._was_skewed(since, until):
            return False
        leases = self._backend().kind == "lease"
        quorum = any if leases else all
        return quorum(instance.was_well(since, until) for instance in self._instances)


def _key(result: RunResult) -> tuple[str, datetime, int]:
    return result.job, result.slot, result.attempt
