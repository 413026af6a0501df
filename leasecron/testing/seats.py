"""A seat: what one thread waits for in the fake clock, and whether it blocks outside of it."""

from __future__ import annotations

import threading
from collections.abc import Sized

from leasecron.testing.posture import Pulse, Stack, pulse_of, stack_of

NEVER = 2**63 - 1
"""The deadline, in microseconds, of one who waits for ever."""

PATIENCE = 40  # looks at one and the same stack after which a thread is away
LONG_PATIENCE = 400  # the same for one that computes or waits for the disk, so will soon move


class ProcessEnded(BaseException):
    """Raised in the threads of a killed process when they are let go, long after it mattered."""


class Process:
    """Threads that stop and end together; ``runs_from`` is when they may go on, in microseconds.

    ``dead`` are the seats of a killed one, which nobody needs to look at.
    """

    __slots__ = ("dead", "ended", "runs_from")

    def __init__(self) -> None:
        self.runs_from = 0
        self.ended = False
        self.dead: list[Seat] = []


class Seat:
    """One thread's place: what it waits for, and how it was last seen to stand."""

    __slots__ = (
        "begun",
        "deadline",
        "gate",
        "items",
        "limit",
        "process",
        "pulse",
        "restless",
        "samples",
        "service",
        "stack",
        "thread",
        "waiting",
    )

    def __init__(self, thread: threading.Thread, process: Process, *, service: bool) -> None:
        self.thread = thread
        self.process = process
        self.service = service
        self.gate = threading.Lock()
        self.gate.acquire()
        self.items: Sized = ()
        self.deadline = 0
        self.limit = NEVER
        self.waiting = service  # with a deadline that has passed: ready for its first turn
        self.begun = not service  # has it woken up to the turn that it was given?
        self.samples = 0
        self.stack: Stack = ()
        self.pulse: Pulse | None = None
        self.restless = False

    def enter(self) -> None:
        """Block until the turn is given; a service thread has nothing to look after meanwhile."""
        self.gate.acquire()
        self.begun = True
        self.check_process()

    def check_process(self) -> None:
        """Raise :class:`ProcessEnded` where there is nothing left to be done."""
        if self.process.ended:
            raise ProcessEnded

    def due(self) -> int:
        """Return when the thread may have its next turn, in microseconds."""
        return max(self.process.runs_from, 0 if self.items else self.deadline)

    def stands_still(self) -> bool:
        """Take one look; True when the thread has stood at one place for long enough."""
        if not self.begun:  # only the machine is slow
            return False
        stack = stack_of(self.thread)
        self.samples = self.samples + 1 if stack == self.stack else 0
        self.stack = stack
        if self.samples == PATIENCE // 2:
            self.pulse = pulse_of(self.thread)
        if self.samples < PATIENCE:
            return False
        pulse = pulse_of(self.thread)
        busy = pulse is not None and pulse[0] != "S"
        if busy and self.samples < LONG_PATIENCE:
            return False
        # A loop of short sleeps has a pulse without getting anywhere: from now on only its stack
        # counts.
        self.restless = pulse != self.pulse
        self.pulse = pulse
        return True

    def stirs(self) -> bool:
        """Whether an away thread has moved since it was found standing still."""
        if stack_of(self.thread) != self.stack:
            return True
        return not self.restless and pulse_of(self.thread) != self.pulse
