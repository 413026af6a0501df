"""A job that is paused: no claim of it wins, whoever makes it."""

from __future__ import annotations

from contract.driver import JOB, LEASE, Driver, at
from leasecron.model import ClaimAnswer, Declaration, Ending, NewRun, Pause, Retention, from_seconds

PAUSED = ClaimAnswer("paused")


def declared(store: Driver) -> Driver:
    store.backend.declare([Declaration(JOB, "every 10 s")])
    return store


def test_a_job_that_is_paused_wins_nothing(store: Driver) -> None:
    declared(store).win(0, "a")
    assert store.backend.pause(JOB, "a note")

    assert store.claim(10, "b", overlap="allow") == PAUSED
    assert store.claim(-10, "b", overlap="allow") == PAUSED
    store.clock.advance(LEASE)
    assert store.take_over(0, "b") == PAUSED
    assert store.claim(0, "b", job="other").outcome == "won"


def test_a_live_run_is_left_alone(store: Driver) -> None:
    declared(store)
    first = store.claim(0, "a")
    store.backend.pause(JOB, "")

    assert store.claim(0, "a") == first
    assert store.heartbeat(0, "a") == "ok"
    assert store.claim(0, "b").outcome == "running"
    assert store.finish(0, "a")
    assert store.claim(0, "b").outcome == "done"


def test_a_takeover_goes_on_after_the_pause(store: Driver) -> None:
    declared(store).win(0, "a")
    store.backend.pause(JOB, "")
    store.clock.advance(LEASE)
    store.take_over(0, "b")
    assert store.backend.resume(JOB)

    answer = store.take_over(0, "b")

    assert (answer.outcome, answer.attempt) == ("won", 2)


def test_the_slots_of_a_pause_are_not_caught_up_after_it(store: Driver) -> None:
    declared(store).clock.advance(10)
    store.backend.pause(JOB, "")
    store.clock.advance(10)
    store.backend.resume(JOB)
    store.clock.advance(1)

    assert store.claim(10, "b") == PAUSED
    assert store.claim(15, "b") == PAUSED
    assert store.claim(20, "b") == PAUSED
    assert store.claim(9, "b").outcome == "won"
    store.finish(9, "b")
    assert store.claim(20.001, "c").outcome == "won"


def test_a_paused_slot_is_none_to_a_backup_and_never_late(store: Driver) -> None:
    declared(store).backend.pause(JOB, "")
    store.clock.advance(1000)

    assert store.claim(0, "b", max_late=1.0) == PAUSED
    assert store.take_over(0, "b").outcome == "none"


def test_each_of_several_pauses_counts(store: Driver) -> None:
    declared(store)
    for _ in range(2):
        store.clock.advance(10)
        store.backend.pause(JOB, "")
        store.clock.advance(10)
        store.backend.resume(JOB)

    assert store.claim(15, "a") == PAUSED
    assert store.claim(35, "a") == PAUSED
    assert store.claim(25, "a").outcome == "won"


def test_a_paused_job_keeps_its_pause_as_it_is(store: Driver) -> None:
    declared(store).backend.pause(JOB, "first")
    store.clock.advance(5)
    store.backend.pause(JOB, "second")

    assert store.backend.pauses(JOB) == [Pause(JOB, at(0), None, "first")]
    (job,) = store.backend.jobs()
    assert (job.paused_at, job.note) == (at(0), "first")


def test_pauses_are_told_newest_first_and_with_their_end(store: Driver) -> None:
    declared(store).backend.pause(JOB, "first")
    store.clock.advance(5)
    store.backend.resume(JOB)
    store.clock.advance(5)
    store.backend.pause(JOB, "sécond \x1b[31m")

    assert store.backend.pauses(JOB) == [
        Pause(JOB, at(10), None, "sécond \x1b[31m"),
        Pause(JOB, at(0), at(5), "first"),
    ]


def test_a_pause_in_the_moment_in_which_one_ended_goes_on_with_that_one(store: Driver) -> None:
    declared(store).backend.pause(JOB, "first")
    store.clock.advance(5)
    store.backend.resume(JOB)
    store.backend.pause(JOB, "second")

    assert store.backend.pauses(JOB) == [Pause(JOB, at(0), None, "second")]
    assert store.claim(0, "a") == PAUSED


def test_what_is_not_paused_can_be_resumed_all_the_same(store: Driver) -> None:
    declared(store)

    assert store.backend.resume(JOB)
    assert store.backend.pauses(JOB) == []
    assert store.claim(0, "a").outcome == "won"


