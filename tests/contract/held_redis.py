"""A Redis store whose server's clock is held in the hand of a test.

It shows what ``now`` returns, which follows a hand clock that the store is opened with.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

import redis
from support.servers import with_option

from contract.hand_clock import FAR_AHEAD, START, HandClock
from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.redis.scripts import Script, script, script_of
from leasecron.clock import Clock

_TRUE = "local time = call('TIME')\n    return time[1] * 1000 + math.floor(time[2] / 1000)"
_HELD = "return tonumber(call('GET', META .. ':now'))"
_TRUE_EARLY = "local EARLY = 1000\n"
_HELD_EARLY = "local EARLY = tonumber(call('GET', META .. ':early'))\n"


@cache
def _held(operation: str) -> Script:
    text = script(operation).text.decode()
    assert text.count(_TRUE) == 1
    assert text.count(_TRUE_EARLY) == (operation == "claim")
    return script_of(text.replace(_TRUE, _HELD).replace(_TRUE_EARLY, _HELD_EARLY))


class HeldRedis(RedisBackend):
    """A prefix of its own, whose keys somebody has to drop in the end."""

    def __init__(self, url: str) -> None:
        self.early = FAR_AHEAD
        self.now: Callable[[], float] = lambda: START
        super().__init__(with_option(url, f"prefix=test-{uuid.uuid4().hex}"))
        self._server.script_of = _held
        self._client = redis.Redis.from_url(url)

    def open(self, clock: Clock | None = None) -> None:
        if isinstance(clock, HandClock):
            self.now = lambda: START + clock.passed
        self._tell_time()
        super().open(clock)

    def drop(self) -> None:
        """Remove the keys."""
        self._client.delete(*self._server.keys, *self._held_keys)
        self._client.close()

    @property
    def _held_keys(self) -> list[str]:
        return [f"{self._server.keys[0]}:{name}" for name in ("now", "early")]

    def _tell_time(self) -> None:
        values = (round(self.now() * 1000), self.early)
        self._client.mset(dict(zip(self._held_keys, values, strict=True)))

    def _call(self, operation: str, *columns: Any) -> Any:
        self._tell_time()
        return super()._call(operation, *columns)
