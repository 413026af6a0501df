"""A Redis server of a test's own, and what all tests of that store say."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import redis
from support.valkey_server import OwnValkey

from leasecron.backends.redis_store import RedisBackend
from leasecron.model import Claim, ClaimAnswer, from_ms, to_ms

LIMIT = 10.0
SLOT = from_ms(int(time.time() * 1000) - 60_000)


def a_claim(token: str, job: str = "job", seconds: float = 0.0, **fields: Any) -> Claim:
    """Return a claim on a slot of a minute ago, or later by so many seconds."""
    values: dict[str, Any] = {
        "slot": from_ms(to_ms(SLOT) + round(seconds * 1000)),
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
