"""What a PostgreSQL server may forget, and for which commits nobody waits."""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import psycopg
import pytest
from contract.driver import a_claim
from contract.hand_clock import START
from support.postgres_server import OwnServer, own_server

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.server.backend import columns_of_claims
from leasecron.errors import BackendUnavailable
from leasecron.model import Claim, Declaration, Overlap

WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


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


def claim_of(token: str, seconds: float = 0.0, job: str = "job") -> Claim:
    return a_claim(round(time.time(), 3) - START + seconds, token, job=job)


def won(backend: PostgresBackend, claim: Claim) -> int:
    (answer,) = backend.claim([claim])
    assert answer.outcome == "won"
    assert answer.fence is not None
    return answer.fence


def call_of(backend: PostgresBackend, claims: list[Claim]) -> tuple[bytes, list[str]]:
    """Return the statement of a call, and its values."""
    columns = [json.dumps(each) for each in columns_of_claims(claims)]
    places = ", ".join(["%s::json"] * len(columns))
    return f"SELECT {backend._schema}.claim({places})".encode(), columns


def waits_for_commit(backend: PostgresBackend, claims: list[Claim]) -> bool:
    """Make a call, and say whether its commit would wait; then take it back."""
    with psycopg.connect(backend.address.conninfo) as connection:
        connection.execute(*call_of(backend, claims))
        found = connection.execute("SHOW synchronous_commit").fetchone()
        connection.rollback()
    assert found in {("on",), ("off",)}
    return found == ("on",)


def test_a_claim_that_changes_something_waits_for_its_commit(backend: PostgresBackend) -> None:
    old = claim_of("a", -60)
    won(backend, replace(old, lease=0.001))
    abandoned = replace(old, token="b", mode="takeover", max_attempts=1)

    assert waits_for_commit(backend, [claim_of("a", job="new")])
    assert waits_for_commit(backend, [abandoned])
    assert waits_for_commit(backend, [replace(abandoned, max_attempts=9)])


def test_a_claim_that_loses_waits_for_no_commit(backend: PostgresBackend) -> None:
    older = claim_of("a", -10)
    won(backend, older)

    assert not waits_for_commit(backend, [claim_of("b")])  # overlap
    assert waits_for_commit(backend, [claim_of("b"), claim_of("b", job="other")])


@pytest.mark.parametrize("overlap", ["queue", "cancel"])
def test_a_slot_that_waits_is_kept_and_its_commit_waited_for(
    backend: PostgresBackend, overlap: Overlap
) -> None:
    won(backend, replace(claim_of("a", -10), overlap=overlap))
    waiting = replace(claim_of("b", -5), overlap=overlap)

    assert waits_for_commit(backend, [waiting])
    backend.claim([waiting])
    assert not waits_for_commit(backend, [replace(waiting, mode="takeover")])
    assert waits_for_commit(
        backend, [replace(claim_of("b", -7), overlap=overlap)]
    )  # not the newest


def test_a_pause_that_a_claim_begins_is_waited_for(backend: PostgresBackend) -> None:
    old = claim_of("a", -60)
    won(backend, replace(old, lease=0.001))
    last = replace(old, token="b", mode="takeover", max_attempts=1, pause_on_failure=True)

    assert waits_for_commit(backend, [last])
    backend.claim([last])
    assert len(backend.pauses("job")) == 1


def changes(backend: PostgresBackend, claims: list[Claim]) -> bool:
    """Make a call, and say whether it locks or changes a row; then take it back."""
    with psycopg.connect(backend.address.conninfo) as connection:
        connection.execute(*call_of(backend, claims))
        found = connection.execute("SELECT pg_current_xact_id_if_assigned()::text").fetchone()
        connection.rollback()
    return found != (None,)


def test_what_a_pause_answers_takes_no_lock(backend: PostgresBackend) -> None:
    backend.declare([Declaration("job", "daily")])
    over = claim_of("a", -60)
    won(backend, replace(over, lease=0.001))
    takeover = replace(over, token="b", mode="takeover")
    new = claim_of("b")
    assert changes(backend, [takeover])
    assert changes(backend, [new])
    backend.pause("job", "a note")

    assert not changes(backend, [takeover])
    assert not changes(backend, [new])
    assert [answer.outcome for answer in backend.claim([takeover, new])] == ["paused", "paused"]


def win_others(backend: PostgresBackend) -> None:
    """Win runs until the server waits: from when one of its processes has read its settings."""
    for n in range(1000):
        backend.claim([claim_of("b", job=f"other-{n}")])


@pytest.mark.slow
def test_those_that_lose_are_answered_while_no_commit_is(
    server: OwnServer, backend: PostgresBackend
) -> None:
    won(backend, claim_of("a", -10))
    server.execute(
        "ALTER SYSTEM SET synchronous_standby_names = 'away'",
        "SELECT pg_reload_conf()",
    )
    try:
        with pytest.raises(BackendUnavailable, match="did not answer in time"):
            win_others(backend)
        for _ in range(5):
            assert backend.claim([claim_of("b")])[0].outcome == "overlap"
    finally:
        server.execute(
            "SET synchronous_commit = local",
            "ALTER SYSTEM RESET synchronous_standby_names",
            "SELECT pg_reload_conf()",
        )


def test_fences_that_were_lost_are_not_given_again(
    server: OwnServer, backend: PostgresBackend
) -> None:
    known = won(backend, claim_of("a", job="before"))
    lost = [won(backend, claim_of("a", job=f"lost-{n}")) for n in range(3)]
    server.stop()
    server.start()
    fences = f"{backend._schema}.fences"
    server.execute(f"SELECT setval('{fences}', {known})")  # as a replica that was behind

    with pytest.raises(BackendUnavailable):
        backend.unfinished(["job"])
    given = [won(backend, claim_of("a", job=f"after-{n}")) for n in range(3)]

    assert given[0] > max(lost)
    assert given == [given[0], given[0] + 1, given[0] + 2]  # it was passed once


def test_whoever_claims_while_fences_are_passed_waits_for_that(
    server: OwnServer, backend: PostgresBackend
) -> None:
    won(backend, claim_of("a", job="before"))
    server.execute(f"UPDATE {backend._schema}.meta SET value = 1 WHERE key = 'server_started'")
    fences: queue.SimpleQueue[int] = queue.SimpleQueue()

    def rival() -> None:
        while fences.empty():
            with suppress(BackendUnavailable):  # on a busy machine it may wait for too long
                fences.put(won(backend, claim_of("b", job="second")))

    with psycopg.connect(backend.address.conninfo) as first:
        found = first.execute(*call_of(backend, [claim_of("a", job="first")])).fetchone()
        assert found is not None
        [passed] = found[0][2]
        other = threading.Thread(target=rival)
        other.start()
        with psycopg.connect(backend.address.conninfo, autocommit=True) as looker:
            while not looker.execute(WAITING).fetchall():
                pass
        first.commit()
    other.join()

    assert fences.get() == passed + 1
