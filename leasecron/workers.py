"""Threads that call handlers: one for each live run, reused when idle.

All idle threads wait at one waker. It wakes one of them at a time, and that one wakes the next
before it begins. So a thousand short handlers that are due at once run in a few threads, without a
switch for each, while one that waits lets the next begin at once.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable

from leasecron.clock import Clock, Waker
from leasecron.runs import LiveRun
from leasecron.timers import JobTimers

IDLE = 10.0
"""Threads that were not needed for this many seconds end."""


class Worker:
    """One thread; it has a run alone from start to end."""

    def __init__(
        self, given: Waker, call: Callable[[LiveRun], None], ended: Callable[[Worker], None]
    ) -> None:
        self.live: LiveRun | None = None
        self.thread: threading.Thread | None = None
        self._given = given
        self._call = call
        self._ended = ended
        self._pid = os.getpid()

    def run(self) -> None:
        """Call the handlers of the runs that are given, until that is None."""
        while True:
            # In one step: whoever finds this thread dead must find what it has taken.
            self.live = self._given.get()
            if self.live is None:
                self._ended(self)
                return
            self._call(self.live)
            self.live = None
            if os.getpid() != self._pid:  # the handler forked, and this is the child's copy
                return


class Workers:
    """Keeps a thread for each run that is reserved for; used by the timers thread only.

    ``call`` calls the handler of a run, in its thread. ``lost`` is told, in the timers thread, of a
    run whose thread has died on it.
    """

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        call: Callable[[LiveRun], None],
        lost: Callable[[LiveRun], None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._call = call
        self._lost = lost
        self._given = clock.waker()
        self._workers: set[Worker] = set()
        self._count = 0  # threads that have not been told to end
        self._reserved = 0
        self._most = 0  # reserved at once since the last look
        self._looking = False
        self._numbers = itertools.count(1)

    def reserve(self) -> None:
        """Have a thread ready for one more run; raises RuntimeError where none can be had."""
        if self._reserved >= self._count:
            self._start()
        self._reserved += 1
        self._most = max(self._most, self._reserved)

    def give(self, run: LiveRun) -> None:
        """Have the handler of ``run`` called in a thread that was reserved."""
        self._given.put(run)

    def release(self) -> None:
        """Note that a run needs its thread no longer."""
        self._reserved -= 1

    def end(self) -> None:
        """End all threads that are not reserved."""
        self._end(self._count - self._reserved)

    def in_thread(self) -> bool:
        """Say whether the caller is in a handler's thread; may be asked from any thread."""
        me = threading.current_thread()
        return any(worker.thread is me for worker in [*self._workers])

    def _start(self) -> None:
        worker = Worker(self._given, self._call, self._workers.discard)
        name = f"leasecron-worker-{next(self._numbers)}"
        worker.thread = self._clock.start_thread(worker.run, name)
        self._workers.add(worker)
        self._count += 1
        if not self._looking:
            self._looking = True
            self._timers.after(IDLE, self._look)

    def _end(self, number: int) -> None:
        self._count -= number
        for _ in range(number):
            self._given.put(None)

    def _look(self) -> None:
        """End the threads that were not needed since the last look, and miss those that died."""
        self._looking = False
        dead = [w for w in [*self._workers] if w.thread is not None and not w.thread.is_alive()]
        for worker in dead:
            self._workers.discard(worker)
            self._count -= 1
        self._end(max(0, self._count - self._most))
        self._most = self._reserved
        if self._count:
            self._looking = True
            self._timers.after(IDLE, self._look)
        for worker in dead:
            if worker.live is not None:
                self._timers.post(self._lost, worker.live)  # each guarded
        while self._count < self._reserved:  # one that died idle was counted on meanwhile
            self._start()
