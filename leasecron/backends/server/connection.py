"""The connection that the store of a server has in a process, and what keeps it safe.

All calls share it, one at a time. It is used only in the process that opened it. One that fails is
let go of, and the next call opens another; how often that is tried is up to whoever calls. Beside
it may be another one that only listens; without it backups find out by themselves, later. So it is
replaced once there is a call, but not again and again.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Generic, Protocol, TypeVar

from leasecron.errors import BackendError, SchedulerStateError


class Wire(Protocol):
    """A connection as its driver knows it."""

    @property
    def descriptor(self) -> int:
        """What can be read once something has come, or the connection has ended."""

    def close(self) -> None:
        """Let go of the connection, without waiting for anything."""


W = TypeVar("W", bound=Wire)

FIRST_DELAY = 1.0
LONGEST_DELAY = 600.0
"""Seconds between two attempts to have a listener: after the first, and after many."""


class ServerConnection(ABC, Generic[W]):
    """Counted opens, calls one at a time, and the way over forks and outages."""

    def __init__(self, description: str) -> None:
        self.description = description
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._times = 0
        self._wire: W | None = None
        self._listener: W | None = None
        self._descriptor: int | None = None  # of the listener
        self._listen_at = 0.0  # not again before
        self._listen_delay = 0.0

    @abstractmethod
    def _connected(self) -> W:
        """Return a connection to a server that can be used, with the store in it ready."""

    @abstractmethod
    def _new_listener(self) -> W | None:
        """Return another connection, by which notices come; None where there can be none."""

    @abstractmethod
    def _translated(self) -> AbstractContextManager[None]:
        """Turn the driver's errors into those of the package."""

    @abstractmethod
    def _is_gone(self, error: BaseException) -> bool:
        """Say whether an error leaves a connection of which nobody knows what still arrives."""

    @abstractmethod
    def _heard(self, listener: W) -> list[str]:
        """Return the notices of others that have come, without waiting."""

    def open(self) -> None:
        """Connect and make the store ready; raise where that is not possible."""
        self._check_process()
        with self._lock, self._translated():
            if not self._times:
                self._connect()
            self._times += 1

    def close(self) -> None:
        """Undo one ``open``. In a forked child the connection is left alone."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._times = max(0, self._times - 1)
            if not self._times:
                self._let_go()

    def suspend(self) -> None:
        """Close the connection until the next call, so that a fork finds none."""
        self._check_process()
        with self._lock:
            self._let_go()

    def forget(self) -> None:
        """Be unopened, in a child forked while suspended; leave an inherited connection alone."""
        if self._wire is None:
            self._lock = threading.Lock()
            self._pid = os.getpid()
            self._times = 0

    @contextmanager
    def usable(self) -> Iterator[W]:
        """Hold the connection for one call; what it raises leaves as an error of the package."""
        self._check_process()
        with self._lock, self._translated():
            if not self._times:
                raise SchedulerStateError(f"the store {self.description} is not open")
            if self._wire is None:
                self._connect()
            assert self._wire is not None
            try:
                yield self._wire
            except BaseException as error:
                if self._is_gone(error):
                    self._let_go()
                raise
            if self._listener is None and time.monotonic() >= self._listen_at:
                self._listen()

    def listening(self) -> int | None:
        """Return what can be read once there are notices; None where nobody listens.

        It may be closed by then, by another thread that uses the store.
        """
        return self._descriptor

    def notices(self) -> list[str]:
        """Return those of others that have come."""
        with self._lock:
            if self._listener is None:
                return []
            try:
                with self._translated():
                    return self._heard(self._listener)
            except BackendError:
                self._stop_listening()
                return []

    def _connect(self) -> None:
        self._wire = self._connected()
        self._listen()

    def _listen(self) -> None:
        """Have a listener if that is possible, and note when to try it again if need be."""
        now = time.monotonic()
        if now - self._listen_at > LONGEST_DELAY:  # the last one has done for some time
            self._listen_delay = 0.0
        self._listen_delay = min(LONGEST_DELAY, max(FIRST_DELAY, 2 * self._listen_delay))
        self._listen_at = now + self._listen_delay
        with suppress(BackendError), self._translated():
            self._listener = listener = self._new_listener()
            self._descriptor = None if listener is None else listener.descriptor

    def _stop_listening(self) -> None:
        listener, self._listener, self._descriptor = self._listener, None, None
        if listener is not None:
            listener.close()

    def _let_go(self) -> None:
        self._stop_listening()
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def _check_process(self) -> None:
        if os.getpid() == self._pid:
            return
        if self._wire is None:
            self.forget()
        else:
            raise SchedulerStateError(
                f"the store {self.description} was opened before this process was forked, and a "
                "connection must not cross a fork: open it after the fork, with a scheduler or "
                "backend that is made there"
            )
