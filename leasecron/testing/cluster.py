"""A simulated cluster: several instances in one process, on one fake clock and one store."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from functools import partial
from types import TracebackType
from typing import Any, Self, overload

from leasecron import durations
from leasecron.backends.base import Backend
from leasecron.backends.lockdir import LockDirBackend
from leasecron.backends.urls import backend_for
from leasecron.declarations import H, JobMethods
from leasecron.durations import TEN_YEARS, Duration
from leasecron.errors import ConfigurationError, SchedulerStateError, shown
from leasecron.events import RunFailed, RunSkipped, RunSucceeded, StoreFailed
from leasecron.model import RunResult
from leasecron.options import JobOptions
from leasecron.scheduler import Off, Scheduler
from leasecron.schedules import Schedule
from leasecron.testing.attempts import Attempt, Attempts
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.findings import Evidence, findings
from leasecron.testing.instance import Instance
from leasecron.testing.recorder import EventRecorder
from leasecron.testing.server_time import ServerTime
from leasecron.testing.trouble import Trouble

_DEFAULTS = JobOptions()
_ALL = 1_000_000
_SHOWN = 20
_WIDE = 200  # places, which no test of promises fills: with fewer a slot may have to wait for one


class Cluster(JobMethods):
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
        self.clock = FakeClock(start, seed=seed)
        self._store = store
        self._tz = tz
        self._shared: Backend | None = None
        if store == "memory://" or not isinstance(store, (str, os.PathLike)):
            self._shared = self._backend()
        self._attempts = Attempts(self.clock.now)
        self._is_narrow = max_running < _WIDE
        self._setups: list[Callable[[Scheduler], object]] = []
        self._declared: dict[str, datetime] = {}
        arguments = {"defaults": defaults, "tz": tz, "max_running": max_running}
        self._instances = [
            Instance(f"instance-{i}", self.clock, self._backend, self._attempts, arguments)
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

    # What is the same for all instances

    def setup(self, function: Callable[[Scheduler], object]) -> None:
        """Call ``function`` with the scheduler of each instance, and of those that come later.

        An application that declares its jobs in such a function is tested with the same one.
        """
        if not callable(function):
            raise ConfigurationError(
                f"setup: {shown(function)} is wrong; right is a function that takes a scheduler"
            )
        for instance in self._instances:
            function(instance.scheduler)
        self._setups.append(function)
        for name in self._instances[0].scheduler.jobs:
            self._declared.setdefault(name, self.clock.now())

    @overload
    def on(self, event: str, listener: Callable[[Any], object]) -> Off: ...
    @overload
    def on(self, event: str, listener: None = None) -> Callable[[H], H]: ...

    def on(
        self, event: str, listener: Callable[[Any], object] | None = None
    ) -> Off | Callable[[H], H]:
        """Call ``listener`` for events of every instance, as ``Scheduler.on`` does for one's."""
        if listener is None:
            return partial(self._listen, event)
        listening = True

        def heard(happened: Any) -> None:
            if listening:
                listener(happened)

        def off() -> None:
            nonlocal listening
            listening = False

        self._listen(event, heard)
        return off

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
        self.clock.advance(_seconds("advance", seconds))

    def crash(self, i: int) -> None:
        """Kill an instance, as SIGKILL would. A handler of its own that calls this goes no further.

        Its threads stand still until :meth:`close`, which lets them end by an exception.
        """
        self._note(f"crash({i})")
        self._at(i).crash()

    def freeze(self, i: int, seconds: Duration) -> None:
        """Let an instance stand still for so long, as SIGSTOP and SIGCONT would."""
        self._note(f"freeze({i}, {seconds})")
        self._at(i).freeze(_seconds("freeze", seconds))

    def skew(self, i: int, seconds: float) -> None:
        """Set the wall clock of an instance so many seconds ahead of the others'; 0 sets it right.

        Its monotonic clock goes on as before. The step is noticed within a minute.
        """
        if not isinstance(seconds, (int, float)) or not abs(seconds) <= TEN_YEARS:
            raise ConfigurationError(f"skew is {shown(seconds)}; right are seconds, up to 10 years")
        self._note(f"skew({i}, {seconds})")
        self._at(i).skew(seconds)

    def partition(self, i: int) -> None:
        """Let all calls that an instance makes of the store fail, until :meth:`heal`.

        A call that is under way has reached the store or not, as :meth:`slow_store` has it.
        """
        self._note(f"partition({i})")
        self._at(i).cut(cut=True)

    def heal(self, i: int) -> None:
        """Let an instance reach the store again."""
        self._note(f"heal({i})")
        self._at(i).cut(cut=False)

    def slow_store(self, seconds: Duration) -> None:
        """Let each call of the store take so long, half of it before it is made; 0 ends that."""
        self._note(f"slow_store({seconds})")
        delay = _seconds("slow_store", seconds)
        for instance in self._instances:
            instance.slow(delay)

    def restart(self, i: int) -> None:
        """Put a new process in an instance's place, and start it.

        A live one is told to stop, as on SIGTERM, and killed after 10 s. Raises what
        ``Scheduler.start`` raises.
        """
        self.start()
        self._note(f"restart({i})")
        instance = self._at(i)
        instance.replace()
        for function in self._setups:
            function(instance.scheduler)
        instance.start()

    def trouble(
        self, seconds: Duration, *, every: Duration = 3600, longest: Duration = 900
    ) -> None:
        """Let ``seconds`` pass, and something go wrong ``every`` so long on average.

        What goes wrong, where, and for how long (from a second to ``longest``) is drawn from the
        seed: crashes, freezes, skewed clocks, partitions, a slow store, restarts. It is all mended
        at the end.
        """
        self.start()
        self._trouble.play(
            _seconds("trouble", seconds),
            durations.seconds(every, what="trouble: every", minimum=1.0),
            durations.seconds(longest, what="trouble: longest", minimum=1.0),
        )

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
                event.result for event in self.events.of(RunSucceeded) + self.events.of(RunFailed)
            ],
            faults=self.events.of(StoreFailed),
            jobs={
                name: (scheduler.jobs[name], since)
                for name, since in self._declared.items()
                if name in scheduler.jobs
            },
            now=self.clock.now(),
            was_well=self._was_well,
        )

    def _now(self) -> datetime:
        return self.clock.now()

    def _declare(
        self, name: str, schedule: Schedule, handler: H | None, options: Mapping[str, Any]
    ) -> H | Callable[[H], H]:
        def declare(given: H) -> H:
            self.setup(lambda scheduler: scheduler.add(name, schedule, given, **options))
            return given

        return declare if handler is None else declare(handler)

    def _listen(self, event: str, listener: H) -> H:
        self.setup(lambda scheduler: scheduler.on(event, listener))  # type: ignore[call-overload]
        return listener

    def _at(self, i: int) -> Instance:
        if type(i) is not int or not 0 <= i < len(self._instances):
            last = len(self._instances) - 1
            raise ConfigurationError(
                f"instance {shown(i)} is wrong; right is an int from 0 to {last}"
            )
        return self._instances[i]

    def _note(self, what: str) -> None:
        self._done.append(f"{self.clock.now().isoformat()} {what}")

    def _backend(self) -> Backend:
        if self._shared is not None:
            return self._shared
        backend = backend_for(self._store)
        if isinstance(backend, LockDirBackend):
            backend.make_server_clock = lambda _folder, _mode: ServerTime(self.clock)
        return backend

    def _was_well(self, since: datetime, until: datetime) -> bool:
        if any(instance.was_skewed(since, until) for instance in self._instances):
            return False
        leases = self._backend().kind == "lease"
        quorum = any if leases else all
        return quorum(instance.was_well(since, until) for instance in self._instances)


def _seconds(what: str, value: Duration) -> float:
    return durations.seconds(value, what=what, minimum=1e-6, zero=True)


def _key(result: RunResult) -> tuple[str, datetime, int]:
    return result.job, result.slot, result.attempt
