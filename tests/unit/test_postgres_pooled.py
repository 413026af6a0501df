"""PostgreSQL behind pgbouncer, which gives each transaction whatever session is free."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from contract.driver import a_claim
from contract.hand_clock import START
from support.pooler import pooled
from support.postgres_server import OwnServer, own_server

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.model import Declaration, Ending, LeaseRef, Retention

BACKENDS = 5
"""More than the pooler has sessions."""


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    with own_server() as server:
        yield server


@pytest.fixture(scope="module", params=["", "options"], ids=["refuses options", "swallows options"])
def pool(server: OwnServer, request: pytest.FixtureRequest) -> Iterator[str]:
    with pooled(server, ignored=request.param) as url:
        yield url


@pytest.fixture
def backends(pool: str) -> Iterator[list[PostgresBackend]]:
    schema = f"s{uuid.uuid4().hex}"
    made = [PostgresBackend(f"{pool}&schema={schema}") for _ in range(BACKENDS)]
    for backend in made:
        backend.open()
    yield made
    for backend in made:
        backend.close()


def test_all_that_a_store_does_works_in_whatever_session(backends: list[PostgresBackend]) -> None:
    now = round(time.time(), 3) - START - BACKENDS
    for number, backend in enumerate(backends):
        backend.declare([Declaration("job", "daily")])
        slot = now + number
        claim = a_claim(slot, f"t{number}", overlap="allow", max_late=1e6)
        ref = LeaseRef("job", claim.slot, claim.token, 20.0)
        assert backend.claim([claim])[0].outcome == "won"
        others = [other for other in backends if other is not backend]
        lost = a_claim(slot, "x", overlap="allow", max_late=1e6)
        assert {other.claim([lost])[0].outcome for other in others} == {"running"}
        assert backend.heartbeat([ref]) == ["ok"]
        assert others[0].heartbeat([ref]) == ["ok"]  # the token counts, and not who sends it
        end = Ending("job", claim.slot, claim.token, "success")
        assert backend.release([end]) == [True]
        assert backend.finish([end]) == [True]
        assert not backend.prune([Retention("job", 1e6, 10, 1e6)])
        assert [state.slot for state in others[0].unfinished(["job"])] == []


def test_nobody_listens_in_a_session_that_others_get(backends: list[PostgresBackend]) -> None:
    assert [backend.listening() for backend in backends] == [None] * BACKENDS
    sessions = [check for check in backends[0].checks() if check.name == "session"]
    assert [check.found for check in sessions] == ["behind a pooler"]
