"""What claims cost in a SQLite store, and what they see that others wrote meanwhile."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from contract.driver import JOB, LEASE, Driver, a_claim, at

from leasecron.backends.rows import Keys, Moment
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.claims import Reading, read_claims
from leasecron.model import Claim, ClaimAnswer, Declaration, NewRun, Retention

MANY = 64
"""Claims of one call, which one statement holds."""


def statements(store: Driver, call: Callable[[], object]) -> list[str]:
    assert isinstance(store.backend, SqliteBackend)
    link = store.backend._store._link
    assert link is not None
    noted: list[str] = []
    link.connection.set_trace_callback(noted.append)
    call()
    link.connection.set_trace_callback(None)
    return noted


def tables(noted: list[str]) -> list[str]:
    """Return the tables of each statement that reads or writes any."""
    found = (re.findall(r"\b(?:JOIN|INTO|UPDATE|FROM) (runs|jobs)\b", text) for text in noted)
    return ["".join(names) for names in found if names]


def claims_of_many(token: str, **fields: object) -> list[Claim]:
    return [a_claim(0, f"{token}{n}", job=f"job-{n}", **fields) for n in range(MANY)]


def read_and_then(write: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``write`` done between the next claim's read and its transaction."""

    def read_first(
        connection: sqlite3.Connection, moment: Moment, claims: Sequence[Claim], keys: Keys
    ) -> Reading:
        found = read_claims(connection, moment, claims, keys)
        monkeypatch.undo()
        write()
        return found

    monkeypatch.setattr("leasecron.backends.sqlite.backend.read_claims", read_first)


@pytest.mark.parametrize("state", ["running", "done"])
def test_claims_that_are_lost_cost_one_look_at_the_runs(store: Driver, state: str) -> None:
    store.backend.claim(claims_of_many("a"))
    if state == "done":
        for n in range(MANY):
            store.finish(0, f"a{n}", job=f"job-{n}")
    answers: list[ClaimAnswer] = []
    claims = claims_of_many("b")

    noted = statements(store, lambda: answers.extend(store.backend.claim(claims)))

    assert {answer.outcome for answer in answers} == {state}
    assert tables(noted) == ["runs"]
    assert [text for text in noted if text.startswith("BEGIN")] == ["BEGIN"]


def test_only_what_must_be_looked_at_more_closely_is_loaded(store: Driver) -> None:
    store.win(0, "a", job="over")
    store.win(10, "a", job="over", overlap="allow")
    store.clock.advance(LEASE)
    store.win(20, "a", job="over", overlap="allow")
    store.backend.claim(claims_of_many("a"))
    claims = [*claims_of_many("b"), a_claim(30, "b", job="over")]
    answers: list[ClaimAnswer] = []

    noted = statements(store, lambda: answers.extend(store.backend.claim(claims)))

    assert answers[-1] == ClaimAnswer("overlap", holder="instance-a", other=at(20))
    assert tables(noted) == ["runs", "runs", "runs", "jobs"]  # by 64 and 1 claims, and the job's
    assert "job-1" not in " ".join(noted[-4:])


def test_what_a_read_has_answered_is_not_asked_under_the_write_lock(store: Driver) -> None:
    store.backend.claim(claims_of_many("a"))
    free = a_claim(0, "b", job="free")

    noted = statements(store, lambda: store.backend.claim([*claims_of_many("b"), free]))

    writing = noted[noted.index("BEGIN IMMEDIATE") :]
    assert "job-1" not in " ".join(writing)
    assert "free" in " ".join(writing)


