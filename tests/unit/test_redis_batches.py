"""What a call of a Redis store costs that is about many runs of one job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from redis_support import Server, a_claim, a_server

from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.redis.scripts import Script, script, script_of
from leasecron.model import Claim, Ending, LeaseRef, Retry

MANY = 300
_UNPACKED = "local pack, unpacked = cmsgpack.pack, cmsgpack.unpack\n"
_COUNTED = """
local pack = cmsgpack.pack
local function unpacked(text)
    call('INCR', 'unpacked')
    return cmsgpack.unpack(text)
end
"""


def counted(operation: str) -> Script:
    """Return a script that counts how often it unpacks a value."""
    text = script(operation).text.decode()
    assert text.count(_UNPACKED) == (operation != "ready")
    return script_of(text.replace(_UNPACKED, _COUNTED))


@pytest.fixture
def server() -> Iterator[Server]:
    yield from a_server()


def endings(claims: Sequence[Claim]) -> list[Ending]:
    return [Ending(claim.job, claim.slot, claim.token, "success") for claim in claims]


CALLS: dict[str, Callable[[RedisBackend, Sequence[Claim]], Any]] = {
    "claim": lambda backend, claims: backend.claim(claims),
    "heartbeat": lambda backend, claims: backend.heartbeat(
        [LeaseRef(claim.job, claim.slot, claim.token, 20.0) for claim in claims]
    ),
    "retry": lambda backend, claims: backend.retry(
        [Retry(claim.job, claim.slot, claim.token, 1) for claim in claims]
    ),
    "finish": lambda backend, claims: backend.finish(endings(claims)),
    "release": lambda backend, claims: backend.release(endings(claims)),
    "unfinished": lambda backend, claims: backend.unfinished([claim.job for claim in claims]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_looks_at_each_run_and_each_job_once(server: Server, call: str) -> None:
    backend = RedisBackend(server.url)
    backend.open()
    claims = [a_claim(f"t{number}", seconds=number / 10) for number in range(MANY)]
    assert {answer.outcome for answer in backend.claim(claims)} == {"won"}
    backend._server.script_of = counted

    assert len(CALLS[call](backend, claims)) == MANY

    assert int(server.client.get("unpacked")) <= MANY + 1
    backend.close()
