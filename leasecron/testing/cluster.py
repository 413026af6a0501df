"""A simulated cluster: several instances in one process, on one fake clock and one store."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from types import TracebackType
from typing import Any, Self

from leasecron.backends.base import Backend
from leasecron.backends.lockdir import LockDirBackend
from leasecron.backends.urls import backend_for
from leasecron.errors import ConfigurationError, shown
from leasecron.events import RunSkipped
from leasecron.model import RunResult
from leasecron.options import JobOptions
from leasecron.scheduler import Off, Scheduler
from leasecron.testing.attempts import Attempt, Attempts
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.findings import Evidence, findings
from leasecron.testing.instance import Instance
from leasecron.testing.recorder import EventRecorder
from leasecron.testing.server_time import ServerTime
from leasecron.testing.shared_jobs import SharedJobs
from leasecron.testing.trouble import Trouble

_DEFAULTS = JobOptions()
_ALL = 1_000_000


class Cluster(SharedJobs):
    """Several real schedulers on simulated time and one store, and all that can befall them.

    Each instance is a simulated process: its threads are frozen and killed together, its wall clock
    may be off, its way to the store may be cut. All are on one machine. Whatever chance decides,
    the order of the threads included, is drawn from ``seed``, so that a seed replays step by step.
    Nothing sleeps: a simulated week takes seconds.

    Trouble befalls an instance while its threads wait, in the clock or on the way to the store:
    never in the middle of a line or of a transaction. Handlers shall wait by ``ctx.sleep`` or
    ``ctx.signal.wait``; what they do takes no simulated time.

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
        if isinstance(instances, bool) or not isinstance(instances, int) or instances < 1:
            raise ConfigurationError(f"instances is {shown(instances)}; right is an int from 1")
        self.clock = FakeClock(start, seed=seed)
        self._store = store
        self._shared: Backend | None = None
        if store == "memory://" or not isinstance(store, (str, os.PathLike)):
            self._shared = self._backend()
        self._attempts = Attempts(self.clock.now)
        self._setups: list[Callable[[Scheduler], object]] = []
        self._declared: dict[str, datetime] = {}
        arguments = {"defaults": defaults, "tz": tz, "max_running": max_running}
        self._instances = [
            Instance(f"instance-{i}", self.clock, self._backend, self._attempts, arguments)
            for i in range(instances)
        ]
        self._trouble = Trouble(self, instances)
        self._started = False
        self.events = EventRecorder(self)

    def __repr__(self) -> str:
        return (
            f"Cluster({len(self._instances)}, {self._store!r}, seed={self.clock.seed})"
            f" at {self.clock.now().isoformat()}"
        )

    # What is the same for all instances

    def setup(self, function: Callable[[Scheduler], object]) -> None:
        """Call ``function`` with the scheduler of each instance, and of those that come later."""
        self._setups.append(function)
        for instance in self._instances:
            function(instance.scheduler)
        for name in self._instances[0].scheduler.jobs:
            self._declared.setdefault(name, self.clock.now())

    def on(self, event: str, listener: Callable[[Any], object]) -> Off:
        """Call ``listener`` for events of every instance; the answer ends that."""
        listening = True

        def heard(happened: Any) -> None:
            if listening:
                listener(happened)

        def off() -> None:
            nonlocal listening
            listening = False

        self.setup(lambda scheduler: scheduler.on(event, heard))  # type: ignore[call-overload]
        return off

    # The course of things

    def start(self) -> None:
        """Start all instances."""
        if self._shared is not None and not self._started:
            self._shared.open(self.clock)  # first, so that its time is nobody's own
        self._started = True
        for instance in self._instances:
            instance.start()
        self.clock.settle()

    def advance(self, seconds: float | timedelta) -> None:
        """Let simulated time pass, from deadline to deadline."""
        self.clock.advance(seconds)

    def crash(self, i: int) -> None:
        """Kill an instance, as SIGKILL would. A handler of its own that calls this goes no further.

        Its threads stand still until :meth:`close`, which lets them end by an exception.
        """
        self._instances[i].crash()

    def freeze(self, i: int, seconds: float) -> None:
        """Let an instance stand still for so many seconds, as SIGSTOP and SIGCONT would."""
        self._instances[i].freeze(seconds)

    def skew(self, i: int, seconds: float) -> None:
        """Set the wall clock of an instance so many seconds ahead of the others'; 0 sets it right.

        Its monotonic clock goes on as before.
        """
        self._instances[i].skew(seconds)

    def partition(self, i: int) -> None:
        """Let all calls that an instance makes of the store fail, until :meth:`heal`.

        A call that is under way has reached the store or not, as :meth:`slow_store` has it.
        """
        self._instances[i].cut(cut=True)

    def heal(self, i: int) -> None:
        """Let an instance reach the store again."""
        self._instances[i].cut(cut=False)

    def slow_store(self, seconds: float) -> None:
        """Let each call of the store take so many seconds, half of them before it is made."""
        for instance in self._instances:
            instance.slow(seconds)

    def restart(self, i: int) -> None:
        """Put a new process in an instance's place, and start it.

        A live one is told to stop, as on SIGTERM, and killed after 10 s. Raises what
        ``Scheduler.start`` raises.
        """
        self._instances[i].replace()
        for function in self._setups:
            function(self._instances[i].scheduler)
        self._instances[i].start()

    def trouble(self, seconds: float, *, every: float = 3600, longest: float = 900) -> None:
        """Let so many seconds pass, and something go wrong about every ``every`` seconds.

        What goes wrong, where, and for how long (1 to ``longest`` seconds) is drawn from the seed:
        crashes, freezes, skewed clocks, partitions, a slow store, restarts. It is all mended at the
        end.
        """
        self._trouble.play(seconds, every, longest)

    def close(self) -> None:
        """Stop everything. The handlers of killed processes are left by an exception now."""
        for instance in self._instances:
            instance.end()
        self.clock.settle()
        if self._shared is not None and self._started:
            self._shared.close()
        self._started = False

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
        - The history says of each attempt what its handler did.
        - Each slot that was due while an instance was well, a minute before and after, has an
          attempt, a record, or a skip that explains it (without leases: while all were well).
        """
        scheduler = self._instances[0].scheduler
        evidence = Evidence(
            attempts=self.attempts,
            clashes=self._attempts.clashes,
            results=self.history(limit=_ALL),
            skips=self.events.of(RunSkipped),
            jobs={name: (scheduler.jobs[name], self._declared[name]) for name in scheduler.jobs},
            now=self.clock.now(),
            was_well=self._was_well,
        )
        found = findings(evidence)
        if found:
            raise AssertionError("\n".join([f"{self!r}: {len(found)} broken promises", *found]))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _backend(self) -> Backend:
        if self._shared is not None:
            return self._shared
        backend = backend_for(self._store)
        if isinstance(backend, LockDirBackend):
            backend.make_server_clock = lambda _folder, _mode: ServerTime(self.clock)
        return backend

    def _was_well(self, since: datetime, until: datetime) -> bool:
        leases = self._backend().kind == "lease"
        quorum = any if leases else all
        return quorum(instance.was_well(since, until) for instance in self._instances)
