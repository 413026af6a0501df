"""Pauses, ends and runs that are asked for in SQLite: clocks that disagree, and whole batches."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from contract.driver import JOB, LEASE, Driver, a_claim, at

from leasecron.model import Declaration, Ending, NewRun, Pause


def declared(store: Driver) -> Driver:
    store.backend.declare([Declaration(JOB, "daily")])
    return store


def test_a_pause_that_a_clock_ends_that_is_behind_ends_where_it_began(store: Driver) -> None:
    declared(store).backend.pause(JOB, "")
    store.clock.step(-5)
    store.backend.resume(JOB)

    assert store.backend.pauses(JOB) == [Pause(JOB, at(0), at(0), "")]
    assert store.claim(0, "a").outcome == "paused"
    assert store.claim(0.001, "a").outcome == "won"


def test_by_a_clock_that_is_behind_the_newest_pause_goes_on(store: Driver) -> None:
    declared(store)
    for note in ("first", "second"):
        store.backend.pause(JOB, note)
        store.clock.advance(5)
        store.backend.resume(JOB)
        store.clock.advance(5)
    store.clock.step(-18)

    assert store.backend.pause(JOB, "third")

    assert store.backend.pauses(JOB) == [
        Pause(JOB, at(10), None, "third"),
        Pause(JOB, at(0), at(5), "first"),
    ]


def test_a_note_may_hold_what_is_no_valid_text(store: Driver) -> None:
    declared(store).win(0, "a")
    ending = Ending(JOB, at(0), "a", "failed", pause="no such file: \udcff\0")

    assert store.backend.finish([ending]) == [True]

    assert [pause.note for pause in store.backend.pauses(JOB)] == ["no such file: ?\0"]


def test_of_runs_that_end_together_some_pause_their_jobs(store: Driver) -> None:
    jobs = ("one", "two", "three")
    store.backend.claim([a_claim(0, job, job=job) for job in jobs])
    notes = (None, "it failed", None)

    answers = store.backend.finish(
        [
            Ending(job, at(0), job, "failed", pause=note)
            for job, note in zip(jobs, notes, strict=True)
        ]
    )

    assert answers == [True, True, True]
    found = store.backend.claim([a_claim(10, "b", job=job) for job in jobs])
    assert [answer.outcome for answer in found] == ["won", "paused", "won"]


def test_a_job_that_a_claim_pauses_is_paused_to_the_next_claim_of_the_call(store: Driver) -> None:
    declared(store).win(0, "a")
    store.clock.advance(LEASE)
    used_up = a_claim(0, "b", mode="takeover", max_attempts=1, pause_on_failure=True)

    answers = store.backend.claim([used_up, a_claim(20, "c"), a_claim(0, "d", job="other")])

    assert [answer.outcome for answer in answers] == ["done", "paused", "won"]


def test_a_job_that_is_paused_twice_in_one_call_has_one_pause(store: Driver) -> None:
    declared(store)
    for slot, token in ((0, "a"), (10, "b")):
        store.win(slot, token, overlap="allow")

    store.backend.finish(
        [
            Ending(JOB, at(slot), token, "failed", pause=token)
            for slot, token in ((0, "a"), (10, "b"))
        ]
    )

    assert store.backend.pauses(JOB) == [Pause(JOB, at(0), None, "a")]


def test_a_run_that_one_call_asks_for_twice_is_one_run(store: Driver) -> None:
    run = NewRun(JOB, at(0.5), "asker")

    assert store.backend.add_runs([run, run]) == [True, True]

    assert len(store.backend.asked_for()) == 1
    assert store.backend.withdraw([run, run]) == [True, False]


def test_a_finish_of_a_run_that_was_released_leaves_when_its_lease_ended(
    store: Driver, path: Path
) -> None:
    def ended() -> int:
        with closing(sqlite3.connect(path)) as connection:
            (found,) = connection.execute("SELECT lease_until FROM runs").fetchone()
        return int(found)

    store.win(0, "a")
    store.release(0, "a")
    released = ended()
    store.clock.step(-5)
    assert store.finish(0, "a")
    assert ended() == released
