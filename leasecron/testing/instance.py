"""One instance of a simulated cluster: a process, its scheduler, and the line to its store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from leasecron import forks
from leasecron.backends.base import Backend
from leasecron.declarations import H
from leasecron.scheduler import Scheduler
from leasecron.schedules import Schedule
from leasecron.testing.attempts import Attempts
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.line import Line
from leasecron.testing.process_clock import ProcessClock
from leasecron.testing.witness import Witness

GRACE = 10.0
"""Seconds that a restart gives to handlers, before the process is killed."""

SLOW = 0.2
"""A store that takes more seconds for a call is trouble, and no slot is promised in it."""


class ObservedScheduler(Scheduler):
    """A scheduler whose handlers are observed, and which can vanish as if it had been killed."""

    def __init__(
        self, line: Line, process: ProcessClock, attempts: Attempts, name: str, **arguments: Any
    ) -> None:
        super().__init__(line, instance=name, clock=process, **arguments)
        self._process = process
        self._attempts = attempts

    def begin(self) -> None:
        """Start even where the environment says that no scheduler shall: this one is simulated."""
        self._lifecycle.start()

    def vanish(self) -> None:
        """Leave the threads behind, of which nobody will hear again."""
        self._lifecycle.forget_threads()
        forks.unregister(self._lifecycle)

    def _take(self, name: str, schedule: Schedule, options: Mapping[str, Any], handler: H) -> H:
        super()._take(name, schedule, options, handler)
        leases = self._backend.kind == "lease"
        self._attempts.observe(self._jobs[name], self._process, leases=leases)
        return handler


class Instance:
    """A process that can die and be replaced by a new one, and when all was well with it."""

    def __init__(
        self,
        name: str,
        clock: FakeClock,
        new_backend: Callable[[], Backend],
        attempts: Attempts,
        witness: Witness,
        arguments: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.up = False
        self._clock = clock
        self._new_backend = new_backend
        self._attempts = attempts
        self._witness = witness
        self._arguments = arguments
        self._lives = 0
        self._dead: list[ProcessClock] = []
        self._well: list[tuple[datetime, datetime]] = []
        self._well_from: datetime | None = None
        self._frozen_until = clock.now()
        self._skewed: list[tuple[datetime, datetime]] = []
        self._skewed_from = clock.now()
        self.process, self.line, self.scheduler = self._new_life()

    def start(self) -> None:
        """Start the scheduler, unless the process is dead; raises what that raises."""
        if self.process.killed:
            return
        self.scheduler.begin()
        self.up = self.scheduler.running
        self._look()

    def stop(self, timeout: float | None) -> bool:
        """Stop the scheduler in its process; return what ``Scheduler.stop`` returned."""
        self.up = False
        self._look()
        return self.scheduler.stop(timeout)

    def crash(self) -> None:
        """Kill the process."""
        if self.process.killed:
            return
        self.up = False
        self._look()
        self._dead.append(self.process)
        self.scheduler.vanish()
        self.line.break_off()
        self.process.kill()

    def replace(self) -> None:
        """Put a new process in the place of this one, which is told to end and then killed.

        The clock of its host and its way to the store stay as they are.
        """
        self._end_life()
        skew, cut, delay = self.process.skew, self.line.cut, self.line.delay
        self._lives += 1
        self._frozen_until = self._clock.now()
        self.process, self.line, self.scheduler = self._new_life()
        self.process.skew, self.line.cut, self.line.delay = skew, cut, delay

    def freeze(self, seconds: float) -> None:
        """Let the process stand still for so many seconds."""
        self._end_well()
        thaws = self._clock.now() + timedelta(seconds=seconds)
        self._frozen_until = max(self._frozen_until, thaws)
        self._look()
        self.process.freeze(seconds)

    def skew(self, seconds: float) -> None:
        """Set the wall clock of the process so many seconds ahead; 0 sets it right."""
        now = self._clock.now()
        if self.process.skew:
            # One that was ahead may have won slots that are due only later.
            ahead = timedelta(seconds=max(0.0, self.process.skew))
            self._skewed.append((self._skewed_from, now + ahead))
        self.process.skew, self._skewed_from = seconds, now
        self._look()

    def cut(self, *, cut: bool) -> None:
        """Cut the line to the store, or mend it."""
        self.line.cut = cut
        self._look()

    def slow(self, seconds: float) -> None:
        """Let each call of the store take so many seconds."""
        self.line.delay = seconds
        self._look()

    @property
    def answers(self) -> bool:
        """Whether whoever asks its scheduler for something is answered now."""
        frozen = self._frozen_until > self._clock.now()
        return self.up and not (frozen or self.line.cut)

    def was_skewed(self, since: datetime, until: datetime) -> bool:
        """Say whether its wall clock was ever wrong then, or had an effect on that time."""
        times = [*self._skewed]
        if self.process.skew:
            times.append((self._skewed_from, datetime.max.replace(tzinfo=UTC)))
        return any(begin <= until and since <= end for begin, end in times)

    def was_well(self, since: datetime, until: datetime) -> bool:
        """Say whether all was well all the time: up, in time, and with its store."""
        times = [*self._well]
        if self._well_from is not None:
            times.append((self._well_from, self._clock.now()))
        return any(begin <= since and until <= end for begin, end in times)

    def end(self) -> None:
        """Stop what runs, and let the threads of killed processes end."""
        self.cut(cut=False)
        self.slow(0.0)
        self._end_life()
        for process in self._dead:
            process.end()

    def _end_life(self) -> None:
        if not (self.process.killed or self.stop(GRACE)):
            self.crash()
        self.scheduler.vanish()  # whatever a start() that failed has left

    def _new_life(self) -> tuple[ProcessClock, Line, ObservedScheduler]:
        process = self._clock.process()
        line = Line(self._new_backend(), process, self._witness)
        name = f"{self.name}.{self._lives}" if self._lives else self.name
        scheduler = ObservedScheduler(line, process, self._attempts, name, **self._arguments)
        return process, line, scheduler

    def _look(self) -> None:
        """Note whether all is well from now on."""
        well = self.up and not (self.line.cut or self.line.delay > SLOW or self.process.skew)
        if not well:
            self._end_well()
        elif self._well_from is None:
            self._well_from = max(self._clock.now(), self._frozen_until)

    def _end_well(self) -> None:
        if self._well_from is not None and self._well_from < self._clock.now():
            self._well.append((self._well_from, self._clock.now()))
        self._well_from = None
