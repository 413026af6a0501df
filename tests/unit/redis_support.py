"""A Redis server of a test's own, and what all tests of that store say."""

from __future__ import annotations

import queue
import select
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import redis
from support.valkey_server import OwnValkey

from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.rows import RunRow
from leasecron.model import MAX_RECORDS, Claim, ClaimAnswer, Ending, Status, from_ms, to_ms

LIMIT = 10.0
SLOT = from_ms(int(time.time() * 1000) - 60_000)


def at(seconds: float) -> datetime:
    """Return the slot of a minute ago, or one later by so many seconds."""
    return from_ms(to_ms(SLOT) + round(seconds * 1000))


def a_claim(token: str, job: str = "job", seconds: float = 0.0, **fields: Any) -> Claim:
    """Return a claim on a slot of a minute ago, or later by so many seconds."""
    values: dict[str, Any] = {
        "slot": at(seconds),
        "instance": f"instance-{token}",
        "lease": 20.0,
        "overlap": "allow",
        "max_attempts": 3,
        "max_late": 86_400.0,  # from when the suite began
    }
    return Claim(job=job, token=token, **values | fields)


def claim(backend: RedisBackend, token: str, job: str = "job", **fields: Any) -> ClaimAnswer:
    """Claim one run."""
    (answer,) = backend.claim([a_claim(token, job, **fields)])
    return answer


def take(backend: RedisBackend, seconds: float, token: str, **fields: Any) -> str:
    """Ask for a run as a backup does, and return the outcome."""
    claim = a_claim(token, seconds=seconds, mode="takeover", trigger="takeover", **fields)
    return backend.claim([claim])[0].outcome


def end(backend: RedisBackend, seconds: float, token: str, status: Status = "success") -> None:
    """End a run that is held."""
    assert backend.finish([Ending("job", at(seconds), token, status)]) == [True]


def a_row(seconds: float, state: str, attempt: int, **fields: Any) -> RunRow:
    """Return a row as another store hands it over, whose lease was ended."""
    now = to_ms(SLOT)
    values: dict[str, Any] = {
        "job": "job",
        "slot": to_ms(at(seconds)),
        "state": state,
        "token": "t" if attempt else "",
        "attempt": attempt,
        "lost": 0,
        "fence": 100 + attempt,
        "released_fence": None,
        "instance": "i",
        "trigger": fields.get("origin", "scheduled"),
        "claimed_at": now,
        "lease_until": now,
        "boot": "",
        "lease_mono": 0,
    }
    return RunRow(**values | fields)


def pruned(backend: RedisBackend, room: int) -> bool:
    """Remove all that may go, however young it is, but at most so many entries."""
    return backend._prune((["job"], [-1000], [0], [-1000]), MAX_RECORDS, room)


def told_to(backend: RedisBackend) -> queue.SimpleQueue[tuple[str, datetime]]:
    """Return a queue of what a backend is told from now on."""
    found: queue.SimpleQueue[tuple[str, datetime]] = queue.SimpleQueue()
    backend.hear(lambda job, slot: found.put((job, slot)))
    return found


def pass_on(backend: RedisBackend) -> None:
    """Wait for a notice, and pass it on."""
    descriptor = backend.listening()
    assert descriptor is not None
    assert select.select([descriptor], [], [], LIMIT)[0]
    backend.pass_on()


class Server(OwnValkey):
    """One that is looked into from outside as well."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.place = f"{self.server.host}:{self.port}"
        self.client: Any = redis.Redis(host=self.server.host, port=self.port)

    def end(self) -> None:
        """Be done with it."""
        self.client.close()
        self.kill()


def until(is_so: Callable[[], bool]) -> None:
    """Wait for what a server, or who uses it, does by itself."""
    deadline = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def a_server() -> Iterator[Server]:
    """Hand out a server of a module's own, for a fixture."""
    made = Server()
    yield made
    made.end()


def two_opened(server: Server) -> Iterator[list[RedisBackend]]:
    """Hand out two stores in one server that is empty, for a fixture."""
    server.client.flushall()
    made = [RedisBackend(server.url) for _ in range(2)]
    for backend in made:
        backend.open()
    yield made
    for backend in made:
        backend.close()
