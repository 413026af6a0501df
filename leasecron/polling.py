"""A waker for a thread that has a descriptor to look at besides, such as a connection's."""

from __future__ import annotations

import math
import os
import queue
import select
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from leasecron.clock import MAX_WAIT, WAKING_LATER


class PollingWaker:
    """A waker with one reader, which ``descriptor`` wakes too, once it can be read.

    ``get`` raises ``queue.Empty`` then, as when its time is up. ``descriptor`` is asked before each
    sleep and may say None.
    """

    def __init__(self, descriptor: Callable[[], int | None]) -> None:
        self._descriptor = descriptor
        self._items: deque[Any] = deque()
        self._later = False  # the reader will be woken at the end of somebody's batch
        self._asleep = False
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        # Not at the end of the process: the threads that use it may end later than that.
        weakref.finalize(self, _close, self._read, self._write).atexit = False

    def put(self, item: Any) -> None:
        """Hand over ``item``; never blocks."""
        self._items.append(item)
        # Awake, the reader has yet to look, and will see this.
        if self._asleep and not self._later:
            if WAKING_LATER.takes(self):
                self._later = True
            else:
                self.wake()

    def get(self, timeout: float | None = None) -> Any:
        """Return the oldest item."""
        deadline = math.inf if timeout is None else time.monotonic() + max(0.0, timeout)
        while True:
            if self._items:
                return self._items.popleft()
            left = min(MAX_WAIT, deadline - time.monotonic())
            if left <= 0:
                raise queue.Empty
            WAKING_LATER.wake()  # whom we wait for may wait for what this thread handed over
            self._asleep = True
            try:
                if not self._items and self._sleep(left):
                    raise queue.Empty
            finally:
                self._asleep = False

    def drain(self) -> list[Any]:
        """Return all that is there now, without waiting."""
        return [self._items.popleft() for _ in range(len(self._items))]

    def wake(self) -> None:
        """Wake the reader."""
        self._later = False
        try:  # noqa: SIM105 - nothing more may be done, and so fail, after an append
            os.write(self._write, b"\0")
        except BlockingIOError:  # it has been woken more often than it could sleep
            pass

    def _sleep(self, seconds: float) -> bool:
        """Say whether it was the descriptor that ended the sleep."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        other = self._descriptor()
        if other is not None:
            poll.register(other, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(math.ceil(seconds * 1000))}
        if self._read in ready:
            os.read(self._read, 4096)
        return bool(ready - {self._read})


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
