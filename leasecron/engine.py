"""The running parts of a scheduler in one process: built by ``start()``, ended by ``stop()``.

starting --threads up--> running --stop asked--> stopping --idle--> closing --store closed--> closed
                            ^----- resume --------|
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice

from leasecron.backends.base import Backend, StoreEmptied
from leasecron.backends.plain import has_control
from leasecron.claim_only_runner import ClaimOnlyRunner
from leasecron.clock import Clock, Waker
from leasecron.events import EventBus
from leasecron.inbox import Inbox
from leasecron.jobs import DeclaredJob, declaration_of
from leasecron.lease_runner import LeaseRunner
from leasecron.model import OneOff, Retention
from leasecron.recovery import Recovery
from leasecron.runner import Runner
from leasecron.schedules import Once
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers

PRUNE_JOBS = 500
"""Jobs that one call prunes, so that none is long."""

PRUNE_EVERY = 600.0
"""Seconds between two prunings of all jobs; nothing is kept for less than a day."""

SEEN_EVERY = 60.0
"""Seconds after which an instance has a store with leases note that it is there, at the latest.

Whoever asks whether a store is in use looks back twice as far.
"""

_RUNNERS: dict[str, type[Runner]] = {"lease": LeaseRunner, "claim-only": ClaimOnlyRunner}


class Engine:
    """Wires the threads together and takes them down again."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        bus: EventBus,
        max_running: int,
        fire: Callable[[DeclaredJob, datetime], None],
    ) -> None:
        self.pid = os.getpid()
        self.started = False
        self.stop_asked = False
        self.given_up = False  # a stop was waited for in vain
        self.closed = False
        self._clock = clock
        self._bus = bus
        self._has_leases = backend.kind == "lease"
        self._end_events: Callable[[Callable[[], None]], None] = _not_started
        self._stopping = False
        self._closing = False
        self._waiting: list[Waker] = []
        self._jobs: dict[str, DeclaredJob] = {}
        self._to_prune: list[DeclaredJob] = []
        self._has_control = has_control(backend)
        self.store = StoreQueue(backend, clock, self._store_failed, self._told)
        self.timers = JobTimers(clock, fire, self._schedule_failed, self._clocks_jumped)
        self.runner: Runner = _RUNNERS[backend.kind](
            clock, self.timers, self.store, bus, max_running, self._idle
        )
        self.recovery = Recovery(clock, self.timers, self.store, bus, self.runner)
        self._inbox = Inbox(clock, self.timers, self.store, bus, self.runner, self._jobs.get)
        self.runner.on_ended = self._inbox.run_ended

    # Any thread

    def start(self, jobs: Iterable[DeclaredJob]) -> None:
        """Open the store and start the threads; raises what opening the store raised."""
        self.store.open()
        self._end_events = self._bus.start()
        self.timers.start()
        for job in jobs:
            self.add(job)
        self.timers.post(self._prune)
        if self._has_leases:
            self.timers.post(self._be_seen_later)
        if self._has_control:
            self.timers.post(self._inbox.look)
        self.started = True

    def abandon(self) -> None:
        """Take down what a ``start`` that raised has left behind."""
        if self.timers.started:
            self.stop(self._clock.waker())
        else:
            self.closed = True
            self._end_events(_nothing)
            self.store.close(_nothing)

    def add(self, job: DeclaredJob) -> None:
        """Recover and arm a job."""
        self.timers.post(self._add, job)

    def remove(self, job: DeclaredJob) -> None:
        """Forget a job; a live run of it goes on."""
        self.timers.post(self._remove, job)

    def stop(self, waker: Waker) -> None:
        """Begin to stop; ``waker`` is told ``closed`` and then ``drained``."""
        self.stop_asked = True
        self.timers.post(self._stop, waker)

    def tell_of_stop(self, waker: Waker) -> None:
        """Have ``waker`` told as :meth:`stop` would, once somebody else stops."""
        self.timers.post(self._note_waiting, waker)

    def stop_firing(self) -> None:
        """Let live runs go on and begin no new one."""
        self.timers.post(self.timers.stop_arming)

    def resume(self, jobs: Iterable[DeclaredJob], resumed: Waker) -> None:
        """Run again unless the stop has come to its end: ``resumed``, or else ``closing``."""
        self.timers.post(self._resume, jobs, resumed)

    def called_from_inside(self) -> bool:
        """Say whether the caller is a handler, a listener or a schedule."""
        return self._bus.in_thread() or self.timers.in_thread() or self.runner.executor.in_handler()

    # The timers thread

    def _add(self, job: DeclaredJob) -> None:
        if not (self._stopping or job.removed or self._jobs.get(job.name) is job):
            self._jobs[job.name] = job
            self.recovery.recover(job)
            if self._has_control and self.started:  # else it is looked soon enough
                self._inbox.look_soon()

    def _remove(self, job: DeclaredJob) -> None:
        if self._jobs.get(job.name) is job:
            del self._jobs[job.name]
        self.timers.disarm(job)
        self.runner.forget(job)
        self.recovery.forget(job)

    def _stop(self, waker: Waker) -> None:
        self._note_waiting(waker)
        if self.closed:
            waker.put("closed")
            waker.put("drained")
        elif not self._stopping:
            self._stopping = self.stop_asked = True
            self.timers.stop_arming()
            self._jobs.clear()
            self.runner.stop()
            self._idle()

    def _note_waiting(self, waker: Waker) -> None:
        if waker not in self._waiting:
            self._waiting.append(waker)

    def _resume(self, jobs: Iterable[DeclaredJob], resumed: Waker) -> None:
        if self._closing:
            resumed.put("closing")
            return
        self._stopping = self.stop_asked = self.given_up = False
        _tell(self._waiting, "resumed")  # a stop() that waits for ever must not wait for this
        self._waiting.clear()
        self.timers.resume_arming()
        self.runner.resume()
        for job in [*jobs]:  # as they are now, with those that were added meanwhile
            self.add(job)
        resumed.put("resumed")

    def _idle(self) -> None:
        if self._stopping and not self._closing and self.runner.idle:
            self._closing = True
            self.runner.executor.end()
            self.store.close(lambda: self.timers.post(self._closed))

    def _closed(self) -> None:
        self.closed = True
        waiting = [*self._waiting]
        _tell(waiting, "closed")
        self._end_events(lambda: _tell(waiting, "drained"))
        self.timers.end()

    def _prune(self) -> None:
        """Go on with the pass over all jobs, of which each call of the store serves some."""
        if not self._to_prune:
            self._to_prune = [*self._jobs.values()]
        batch, self._to_prune = self._to_prune[:PRUNE_JOBS], self._to_prune[PRUNE_JOBS:]
        self._prune_jobs([job.options.retention(job.name) for job in batch])

    def _prune_jobs(self, retentions: list[Retention]) -> None:
        self.store.submit_other(
            "prune",
            lambda backend: backend.prune(retentions),
            lambda left, _: self.timers.post(self._pruned, retentions, left),
        )

    def _pruned(self, retentions: list[Retention], left: object) -> None:
        if isinstance(left, BaseException):
            self._bus.error("prune", left)
        if left is True:
            self.timers.after(0.0, self._prune_jobs, retentions)
        else:
            self.timers.after(0.0 if self._to_prune else PRUNE_EVERY, self._prune)

    def _be_seen_later(self) -> None:
        # Not all instances at once, though they were started together.
        self.timers.after(SEEN_EVERY * (0.75 + self._clock.random.random() / 4), self._be_seen)

    def _be_seen(self) -> None:
        """Have one job declared again, of however many: an instance that only waits is in use."""
        if not self._jobs:
            self._be_seen_later()
            return
        # Any one, or all instances would wait for each other at the row of the first.
        place = int(self._clock.random.random() * len(self._jobs))
        job = next(islice(self._jobs.values(), place, None))
        self.store.submit("declare", declaration_of(job), self.timers.post, self._was_seen, job)

    def _was_seen(self, job: DeclaredJob, answer: object, _asked_at: float) -> None:
        if isinstance(answer, BaseException):
            self._bus.error("declare", answer, job.name)
        self._be_seen_later()

    def _declare_again(self) -> None:
        """Let a store that has lost all that it knew know the jobs."""
        for job in self._jobs.values():
            self.store.submit("declare", declaration_of(job), lambda *_: None)
            if isinstance(job.schedule, Once):
                one_off = OneOff(job.name, job.schedule.instant)
                self.store.submit("fix", one_off, lambda *_: None)

    def _clocks_jumped(self) -> None:
        self.runner.clocks_jumped()

    def _schedule_failed(self, job: DeclaredJob, error: Exception) -> None:
        self._bus.error("schedule", error, job.name)

    def _told(self, job: str, slot: datetime) -> None:
        self.timers.post(self._inbox.told, job, slot)

    def _store_failed(self, operation: str, items: object, error: BaseException) -> None:
        if isinstance(error, StoreEmptied):
            self.timers.post(self._declare_again)
        only = items[0] if isinstance(items, list) and len(items) == 1 else None
        job = only if isinstance(only, str) else getattr(only, "job", None)
        self._bus.error(operation, error, job, getattr(only, "slot", None))


def _tell(wakers: list[Waker], word: str) -> None:
    for waker in wakers:
        waker.put(word)


def _not_started(_ended: Callable[[], None]) -> None:
    """There is no events thread to be ended."""


def _nothing() -> None:
    """Nobody waits for the end of a scheduler that did not start."""
