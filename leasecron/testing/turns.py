"""Turns: one thread runs at a time, and time flows only while all of them wait.

A seat belongs to one thread. It waits, or has the turn, or is away: its thread blocks outside the
clock, where nobody can tell when it will return. Whoever gives the turn back picks the next one:
an away thread that moves again, else a service thread that is ready, else a driver that is ready.
When there is none and a driver waits, time goes to the earliest deadline.

Readiness is computed when a turn is given and never announced. So a put is one append without a
lock, good in any thread and in a signal handler. What happens while nobody has the turn is seen by
the waiting drivers, which look around every few milliseconds of real time.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Sized

from leasecron.testing.seats import NEVER, Process, ProcessEnded, Seat

LONGEST_WAIT = 200 * 366 * 86_400 * 1_000_000
"""No single wait of a driver lets more than this many simulated microseconds pass."""

LOOK = 0.005  # real seconds between two looks of a waiting driver
GRACE = 20  # looks at a deadlock before it is one: a thread we do not know may be about to put
RETURN = 0.05  # real seconds for a woken thread to move its stack, where that is the only sign


class _Mine(threading.local):
    """The seat of the calling thread. Unlike a thread's number it is never inherited."""

    seat: Seat | None = None


class Turns:
    """The seats, the turn, and both clocks in whole microseconds."""

    def __init__(self, *, wall: int, monotonic: int, seed: int) -> None:
        self.wall = wall
        self.monotonic = monotonic
        self._order = random.Random(f"turns {seed}")
        self._lock = threading.Lock()
        self._mine = _Mine()
        self._seats: list[Seat] = []
        self._away: list[Seat] = []
        self._own = Process()
        self._processor = _processor()
        self._turn: Seat | None = self._new_driver()

    def has_turn(self) -> bool:
        """Whether the calling thread is the one that runs."""
        return self._turn is not None and self._turn is self._mine.seat

    def is_in(self, process: Process) -> bool:
        """Whether the calling thread belongs to ``process``."""
        seat = self._mine.seat
        return seat is not None and seat.process is process

    def shift(self, *, wall: int, monotonic: int) -> None:
        """Move the clocks; nobody gets a turn by this alone."""
        with self._lock:
            self.wall += wall
            self.monotonic += monotonic

    def freeze(self, process: Process, until: int) -> None:
        """Give no thread of ``process`` a turn before so many microseconds."""
        with self._lock:
            process.runs_from = max(process.runs_from, until)

    def kill(self, process: Process) -> None:
        """Give no thread of ``process`` a turn any more."""
        with self._lock:
            process.runs_from = NEVER
            process.dead = [s for s in self._seats if s.process is process and s.waiting]
            self._seats = [s for s in self._seats if s not in process.dead]

    def end(self, process: Process) -> None:
        """Let the threads of a killed process go: whatever they wait for raises ProcessEnded."""
        with self._lock:
            self._seats += process.dead
            process.ended, process.runs_from, process.dead = True, 0, []
            for seat in self._seats:
                if seat.process is process:
                    seat.deadline = 0

    def start(
        self, target: Callable[[], None], name: str, process: Process | None = None
    ) -> threading.Thread:
        """Start a service thread, which begins with its first turn."""

        def run() -> None:
            self._mine.seat = seat
            _stay_on(self._processor)
            try:
                with contextlib.suppress(ProcessEnded):
                    seat.enter()
                    target()
            finally:
                self._leave(seat)

        thread = threading.Thread(target=run, name=name, daemon=True)
        seat = Seat(thread, process or self._own, service=True)
        thread.start()
        with self._lock:
            self._seats.append(seat)
        return thread

    def wait(self, items: Sized, deadline: int) -> None:
        """Return with the turn, when ``items`` holds one or the deadline has come.

        Raises RuntimeError in a driver that could never be woken.
        """
        seat = self._mine.seat or self._new_driver()
        if seat.waiting:
            raise RuntimeError(
                "a signal handler that interrupted a wait in a FakeClock cannot wait"
            )
        seat.check_process()
        if not seat.service:
            self._let_return()
        try:
            with self._lock:
                self._sit(seat, items, deadline)
            if seat.service:
                seat.enter()
            else:
                self._look_around(seat)
        except BaseException:
            self._stand_up(seat)
            raise

    def _new_driver(self) -> Seat:
        seat = self._mine.seat = Seat(threading.current_thread(), self._own, service=False)
        with self._lock:
            self._seats.append(seat)
        return seat

    def _let_return(self) -> None:
        """Give woken threads time to move where the kernel does not show that they are awake."""
        unseen = [seat for seat in tuple(self._away) if seat.pulse is None]
        end = time.monotonic() + RETURN
        while unseen and time.monotonic() < end and not any(seat.stirs() for seat in unseen):
            time.sleep(0.001)

    def _sit(self, seat: Seat, items: Sized, deadline: int) -> None:
        if seat in self._away:
            self._away.remove(seat)
        seat.items, seat.deadline = items, deadline
        seat.waiting, seat.begun = True, False
        if not seat.service:
            seat.limit = self.monotonic + LONGEST_WAIT
        if self._turn is seat or self._turn is None:
            self._pass_on()

    def _look_around(self, seat: Seat) -> None:
        looks = 0
        while not seat.gate.acquire(timeout=LOOK):
            with self._lock:
                self._look()
                impasse = self._impasse()
            looks = looks + 1 if impasse else 0
            if looks > GRACE:
                raise RuntimeError(impasse)
        seat.begun = True

    def _stand_up(self, seat: Seat) -> None:
        """Let a driver go that leaves its wait with an exception."""
        with self._lock:
            seat.waiting, seat.begun = False, True
            if self._turn is seat:
                seat.gate.acquire(blocking=False)  # the turn came in the same moment
            elif self._turn is None:
                self._turn = seat
            else:
                seat.stack = ()  # runs without the turn, and is given it as soon as it is free
                self._away.append(seat)

    def _leave(self, seat: Seat) -> None:
        with self._lock:
            self._drop(seat)
            if self._turn is seat or self._turn is None:
                self._pass_on()

    def _drop(self, seat: Seat) -> None:
        self._seats.remove(seat)
        if seat in self._away:
            self._away.remove(seat)

    def _look(self) -> None:
        """Pass the turn on if nobody has it, or if its owner has died or does not move."""
        owner = self._turn
        if owner is None:
            self._pass_on()
        elif not owner.thread.is_alive():
            self._drop(owner)
            self._pass_on()
        elif owner.stands_still():
            self._away.append(owner)
            self._pass_on()

    def _pass_on(self) -> None:
        self._turn = None
        seat = self._next()
        while seat is None and self._flow():
            seat = self._next()
        self._turn = seat
        if seat is not None:
            seat.samples = 0
            if seat.waiting:
                seat.waiting = False
                seat.gate.release()

    def _next(self) -> Seat | None:
        for seat in tuple(self._away):
            if not seat.thread.is_alive():
                self._drop(seat)
            elif seat.stirs():
                self._away.remove(seat)
                return seat
        now = self.monotonic
        ready = [s for s in self._seats if s.waiting and s.due() <= now]
        ready = [s for s in ready if s.service] or ready
        if len(ready) > 1:
            return self._order.choice(ready)
        return ready[0] if ready else None

    def _flow(self) -> bool:
        """Let time go to the earliest deadline; False when no driver waits, or it goes too far."""
        limits = [s.limit for s in self._seats if s.waiting and not s.service]
        target = self._earliest()
        if not limits or target > min(limits):
            return False
        self.wall += target - self.monotonic
        self.monotonic = target
        return True

    def _earliest(self) -> int:
        return min((s.due() for s in self._seats if s.waiting), default=NEVER)

    def _impasse(self) -> str | None:
        """Say why no thread will have a turn again; None while one has or may."""
        if self._turn is not None:
            return None
        names = ", ".join(s.thread.name for s in self._seats if s.waiting)
        if self._earliest() != NEVER:
            return f"the wait takes more than 200 simulated years; waiting: {names}"
        if self._away:
            return None
        return f"deadlock: every thread waits in the clock and nothing can wake one: {names}"


def _processor() -> int | None:
    """Return the processor that the calling thread runs on; None where that cannot be had."""
    try:
        with open("/proc/thread-self/stat", encoding="utf-8") as file:
            return int(file.read().rpartition(")")[2].split()[36])
    except (OSError, ValueError, IndexError):
        return None


def _stay_on(processor: int | None) -> None:
    """Keep the calling thread on one processor, which all service threads of a clock share.

    Only one of them runs at a time, and passing the turn on costs a fifth of what it does between
    two processors.
    """
    if processor is not None and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):  # it was taken from this process meanwhile
            os.sched_setaffinity(0, {processor})
