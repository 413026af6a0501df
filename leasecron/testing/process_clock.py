"""What one simulated process sees of a fake clock, and how it is frozen and killed."""

from __future__ import annotations

import contextlib
import queue
import random
import threading
from collections.abc import Callable

from leasecron.clock import Clock, Waker
from leasecron.testing.seats import Process
from leasecron.testing.turns import Turns


class ProcessClock:
    """The clock of one simulated process: its threads share a fate, and its wall clock may be off.

    All processes of one fake clock are on one machine, with one monotonic time and one boot.
    """

    def __init__(self, clock: Clock, turns: Turns) -> None:
        self.random: random.Random = clock.random
        self.skew = 0.0
        self.killed = False
        self._clock = clock
        self._turns = turns
        self._process = Process()

    def wall(self) -> float:
        """Return the seconds since the Unix epoch as this process sees them."""
        return self._clock.wall() + self.skew

    def monotonic(self) -> float:
        """Return the simulated seconds that all processes share."""
        return self._clock.monotonic()

    def boot_id(self) -> str | None:
        """Name the machine that all processes share."""
        return self._clock.boot_id()

    def waker(self) -> Waker:
        """Return a new waker."""
        return self._clock.waker()

    def start_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Start a thread of this process."""
        return self._turns.start(target, name, self._process)

    @property
    def stands_still(self) -> bool:
        """Whether the process is frozen or killed, or was thawed in this very instant.

        One that was just thawed has not yet looked at the time: what it believes in is old.
        """
        return self._process.runs_from >= self._turns.monotonic

    def freeze(self, seconds: float) -> None:
        """Stop all threads for so many seconds, as SIGSTOP would; each where it next waits."""
        until = self._turns.monotonic + round(seconds * 1_000_000)
        self._turns.freeze(self._process, until)
        self._stop_caller()

    def kill(self) -> None:
        """Stop all threads for good, as SIGKILL would. One that calls this does not return."""
        self.killed = True
        self._turns.kill(self._process)
        self._stop_caller()

    def end(self) -> None:
        """Let the threads of a killed process end, each by an exception where it stands."""
        self._turns.end(self._process)

    def _stop_caller(self) -> None:
        if self._turns.is_in(self._process):
            with contextlib.suppress(queue.Empty):
                self.waker().get(0.000_001)  # comes back when the process goes on
