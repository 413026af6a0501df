"""The one place where time is read and waited for.

Everything else in the package takes a :class:`Clock`, so that a test can hold time in its hand.
"""

from __future__ import annotations

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
    """A queue whose readers sleep until something is put or their time is up.

    Several readers are woken one after the other, each by the one before it.
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


class _Wakeable(Protocol):
    def wake(self) -> None:
        """Wake a reader."""


class _WakingLater(threading.local):
    """The wakers that a thread puts into and whose readers it wakes at the end, each once.

    To wake a sleeping thread costs more than all else that is done to hand something over.
    """

    def __init__(self) -> None:
        self._open = False
        self._wakers: set[_Wakeable] = set()

    def __enter__(self) -> None:
        self._open = True

    def __exit__(self, *_: object) -> None:
        self._open = False
        self.wake()

    def wake(self) -> None:
        """Wake the readers of all that was handed over so far."""
        while self._wakers:
            self._wakers.pop().wake()

    def takes(self, waker: _Wakeable) -> bool:
        """Take the waker, if the calling thread has a batch."""
        if self._open:
            self._wakers.add(waker)
        return self._open


WAKING_LATER = _WakingLater()
"""``with WAKING_LATER`` makes one batch of all that the calling thread hands over meanwhile."""


class SystemWaker:
    """A waker on a deque and a lock that only wakes; nobody ever holds it.

    ``put`` never waits, so a signal handler may put into a waker whose reader or writer it has
    interrupted. (The timed ``get`` of :class:`queue.SimpleQueue` waits for ever when a signal
    handler outlasts its timeout, on Python 3.11 and 3.12.)
    """

    __slots__ = ("_items", "_later", "_woken")

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._later = False  # a reader will be woken at the end of somebody's batch
        self._woken = threading.Lock()
        self._woken.acquire()

    def put(self, item: Any) -> None:
        self._items.append(item)
        # Unlocked, a reader has been woken and has yet to look: it will see this too.
        if self._woken.locked() and not self._later:
            self._notice()

    def get(self, timeout: float | None = None) -> Any:
        # A signal that comes just before the main thread falls asleep does not wake it.
        main = threading.current_thread() is threading.main_thread()
        longest = SIGNAL_WAIT if main else MAX_WAIT
        deadline = None
        if timeout is not None:
            deadline = time.monotonic() + (timeout if timeout > 0 else 0.0)  # nan is no time at all
        woken = False
        while True:
            try:
                item = self._items.popleft()
            except IndexError:
                pass
            else:
                if woken and self._items:
                    self._notice()  # for the next reader: a put before we looked has woken none
                return item
            left = longest if deadline is None else min(longest, deadline - time.monotonic())
            if left <= 0:
                raise queue.Empty
            WAKING_LATER.wake()  # whom we wait for may wait for what this very thread handed over
            woken = self._woken.acquire(timeout=left)

    def drain(self) -> list[Any]:
        return [self._items.popleft() for _ in range(len(self._items))]

    def _notice(self) -> None:
        if WAKING_LATER.takes(self):
            self._later = True
        else:
            self.wake()

    def wake(self) -> None:
        """Wake a reader."""
        self._later = False  # first: whoever puts after it wakes for himself
        try:  # noqa: SIM105 - nothing more may be done, and so fail, after an append
            self._woken.release()
        except RuntimeError:  # woken already, by one who was as fast
            pass


class SystemClock:
    """The clocks of this machine."""

    def __init__(self) -> None:
        self._random = (0, random.Random())
        self._boot: tuple[int, str | None] = (0, None)

    wall = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    @property
    def random(self) -> random.Random:
        pid = os.getpid()
        if self._random[0] != pid:  # forked processes shall not act in step
            self._random = (pid, random.Random())
        return self._random[1]

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
