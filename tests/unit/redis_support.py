"""A Redis server of a test's own, and what all tests of that store say."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from support.servers import started_redis

from leasecron.backends.redis_store import RedisBackend
from leasecron.model import Claim, ClaimAnswer, from_ms, to_ms

SLOT = from_ms(int(time.time() * 1000))


def a_claim(token: str, job: str = "job", seconds: float = 0.0, **fields: Any) -> Claim:
    """Return a claim on a slot of about now."""
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


class Server:
    """A server that is stopped, killed and started again."""

    def __init__(self, **settings: object) -> None:
        self.server = started_redis(**settings)
        self.place = f"{self.server.host}:{self.server.port}"
        self.url = f"redis://{self.place}"
        self.client: Any = redis.Redis(host=self.server.host, port=self.server.port)

    def kill(self) -> None:
        """End it without a word."""
        self.server.terminate()

    def start(self) -> None:
        """Start it again, at the same place, with what it had kept."""
        self.server.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it do nothing for a while, with all its connections standing."""
        pid = self.server._process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        """Be done with it."""
        self.client.close()
        self.server.terminate()
