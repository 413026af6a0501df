"""PostgreSQL servers that die, freeze, are cut off or locked: errors, and a way back."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from contract.driver import a_claim
from contract.hand_clock import START
from support.postgres_server import OwnServer, own_server
from support.proxy import Proxy, before_socket

from leasecron.backends.postgres import connection as postgres_connection
from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.errors import BackendUnavailable, SchedulerStateError
from leasecron.model import Claim, ClaimAnswer, Ending, LeaseRef

PATIENCE = 20.0


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    with own_server() as server:
        yield server


@pytest.fixture
def backend(server: OwnServer) -> Iterator[PostgresBackend]:
    backend = PostgresBackend(f"{server.url}&schema=s{uuid.uuid4().hex}")
    backend.open()
    yield backend
    backend.close()


@pytest.fixture
def proxy(server: OwnServer) -> Iterator[Proxy]:
    with tempfile.TemporaryDirectory(prefix="leasecron-proxy-") as folder:
        proxy = before_socket(Path(folder), server.folder / ".s.PGSQL.5432")
        yield proxy
        proxy.close()


def claims(token: str = "a", jobs: int = 3) -> list[Claim]:
    now = round(time.time(), 3)
    return [a_claim(now - START, token, job=f"job-{n}") for n in range(jobs)]


def soon(call: Callable[[], list[ClaimAnswer]]) -> list[ClaimAnswer]:
    """Try again as the store thread does."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except BackendUnavailable:
            assert time.monotonic() < deadline


def test_a_server_that_died_is_reached_again_once_it_is_back(
    server: OwnServer, backend: PostgresBackend
) -> None:
    asked = claims()
    won = backend.claim(asked)
    server.kill()
    with pytest.raises(BackendUnavailable):
        backend.claim(asked)
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        backend.claim(asked)
    server.start()

    again = soon(lambda: backend.claim(asked))

    assert [answer.outcome for answer in won] == ["won"] * 3
    assert again == won


def test_a_server_that_was_restarted_in_between_is_an_error_once(
    server: OwnServer, backend: PostgresBackend
) -> None:
    server.stop()
    server.start()
    with pytest.raises(BackendUnavailable):
        backend.unfinished(["job"])
    assert backend.unfinished(["job"]) == []


def test_a_frozen_server_is_given_up_in_time(
    server: OwnServer, backend: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = claims()
    monkeypatch.setattr(postgres_connection, "CALL", 0.2)
    with server.frozen():
        with pytest.raises(BackendUnavailable, match="did not answer in time"):
            backend.claim(asked)
        backend.suspend()  # as a fork does: it must not wait for the server either
    again = soon(lambda: backend.claim(asked))
    assert [answer.outcome for answer in again] == ["won"] * 3
    assert len({answer.fence for answer in again}) == 3


def test_a_lock_that_somebody_holds_is_not_waited_for_long(
    server: OwnServer, backend: PostgresBackend
) -> None:
    asked = claims()
    backend.claim(asked)
    lease = LeaseRef("job-0", asked[0].slot, "a", 20.0)
    with psycopg.connect(server.url) as other:
        other.execute(f"SELECT * FROM {backend._schema}.runs FOR UPDATE".encode())
        with pytest.raises(BackendUnavailable, match="lock timeout"):
            backend.heartbeat([lease])
        other_job = a_claim(round(time.time(), 3) - START, "b", job="other")
        assert backend.claim([other_job])[0].outcome == "won"  # no lock is in its way
    assert backend.heartbeat([lease]) == ["ok"]


@pytest.mark.parametrize("direction", ["cut_requests_after", "cut_answers_after"])
def test_a_claim_that_was_cut_off_anywhere_is_answered_when_it_is_made_again(
    backend: PostgresBackend, proxy: Proxy, direction: str
) -> None:
    folder = Path(proxy.address).parent
    through = PostgresBackend(
        f"postgresql://postgres@/postgres?host={folder}&schema={backend.address.schema}"
    )
    through.open()
    won = 0
    for budget in (0, 1, 7, 40, 200, 450, 700, 1100):
        asked = claims(f"token-{budget}", jobs=4)
        setattr(proxy, direction, budget)
        before = proxy.cuts
        try:
            first = through.claim(asked)
        except BackendUnavailable:
            first = None
        setattr(proxy, direction, None)
        again = soon(lambda asked=asked: through.claim(asked))  # type: ignore[misc]
        assert [answer.outcome for answer in again] == ["won"] * 4
        assert [answer.attempt for answer in again] == [1] * 4
        assert (first is None) == (proxy.cuts > before)
        assert first in (None, again)
        won += first is None
        others = backend.claim([replace(claim, token="b") for claim in asked])
        assert [answer.outcome for answer in others] == ["running"] * 4
        ends = [Ending(each.job, each.slot, each.token, "success") for each in asked]
        assert through.finish(ends) == [True] * 4
    assert won >= 3
    through.close()


def test_a_connection_does_not_cross_a_fork(backend: PostgresBackend) -> None:
    def in_a_child(act: Callable[[], str]) -> str:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                said = act()
            except BaseException as error:
                said = type(error).__name__
            os.write(write, said.encode())
            os._exit(0)
        os.waitpid(pid, 0)
        os.close(write)
        return os.read(read, 1000).decode()

    def used() -> str:
        backend.unfinished(["job"])
        return "used"

    def opened_anew() -> str:
        backend.open()
        found = used()
        backend.close()
        return found

    assert in_a_child(used) == SchedulerStateError.__name__
    backend.suspend()
    assert in_a_child(opened_anew) == "used"
    assert used() == "used"
