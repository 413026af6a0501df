"""The store thread on a fake clock, and a backend that does as it is told."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

from leasecron.backends.base import Backend
from leasecron.calls import Kind
from leasecron.errors import BackendError, BackendUnavailable
from leasecron.model import LeaseState, from_ms
from leasecron.store import StoreQueue
from leasecron.testing import FakeClock


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of the backend, ``at`` so many seconds after the bench was made."""

    operation: str
    items: list[Any]
    at: float


class ObedientBackend:
    """Answers each item with ``("did", item)``, unless it is told to do otherwise.

    ``away`` names operations for which the store is not available, ``guilty`` are items that no
    call can hold, ``before`` is done first in each call, ``answers`` replaces what is answered.
    """

    kind: Literal["lease"] = "lease"
    description = "obedient://"
    warnings: Sequence[str] = ()

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.asked: list[Asked] = []
        self.away: set[str] = set()
        self.guilty: set[Any] = set()
        self.before: dict[str, Callable[[], object]] = {}
        self.answers: dict[str, Callable[[list[Any]], list[Any]]] = {}
        self.opened = 0

    def open(self, clock: object = None) -> None:
        self._ask("open", [])
        self.opened += 1

    def close(self) -> None:
        self._ask("close", [])
        self.opened -= 1

    def suspend(self) -> None:
        self._ask("suspend", [])

    def claim(self, items: Sequence[Any]) -> list[Any]:
        return self._ask("claim", items)

    def heartbeat(self, items: Sequence[Any]) -> list[Any]:
        return self._ask("heartbeat", items)

    def finish(self, items: Sequence[Any]) -> list[Any]:
        return self._ask("finish", items)

    def release(self, items: Sequence[Any]) -> list[Any]:
        return self._ask("release", items)

    def retry(self, items: Sequence[Any]) -> list[Any]:
        return self._ask("retry", items)

    def fix(self, items: Sequence[Any]) -> list[Any]:
        return self._ask("fix", items)

    def declare(self, items: Sequence[Any]) -> list[Any]:
        return self._ask("declare", items)

    def save_results(self, items: Sequence[Any]) -> None:
        self._ask("save_results", items)

    def history(self, items: Sequence[Any]) -> list[Any]:
        return self._ask("history", items)

    def unfinished(self, items: Sequence[Any]) -> list[LeaseState]:
        self._ask("unfinished", items)
        return [LeaseState(job, from_ms(0), 1, alive=True) for job in items]

    def _ask(self, operation: str, items: Sequence[Any]) -> list[Any]:
        self.asked.append(Asked(operation, [*items], self._now()))
        self.before.get(operation, lambda: None)()
        if operation in self.away:
            raise BackendUnavailable(f"{operation} is away")
        if bad := self.guilty.intersection(items):
            raise BackendError(f"{operation} cannot hold {bad}")
        answers = self.answers.get(operation)
        return [("did", item) for item in items] if answers is None else answers([*items])


@dataclass(slots=True)
class StoreBench:
    """A store queue, its backend, and what came back."""

    clock: FakeClock
    backend: ObedientBackend = field(init=False)
    queue: StoreQueue = field(init=False)
    replies: list[tuple[Any, Any]] = field(default_factory=list)
    reports: list[tuple[str, list[Any], float]] = field(default_factory=list)
    closed: list[float] = field(default_factory=list)
    _begun: float = 0.0

    def __post_init__(self) -> None:
        self._begun = self.clock.monotonic()
        self.backend = ObedientBackend(self.now)
        self.queue = StoreQueue(cast("Backend", self.backend), self.clock, self._on_error)

    def now(self) -> float:
        """Return the seconds since the bench was made."""
        return self.clock.monotonic() - self._begun

    def later(self, seconds: float) -> float:
        """Return the monotonic time in so many seconds."""
        return self.clock.monotonic() + seconds

    def submit(self, kind: Kind, *items: Any, give_up: float | None = None) -> None:
        """Queue items; each reply is noted with its item."""
        for item in items:
            if kind == "other":
                self.queue.submit_other(item, partial(_history, item), self.reply_to(item))
            else:
                self.queue.submit(kind, item, self.reply_to(item), give_up=give_up)

    def reply_to(self, item: Any) -> Callable[[Any, float], None]:
        """Return a reply that notes the answer to ``item``."""
        return lambda answer, _asked_at: self.replies.append((item, answer))

    def close(self) -> None:
        """Ask for the end; its time is noted in ``closed``."""
        self.queue.close(lambda: self.closed.append(self.now()))

    def work(self) -> list[tuple[str, list[Any]]]:
        """Return operations and items of all calls since the last time, opening left out."""
        done = [(call.operation, call.items) for call in self.backend.asked]
        self.backend.asked.clear()
        return [entry for entry in done if entry[0] not in {"open", "close"}]

    def sleep(self, seconds: float) -> None:
        """Sleep in simulated time; for what a backend does."""
        try:
            self.clock.waker().get(seconds)
        except queue.Empty:
            return

    def end(self) -> None:
        """End the thread, whatever state it is in."""
        for failing in (self.backend.away, self.backend.guilty, self.backend.before):
            failing.clear()
        self.close()
        self.clock.advance(60)
        assert self.queue.ended or not self.queue._started
        assert self.backend.opened == 0

    def _on_error(self, operation: str, items: Sequence[Any], _error: BaseException) -> None:
        self.reports.append((operation, [*items], self.now()))


def did(*items: Any) -> list[tuple[Any, Any]]:
    """Return the replies to items of which each was answered."""
    return [(item, ("did", item)) for item in items]


def raises(error: Exception) -> Callable[[], None]:
    """Return what a backend does first that fails."""

    def fail() -> None:
        raise error

    return fail


def _history(item: Any, backend: ObedientBackend) -> list[Any]:
    return backend.history([item])
