"""What tests of a PostgreSQL store's connections have in common: who is told, and who waits."""

from __future__ import annotations

import queue
import select
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Generic, TypeVar

import psycopg

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.errors import BackendUnavailable

LONG = 30.0
T = TypeVar("T")

_WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"


class Hearer:
    """Notes what a store tells."""

    def __init__(self, backend: PostgresBackend) -> None:
        self.found: list[tuple[str, datetime]] = []
        self._backend = backend
        backend.hear(self._told)

    def _told(self, job: str, slot: datetime) -> None:
        self.found.append((job, slot))

    def wait(self, count: int = 1) -> None:
        """Wait until so much was told, and pass on what comes from others."""
        deadline = time.monotonic() + LONG
        while len(self.found) < count and time.monotonic() < deadline:
            descriptor = self._backend.listening()
            assert descriptor is not None
            select.select([descriptor], [], [], LONG)
            self._backend.pass_on()


class Call(threading.Thread, Generic[T]):
    """A call that another thread makes until the server answers.

    On a busy machine a lock may be waited for for too long.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__()
        self._call = call
        self._answers: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            try:
                self._answers.put(self._call())
            except BackendUnavailable:
                continue
            except BaseException as error:
                self._answers.put(error)
            return

    @property
    def is_answered(self) -> bool:
        return not self._answers.empty()

    def answer(self) -> T:
        """Wait for the answer, or raise what the call raised."""
        self.join()
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer


def wait_for_one_who_waits(backend: PostgresBackend) -> None:
    """Wait until a call of the store waits for a lock."""
    with psycopg.connect(backend.address.conninfo, autocommit=True) as looker:
        while not looker.execute(_WAITING, [f"%{backend.address.schema}%"]).fetchall():
            pass
