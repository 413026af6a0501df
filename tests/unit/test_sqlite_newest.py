"""The newest slot of each job, which the tables of a SQLite store note by themselves."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from contract.driver import JOB, LEASE, Driver, a_claim, at
from contract.hand_clock import START

from leasecron.model import Declaration, NewRun


def newest(path: Path) -> dict[str, int | None]:
    """Return the newest slots that the store notes, in seconds after the start."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name, newest FROM jobs").fetchall()
    return {name: None if slot is None else round(slot / 1000 - START) for name, slot in found}


def test_the_newest_slot_of_a_job_is_noted(store: Driver, path: Path) -> None:
    store.backend.declare([Declaration(JOB, "daily"), Declaration("idle", "daily")])
    claims = [a_claim(slot, f"t{slot}", overlap="allow", max_late=1e9) for slot in (10, 30, 20)]
    store.backend.claim([*claims, a_claim(5, "a", job="undeclared")])
    assert newest(path) == {JOB: 30, "idle": None, "undeclared": 5}

    store.win(0, "b", overlap="allow", max_late=1e9)
    assert newest(path)[JOB] == 30
    store.win(40, "b", overlap="allow")
    assert newest(path)[JOB] == 40


def test_a_run_that_is_no_slot_of_the_schedule_is_none_of_the_newest(
    store: Driver, path: Path
) -> None:
    store.win(0, "a")
    store.backend.add_runs([NewRun(JOB, at(5.5), "asker")])
    store.take_over(5.5, "b", overlap="allow")
    assert newest(path) == {JOB: 0}


def test_a_slot_that_waits_is_the_newest_once_it_is_begun(store: Driver, path: Path) -> None:
    store.win(0, "a", overlap="queue")
    store.claim(10, "b", overlap="queue")
    assert newest(path) == {JOB: 0}

    store.finish(0, "a")
    store.take_over(10, "b", overlap="queue")
    assert newest(path) == {JOB: 10}


def test_an_undeclared_job_is_seen_first_when_it_was_claimed(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(60)

    assert store.backend.declare([Declaration(JOB, "daily")]) == [at(0)]


def test_after_a_clock_that_was_ahead_a_run_that_was_asked_for_replaces_nothing(
    store: Driver,
) -> None:
    with store.clock.seen_by(wall=100.0):
        store.win(100, "ahead")
        store.finish(100, "ahead")
    store.win(0, "a")
    store.clock.advance(LEASE)
    store.backend.add_runs([NewRun(JOB, at(5.5), "asker")])
    store.take_over(5.5, "b", overlap="allow")
    store.finish(5.5, "b")

    answer = store.take_over(0, "c")

    assert (answer.outcome, answer.attempt) == ("won", 2)