def test_a_job_that_nobody_knows_is_not_paused(store: Driver) -> None:
    assert not store.backend.pause("unknown", "")
    assert not store.backend.resume("unknown")
    assert store.backend.jobs() == []
    assert store.claim(0, "a", job="unknown").outcome == "won"


def test_a_run_that_fails_for_good_pauses_its_job_in_the_same_step(store: Driver) -> None:
    declared(store).win(0, "a")
    store.clock.advance(1)
    ending = Ending(JOB, at(0), "a", "failed", pause="it failed")

    assert store.backend.finish([ending]) == [True]

    assert store.claim(1, "b") == PAUSED
    assert store.backend.pauses(JOB) == [Pause(JOB, at(1), None, "it failed")]
    store.clock.advance(1)
    store.backend.resume(JOB)
    assert store.backend.finish([ending]) == [True]
    assert store.claim(10, "b").outcome == "won"


def test_of_runs_that_fail_in_one_call_the_first_says_why_their_job_is_paused(
    store: Driver,
) -> None:
    declared(store)
    slots = (0, 10)
    for slot in slots:
        store.win(slot, f"t{slot}", overlap="allow")
    endings = [Ending(JOB, at(slot), f"t{slot}", "failed", pause=f"{slot}") for slot in slots]

    assert store.backend.finish(endings) == [True, True]

    assert [pause.note for pause in store.backend.pauses(JOB)] == ["0"]


def test_what_succeeds_or_is_anothers_pauses_nothing(store: Driver) -> None:
    declared(store).win(0, "a")
    stale = Ending(JOB, at(0), "x", "failed", pause="it failed")
    good = Ending(JOB, at(0), "a", "success", pause="it failed")

    assert store.backend.finish([stale, good]) == [False, True]

    assert store.backend.pauses(JOB) == []


def test_attempts_that_are_used_up_pause_their_job_in_the_same_step(store: Driver) -> None:
    declared(store).win(0, "a")
    store.clock.advance(LEASE)

    answer = store.take_over(0, "b", max_attempts=1, pause_on_failure=True)

    assert answer.abandoned
    assert store.claim(LEASE, "c") == PAUSED
    (pause,) = store.backend.pauses(JOB)
    assert pause.note


def test_attempts_that_are_used_up_pause_nothing_else(store: Driver) -> None:
    declared(store).win(0, "a")
    store.clock.advance(LEASE)

    assert store.take_over(0, "b", max_attempts=1).abandoned

    assert store.claim(LEASE, "c").outcome == "won"


def test_a_run_that_waits_is_not_begun_in_a_pause(store: Driver) -> None:
    declared(store).backend.add_runs([NewRun(JOB, at(0.5), "x")])
    store.backend.pause(JOB, "")

    assert store.take_over(0.5, "a") == PAUSED
    store.backend.resume(JOB)
    assert store.take_over(0.5, "a").outcome == "won"


def test_a_pause_is_kept_as_long_as_a_slot_in_it_could_be_claimed(store: Driver) -> None:
    declared(store).backend.pause(JOB, "first")
    store.clock.advance(5)
    store.backend.resume(JOB)
    retention = Retention(JOB, runs=1000.0, records=10, age=100.0)
    store.clock.advance(1000)
    while store.backend.prune([retention]):
        pass
    assert len(store.backend.pauses(JOB)) == 1
    store.clock.advance(0.001)
    while store.backend.prune([retention]):
        pass

    assert store.backend.pauses(JOB) == []


def test_a_pause_that_lasts_is_never_pruned(store: Driver) -> None:
    declared(store).backend.pause(JOB, "first")
    store.clock.advance(100_000)
    while store.backend.prune([Retention(JOB, runs=1000.0, records=10, age=100.0)]):
        pass

    assert store.claim(100_000, "a") == PAUSED


def test_the_jobs_of_a_store_are_told_by_name(store: Driver) -> None:
    store.backend.declare([Declaration("b", "every 10 s"), Declaration("a", "every 5 s")])
    store.clock.advance(60)
    store.backend.declare([Declaration("b", "every 20 s")])

    first, second = store.backend.jobs()

    assert (first.name, first.schedule, first.first_seen) == ("a", "every 5 s", at(0))
    assert (second.name, second.schedule) == ("b", "every 20 s")
    assert (second.first_seen, second.last_seen) == (at(0), from_seconds(store.clock.now))
    assert (second.paused_at, second.note) == (None, None)
