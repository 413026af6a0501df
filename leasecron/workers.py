"""Threads that call handlers: one for each live run, reused when idle."""

from __future__ import annotations

import itertools
import os
import queue
from collections.abc import Callable

from leasecron.clock import Clock
from leasecron.timers import JobTimers

IDLE = 10.0
"""A worker without a run ends after this many seconds."""

Work = Callable[[], None]


class Worker:
    """One thread; it has a run alone from start to end."""

    def __init__(self, clock: Clock, name: str, retire: Callable[[Worker], None]) -> None:
        self._waker = clock.waker()
        self._retire = retire
        self._pid = os.getpid()
        self.thread = clock.start_thread(self._run, name)

    def give(self, work: Work | None) -> None:
        """Hand over the next run; None ends the thread."""
        self._waker.put(work)

    def _run(self) -> None:
        while True:
            try:
                work = self._waker.get(IDLE)
            except queue.Empty:
                # It may be given a run at this very moment, so it asks to go instead of going.
                self._retire(self)
                work = self._waker.get()
            if work is None:
                return
            work()
            if os.getpid() != self._pid:  # the handler forked, and this is the child's copy
                return


class Workers:
    """The idle workers; used by the timers thread only."""

    def __init__(self, clock: Clock, timers: JobTimers) -> None:
        self._clock = clock
        self._timers = timers
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._numbers = itertools.count(1)

    def take(self) -> Worker:
        """Return an idle worker, or a new one; raises RuntimeError where no thread can be had."""
        if self._idle:
            return self._idle.pop()
        name = f"leasecron-worker-{next(self._numbers)}"
        worker = Worker(self._clock, name, lambda idle: self._timers.post(self._retire, idle))
        self._all.add(worker)
        return worker

    def give_back(self, worker: Worker) -> None:
        """Note that the worker's run has ended."""
        self._idle.append(worker)

    def end(self) -> None:
        """End all workers that have no run."""
        for worker in self._idle:
            worker.give(None)
        self._all.difference_update(self._idle)
        self._idle.clear()

    def in_thread(self, ident: int) -> bool:
        """Say whether a worker of ours runs in the thread; may be asked from any thread."""
        return any(worker.thread.ident == ident for worker in [*self._all])

    def _retire(self, worker: Worker) -> None:
        if worker in self._idle:
            self._idle.remove(worker)
            self._all.discard(worker)
            worker.give(None)