def test_claims_are_decided_by_what_another_wrote_after_the_read(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.win(0, "a", job="over")
    store.clock.advance(LEASE)
    other = Driver(SqliteBackend(path), store.clock)
    other.backend.open(store.clock)

    def write() -> None:
        other.take_over(0, "b", job="over")
        other.win(0, "b", job="free")

    read_and_then(write, monkeypatch)
    answers = store.backend.claim([a_claim(0, "c", job=job) for job in ("over", "free")])

    assert [answer.holder for answer in answers] == ["instance-b", "instance-b"]
    assert [answer.outcome for answer in answers] == ["running", "running"]
    other.backend.close()


def a_run(slot: float, job: str = JOB, *, done: bool = False) -> Callable[[Driver], object]:
    """Return what claims a run; whether it wins is not what matters."""

    def write(store: Driver) -> None:
        store.claim(slot, "b", job=job, overlap="allow")
        if done:
            store.finish(slot, "b", job=job)

    return write


def asked_for(slot: float, *, done: bool = False) -> Callable[[Driver], object]:
    """Return what asks for a run."""

    def write(store: Driver) -> None:
        store.backend.add_runs([NewRun(JOB, at(slot), "asker")])
        if done:
            store.take_over(slot, "b", overlap="allow")
            store.finish(slot, "b")

    return write


def a_pause(*, ended: bool = False) -> Callable[[Driver], object]:
    """Return what pauses the job, by a clock that is behind."""

    def write(store: Driver) -> None:
        store.backend.declare([Declaration(JOB, "daily")])
        with store.clock.seen_by(wall=-15.0):
            store.backend.pause(JOB, "")
        if ended:
            store.backend.resume(JOB)

    return write


WRITES = {
    "another job's run": a_run(10, "other"),
    "this run": a_run(10),
    "this run, done": a_run(10, done=True),
    "an older run": a_run(0),
    "an older run, done": a_run(0, done=True),
    "a newer run": a_run(20),
    "a newer run, done": a_run(20, done=True),
    "a run asked for, here": asked_for(10),
    "a run asked for, here, done": asked_for(10, done=True),
    "a run asked for": asked_for(5),
    "a run asked for, done": asked_for(5, done=True),
    "a pause": a_pause(),
    "a pause that ended": a_pause(ended=True),
}


@pytest.mark.parametrize("overlap", ["skip", "allow", "queue"])
@pytest.mark.parametrize("before", [None, "an older run, done", "a newer run", "a pause"])
@pytest.mark.parametrize("between", WRITES)
def test_what_another_wrote_after_the_read_counts_in_whatever_takes_the_lock(
    store: Driver,
    path: Path,
    tmp_path: Path,
    before: str | None,
    between: str,
    overlap: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earlier, later = (Driver(SqliteBackend(tmp_path / name), store.clock) for name in ("e", "l"))
    other = Driver(SqliteBackend(path), store.clock)
    for each in (earlier, later, other):
        each.backend.open(store.clock)
    store.clock.advance(20)
    for each in (store, earlier, later):
        if before is not None:
            WRITES[before](each)
    WRITES[between](later)
    read_and_then(lambda: WRITES[between](other), monkeypatch)

    answers = [each.claim(10, "c", overlap=overlap) for each in (store, earlier, later)]

    # A loser may be told how it was when he looked.
    at_the_read = answers[0] == answers[1] and answers[0].outcome != "won"
    assert at_the_read or answers[0] == answers[2]
    for each in (earlier, later, other):
        each.backend.close()


def test_a_late_end_of_an_older_run_that_comes_after_the_read_stands(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)
    other = Driver(SqliteBackend(path), store.clock)
    other.backend.open(store.clock)
    read_and_then(lambda: other.finish(0, "a"), monkeypatch)

    answer = store.claim(10, "c")

    assert (answer.outcome, answer.closed) == ("won", ())
    assert other.claim(0, "d").outcome == "done"
    assert store.backend.history() == []
    other.backend.close()


def test_slots_of_one_call_wait_no_longer_for_a_newer_one_that_was_done_after_the_read(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.clock.advance(20)
    other = Driver(SqliteBackend(path), store.clock)
    other.backend.open(store.clock)
    read_and_then(lambda: a_run(20, done=True)(other), monkeypatch)

    answers = store.backend.claim([a_claim(slot, f"t{slot}", overlap="queue") for slot in (0, 10)])

    assert [answer.outcome for answer in answers] == ["won", "done"]
    other.backend.close()


def test_a_prune_that_comes_after_the_read_is_seen(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Driver(SqliteBackend(path), store.clock)
    other.backend.open(store.clock)

    def claim_and_prune() -> None:
        for slot in (10, 20):
            other.win(slot, "b", max_late=1e9)
            other.finish(slot, "b")
        other.clock.advance(LEASE + 100)
        other.backend.prune([Retention(JOB, 0.0, 0, 0.0)])

    read_and_then(claim_and_prune, monkeypatch)

    assert store.claim(10, "c", max_late=1e9).outcome == "done"
    other.backend.close()


def test_leases_are_judged_by_the_clock_that_is_read_under_the_lock(
    store: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.win(0, "a")
    read_and_then(lambda: store.clock.advance(LEASE), monkeypatch)

    answers = store.backend.claim([a_claim(10, "c"), a_claim(20, "d", overlap="allow")])

    assert answers[0].outcome == "won"


def test_what_had_nothing_to_be_loaded_is_not_loaded_again_since_somebody_wrote(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Driver(SqliteBackend(path), store.clock)
    other.backend.open(store.clock)
    read_and_then(lambda: other.win(0, "b", job="other"), monkeypatch)

    noted = statements(store, lambda: store.backend.claim(claims_of_many("a")))

    writing = noted[noted.index("BEGIN IMMEDIATE") :]
    assert len([text for text in writing if "WITH asked" in text]) == 1
    other.backend.close()


def test_pauses_cost_nothing_until_a_claim_is_of_a_slot_that_one_may_hold(store: Driver) -> None:
    store.backend.declare([Declaration(f"job-{n}", "daily") for n in range(MANY)])
    plain = statements(store, lambda: store.backend.claim(claims_of_many("a", overlap="allow")))
    for n in range(MANY):
        store.backend.pause(f"job-{n}", "")
        store.backend.resume(f"job-{n}")
    claims = [a_claim(1, f"b{n}", job=f"job-{n}", overlap="allow") for n in range(MANY)]

    noted = statements(store, lambda: store.backend.claim(claims))

    assert "pauses" not in " ".join(noted)
    assert len(noted) == len(plain)
    old = [a_claim(-1, f"c{n}", job=f"job-{n}", overlap="allow") for n in range(MANY)]
    noted = statements(store, lambda: store.backend.claim(old))
    assert sum("pauses" in text for text in noted) == 1


def test_what_is_no_new_run_leaves_the_newest_slot_alone(store: Driver) -> None:
    store.win(0, "a")
    store.release(0, "a")

    noted = statements(store, lambda: store.take_over(0, "b"))

    assert "INSERT INTO jobs" not in " ".join(noted)
    assert store.heartbeat(0, "b") == "ok"
