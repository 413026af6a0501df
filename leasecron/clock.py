"""The one place where time is read and waited for.

Everything else in the package takes a :class:`Clock`, so that a test can hold time in its hand.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

MAX_WAIT = 60.0
"""No wait is longer than this many seconds; a longer one is split, and clocks are read again."""

SIGNAL_WAIT = 1.0
"""The main thread looks for signals at least this often, in seconds."""


class Waker(Protocol):
    """A queue with one reader, which sleeps until something is put or its time is up.

    ``put`` may be called from any thread and from a signal handler that interrupted any line.
    """

    def put(self, item: Any) -> None:
        """Hand over ``item``; never blocks."""

    def get(self, timeout: float | None = None) -> Any:
        """Return the oldest item; raise ``queue.Empty`` after ``timeout`` seconds."""

    def drain(self) -> list[Any]:
        """Return all that is there now, without waiting."""


class Clock(Protocol):
    """Wall time, monotonic time, waiting, threads and chance, as one replaceable part."""

    @property
    def random(self) -> random.Random:
        """The source of jitter; a fake clock seeds it."""

    def wall(self) -> float:
        """Seconds since the Unix epoch; may jump."""

    def monotonic(self) -> float:
        """Seconds that only go forward, equal in all processes of one boot."""

    def boot_id(self) -> str | None:
        """Name what ``monotonic`` counts from, as ``boot/namespace``; None where it has no name."""

    def waker(self) -> Waker:
        """Return a new waker."""

    def start_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Start a daemon thread; raises RuntimeError where no thread can be had."""


class SystemWaker:
    """A waker on :class:`queue.SimpleQueue`, whose ``put`` is re-entrant.

    With a lock or a condition in its place, a signal handler could wait for a lock that the code it
    interrupted holds.
    """

    __slots__ = ("_queue", "put")

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.put = self._queue.put

    def get(self, timeout: float | None = None) -> Any:
        # A signal that comes just before the main thread falls asleep does not wake it.
        main = threading.current_thread() is threading.main_thread()
        longest = SIGNAL_WAIT if main else MAX_WAIT
        if timeout is not None and not timeout > longest:  # nan is no time at all
            return self._queue.get(timeout=max(0.0, timeout))
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = longest if deadline is None else deadline - time.monotonic()
            try:
                return self._queue.get(timeout=min(longest, max(0.0, left)))
            except queue.Empty:
                if left <= 0:
                    raise

    def drain(self) -> list[Any]:
        items: list[Any] = []
        with contextlib.suppress(queue.Empty):
            while True:
                items.append(self._queue.get_nowait())
        return items


class SystemClock:
    """The clocks of this machine."""

    def __init__(self) -> None:
        # Without a state that forked processes would share: instances shall not act in step.
        self.random: random.Random = random.SystemRandom()
        self._boot: tuple[int, str | None] = (0, None)

    wall = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def boot_id(self) -> str | None:
        pid = os.getpid()
        if self._boot[0] != pid:  # only a new process can find itself in another time namespace
            self._boot = (pid, _boot_id())
        return self._boot[1]

    def waker(self) -> Waker:
        return SystemWaker()

    def start_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread


def _boot_id() -> str | None:
    """Return the kernel's boot id and the time namespace that shifts its monotonic clock."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        return None
    try:
        namespace = os.readlink("/proc/self/ns/time")
    except OSError:  # a kernel before 5.6 has no time namespaces
        namespace = "time:[none]"
    return f"{boot}/{namespace}"
