"""What a call costs: which lock it takes, and how many transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from contract.driver import JOB, LEASE, Driver, a_claim, at
from contract.hand_clock import HandClock

from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.turnstile import Turnstile
from leasecron.model import Declaration, Ending, LeaseRef, NewRun, Retention, Retry


class Traced(Driver):
    """A store that notes the statements of a call."""

    def statements(self, call: Callable[[], object], noted: list[str] | None = None) -> list[str]:
        """Return the statements of a call, among what else is noted meanwhile."""
        assert isinstance(self.backend, SqliteBackend)
        noted = [] if noted is None else noted
        link = self.backend._store._link
        assert link is not None
        link.connection.set_trace_callback(noted.append)
        call()
        link.connection.set_trace_callback(None)
        return [" ".join(statement.split()) for statement in noted]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Traced]:
    backend = SqliteBackend(tmp_path / "store.db", durability="normal")
    clock = HandClock()
    backend.open(clock)
    yield Traced(backend, clock)
    backend.close()


def transactions(statements: list[str]) -> list[str]:
    kinds = ("BEGIN", "COMMIT", "ROLLBACK")
    return [statement for statement in statements if statement.startswith(kinds)]


READ = ["BEGIN", "COMMIT"]
WRITE = ["BEGIN IMMEDIATE", "COMMIT"]


def test_a_claim_that_changes_nothing_takes_no_write_lock(store: Traced) -> None:
    store.win(0, "a")
    store.win(0, "b", job="done")
    store.finish(0, "b", job="done")
    store.backend.declare([Declaration("paused", "daily")])
    store.backend.pause("paused", "")
    answers = []

    def claim() -> None:
        answers.extend(
            store.backend.claim(
                [
                    a_claim(0, "c"),
                    a_claim(10, "d"),
                    a_claim(-10, "e", max_late=5.0),
                    a_claim(5, "f", mode="takeover"),
                    a_claim(0, "g", job="done"),
                    a_claim(0, "h", job="paused"),
                ]
            )
        )

    assert transactions(store.statements(claim)) == READ
    assert [answer.outcome for answer in answers] == [
        "running",
        "overlap",
        "late",
        "none",
        "done",
        "paused",
    ]


def test_a_batch_that_changes_something_is_one_transaction_after_one_read(store: Traced) -> None:
    claims = [a_claim(0, "a", job=f"job-{number}") for number in range(100)]

    statements = store.statements(lambda: store.backend.claim(claims))

    assert transactions(statements) == READ + WRITE


def test_every_write_is_in_a_transaction_that_began_as_one(store: Traced) -> None:
    backend = store.backend

    def everything() -> None:
        backend.declare([Declaration(JOB, "daily")])
        for slot in (0, 10, 20):
            fence = store.win(slot, "a", max_late=1e9)
            backend.heartbeat([LeaseRef(JOB, at(slot), "a", LEASE)])
            backend.retry([Retry(JOB, at(slot), "a", 1)])
            backend.release([Ending(JOB, at(slot), "a", "interrupted")])
            backend.finish([Ending(JOB, at(slot), "a", "success")])
            store.save(slot, fence)
            store.clock.advance(1000)
        backend.add_runs([NewRun(JOB, at(slot), "asker") for slot in (0.5, 1.5)])
        backend.withdraw([NewRun(JOB, at(1.5), "asker")])
        backend.unfinished([JOB])
        backend.history(JOB)
        backend.pause(JOB, "")
        backend.resume(JOB)
        backend.prune([Retention(JOB, 0.0, 0, 0.0)])

    statements = store.statements(everything)

    began = ""
    writes = 0
    for statement in statements:
        if statement.startswith("BEGIN"):
            began = statement
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            writes += 1
            assert began == "BEGIN IMMEDIATE", statement
    assert writes > 10


@pytest.mark.parametrize("call", ["heartbeat", "finish", "release"])
def test_a_batch_of_holders_is_one_transaction(store: Traced, call: str) -> None:
    claims = [a_claim(0, "a", job=f"job-{number}") for number in range(100)]
    store.backend.claim(claims)
    items = [
        LeaseRef(claim.job, claim.slot, "a", LEASE)
        if call == "heartbeat"
        else Ending(claim.job, claim.slot, "a", "success")
        for claim in claims
    ]

    statements = store.statements(lambda: getattr(store.backend, call)(items))

    assert transactions(statements) == WRITE


def test_a_write_has_its_turn_around_its_transaction(
    store: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []

    def enter(_turnstile: Turnstile, _wait: float) -> bool:
        noted.append("BEGIN TURN")
        return True

    monkeypatch.setattr(Turnstile, "enter", enter)
    monkeypatch.setattr(Turnstile, "leave", lambda turnstile: noted.append("COMMIT TURN"))

    statements = store.statements(lambda: store.win(0, "a"), noted)

    assert transactions(statements) == [*READ, "BEGIN TURN", *WRITE, "COMMIT TURN"]


def test_calls_that_only_read_take_no_write_lock(store: Traced) -> None:
    store.win(0, "a")

    def read() -> None:
        store.unfinished()
        store.backend.history()
        store.backend.run_state(JOB, at(0))
        store.backend.pauses(JOB)
        store.backend.jobs()
        store.backend.prune([Retention(JOB, 1e9, 1000, 1e9)])

    assert transactions(store.statements(read)) == READ * 6


def test_to_ask_what_was_asked_for_is_one_statement_that_finds_one_row(store: Traced) -> None:
    for slot in range(100):
        store.backend.add_runs([NewRun(JOB, at(slot + 0.5), "asker")])

    statements = store.statements(lambda: store.backend.asked_for())

    assert [text.split()[0] for text in statements] == ["BEGIN", "SELECT", "COMMIT"]
    assert "json_group_array" in statements[1]


@pytest.mark.parametrize("call", ["retry", "add_runs", "withdraw"])
def test_a_batch_costs_a_few_statements(store: Traced, call: str) -> None:
    jobs = [f"job-{number}" for number in range(256)]
    claims = [a_claim(0, "a", job=job) for job in jobs]
    store.backend.claim(claims)
    items: list[Any] = [NewRun(job, at(0.5), "asker") for job in jobs]
    if call == "retry":
        items = [Retry(job, at(0), "a", 1) for job in jobs]
    elif call == "withdraw":
        store.backend.add_runs(items)
    answers: list[bool] = []

    statements = store.statements(lambda: answers.extend(getattr(store.backend, call)(items)))

    assert answers == [True] * len(jobs)
    assert transactions(statements) == WRITE
    assert len(set(statements)) < 10  # what a trigger does to a row is noted as well


def test_runs_that_fail_for_good_pause_their_jobs_in_a_few_statements(store: Traced) -> None:
    jobs = [f"job-{number}" for number in range(256)]
    store.backend.claim([a_claim(0, "a", job=job) for job in jobs])
    endings = [Ending(job, at(0), "a", "failed", pause=f"{job} failed") for job in jobs]

    statements = store.statements(lambda: store.backend.finish(endings))

    assert transactions(statements) == WRITE
    assert len(set(statements)) < 10  # what a trigger does to a row is noted as well
    assert [pause.note for job in jobs for pause in store.backend.pauses(job)] == [
        f"{job} failed" for job in jobs
    ]
