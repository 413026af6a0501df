"""Runs that are asked for in PostgreSQL: who is told, and what another store hands over of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from contract.driver import a_claim
from contract.hand_clock import START
from postgres_support import Hearer
from support.stores import PostgresView

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.rows import LEASE_ENDED, RunRow
from leasecron.backends.transfer import Page
from leasecron.model import Declaration, NewRun, Pause, RunResult, from_ms, from_seconds


@pytest.fixture
def view() -> Iterator[PostgresView]:
    view = PostgresView()
    yield view
    view.drop()


@pytest.fixture
def backends(view: PostgresView) -> Iterator[list[PostgresBackend]]:
    made = [PostgresBackend(view.url) for _ in range(2)]
    for backend in made:
        backend.open()
    yield made
    for backend in made:
        backend.close()


def a_run(job: str = "job") -> NewRun:
    return NewRun(job, from_seconds(time.time()), "asker")


def test_others_and_who_shares_the_store_are_told_once(backends: list[PostgresBackend]) -> None:
    asker, other = backends
    run = a_run("ü with a space")
    near, far = Hearer(asker), Hearer(other)

    assert asker.add_runs([run]) == [True]

    assert near.found == [(run.job, run.slot)]
    far.wait()
    asker.pass_on()
    assert near.found == far.found == [(run.job, run.slot)]


def test_nobody_is_told_of_what_was_not_put_in(backends: list[PostgresBackend]) -> None:
    asker, other = backends
    run = a_run()
    begun = a_claim(round(time.time(), 3) - START, "a", job="begun")
    asker.claim([begun])
    near, far = Hearer(asker), Hearer(other)

    assert asker.add_runs([NewRun("begun", begun.slot, "asker"), run]) == [False, True]

    far.wait()
    assert near.found == far.found == [(run.job, run.slot)]


def test_a_batch_may_name_a_run_twice(backends: list[PostgresBackend]) -> None:
    asker, _other = backends
    run = a_run()

    assert asker.add_runs([run, run]) == [True, True]
    assert len(asker.asked_for()) == 1
    assert asker.withdraw([run, run, a_run("unknown")]) == [True, False, False]
    assert asker.withdraw([]) == []


def test_a_run_is_not_told_with_the_record_of_another_store(
    backends: list[PostgresBackend], view: PostgresView
) -> None:
    """Of two sources that were copied, a fence may belong to the record of another run."""
    backend, _other = backends
    claim = a_claim(round(time.time(), 3) - START, "a")
    (won,) = backend.claim([claim])
    with psycopg.connect(backend.address.conninfo, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {view.schema}.results VALUES"
            " (%s, 'job', 1, 1, 'one', 'scheduled', 'failed', 1, 2)".encode(),
            [won.fence],
        )

    state = backend.run_state("job", claim.slot)

    assert state is not None
    assert (state.state, state.result) == ("running", None)


def test_those_that_are_asked_for_are_found_by_their_index(
    backends: list[PostgresBackend], view: PostgresView
) -> None:
    with psycopg.connect(backends[0].address.conninfo) as connection:
        connection.execute("SET LOCAL enable_seqscan = off")
        plan = connection.execute(
            f"EXPLAIN SELECT FROM {view.schema}.runs AS r"
            " WHERE r.origin <> 'scheduled' AND r.state IN ('claimed', 'released')".encode()
        ).fetchall()

    assert "runs_asked_for" in str(plan)


ROW = RunRow(
    job="job",
    slot=5,
    state="released",
    token="t",
    attempt=1,
    lost=0,
    fence=9,
    released_fence=9,
    instance="one",
    trigger="manual",
    claimed_at=6,
    lease_until=7,
    boot=LEASE_ENDED,
    lease_mono=0,
    retries=2,
    origin="manual",
    cancelled=True,
)
RECORD = RunResult(
    "job", from_ms(5), 1, 9, "one", "manual", "failed", from_ms(6), from_ms(8), 0.002, "no", 2
)
OVER = Pause("job", from_ms(10), from_ms(20), "was \0 over")
LASTS = Pause("job", from_ms(30), None, "lasts")


def test_what_another_store_hands_over_is_kept_whole(
    backends: list[PostgresBackend], view: PostgresView
) -> None:
    backend, _other = backends
    backend.declare([Declaration("job", "daily")])
    page = Page(runs=[ROW], results=[RECORD], pauses=[OVER, LASTS])

    for new in (1, 0):
        taken = backend.absorb(page)
        assert (taken.runs, taken.results, taken.clashing) == (new, new, 0)

    (row,) = view.runs("job")
    assert (row["retries"], row["origin"], row["cancelled"]) == (2, "manual", True)
    assert row["lease_ended"]
    assert backend.history() == [RECORD]
    assert backend.pauses("job") == [LASTS, OVER]
    claim = a_claim(round(time.time(), 3) - START, "a")
    assert backend.claim([claim])[0].outcome == "paused"
    backend.resume("job")
    backend.absorb(page)
    assert backend.pauses("job")[0].resumed_at is not None
    assert backend.claim([replace(claim, slot=from_seconds(time.time()))])[0].outcome == "won"


def test_the_slots_of_a_pause_that_was_handed_over_are_not_caught_up(
    backends: list[PostgresBackend],
) -> None:
    backend, _other = backends
    now = round(time.time() * 1000)
    backend.absorb(Page(pauses=[Pause("job", from_ms(now - 2000), from_ms(now - 1000), "")]))

    claims = [a_claim(now / 1000 - back - START, "a", overlap="allow") for back in (2.5, 1.5, 0.5)]

    assert [answer.outcome for answer in backend.claim(claims)] == ["won", "paused", "won"]
