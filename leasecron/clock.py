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
from collections import deque
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
    """A waker on a deque and a lock that only wakes; nobody ever holds it.

    ``put`` never waits, so a signal handler may put into a waker whose reader or writer it has
    interrupted. (The timed ``get`` of :class:`queue.SimpleQueue` waits for ever when a signal
    handler outlasts its timeout, on Python 3.11 and 3.12.)
    """

    __slots__ = ("_items", "_woken")

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._woken = threading.Lock()
        self._woken.acquire()

    def put(self, item: Any) -> None:
        self._items.append(item)
        try:  # noqa: SIM105 - nothing more may be done, and so fail, after the append
            self._woken.release()
        except RuntimeError:  # released already: the reader has yet to look, and will see this too
            pass

    def get(self, timeout: float | None = None) -> Any:
        # A signal that comes just before the main thread falls asleep does not wake it.
        main = threading.current_thread() is threading.main_thread()
        longest = SIGNAL_WAIT if main else MAX_WAIT
        deadline = None
        if timeout is not None:
            deadline = time.monotonic() + (timeout if timeout > 0 else 0.0)  # nan is no time at all
        while True:
            with contextlib.suppress(IndexError):
                return self._items.popleft()
            left = longest if deadline is None else min(longest, deadline - time.monotonic())
            if left <= 0:
                raise queue.Empty
            self._woken.acquire(timeout=left)

    def drain(self) -> list[Any]:
        return [self._items.popleft() for _ in range(len(self._items))]


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
