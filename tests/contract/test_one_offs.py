"""A job that runs once: its instant is the one that was given first."""

from __future__ import annotations

from contract.driver import JOB, Driver, at
from leasecron.model import Declaration, OneOff


def test_the_first_instant_counts(store: Driver) -> None:
    assert store.backend.fix([OneOff(JOB, at(10))]) == [at(10)]
    assert store.backend.fix([OneOff(JOB, at(20)), OneOff("other", at(30))]) == [at(10), at(30)]
    assert store.backend.fix([OneOff(JOB, at(5))]) == [at(10)]
    assert store.backend.fix([]) == []


def test_of_two_instants_in_one_call_the_first_counts(store: Driver) -> None:
    assert store.backend.fix([OneOff(JOB, at(20)), OneOff(JOB, at(10))]) == [at(20), at(20)]


def test_an_instant_is_kept_beside_what_else_is_known_of_a_job(store: Driver) -> None:
    store.backend.declare([Declaration(JOB, "once")])
    store.backend.fix([OneOff(JOB, at(10))])
    store.win(10, "a")
    store.finish(10, "a")
    store.backend.declare([Declaration(JOB, "once, said otherwise")])

    assert store.backend.fix([OneOff(JOB, at(99))]) == [at(10)]
    (job,) = store.backend.jobs()
    assert (job.schedule, job.first_seen) == ("once, said otherwise", at(0))
    assert store.claim(10, "b").outcome == "done"


def test_an_instant_before_the_epoch_is_kept(store: Driver) -> None:
    assert store.backend.fix([OneOff(JOB, at(-4e9))]) == [at(-4e9)]
