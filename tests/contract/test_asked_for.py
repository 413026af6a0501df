"""Runs that somebody asks for: put in by one, begun by another, and no slot of the schedule."""

from __future__ import annotations

from contract.driver import JOB, LEASE, Driver, at
from leasecron.model import ClaimAnswer, LeaseState, NewRun, Retention


def add(store: Driver, slot: float = 0.5) -> bool:
    (answer,) = store.backend.add_runs([NewRun(JOB, at(slot), "asker")])
    return answer


def waiting(slot: float = 0.5, attempt: int = 0, *, alive: bool = False) -> LeaseState:
    return LeaseState(JOB, at(slot), attempt, alive, "manual")


def test_a_run_that_is_asked_for_waits_for_whoever_takes_it(store: Driver) -> None:
    assert add(store)

    assert store.backend.asked_for() == [waiting()]
    assert store.unfinished() == [waiting()]
    state = store.backend.run_state(JOB, at(0.5))
    assert state is not None
    assert (state.state, state.attempt, state.instance, state.result) == (
        "waiting",
        0,
        "asker",
        None,
    )
    assert (state.fence, state.trigger, state.ended_at) == (None, "manual", None)


def test_it_is_begun_once_by_a_takeover(store: Driver) -> None:
    add(store)

    answer = store.take_over(0.5, "a")

    assert (answer.outcome, answer.attempt, answer.trigger) == ("won", 1, "manual")
    assert answer.closed == ()
    assert store.take_over(0.5, "b").outcome == "running"
    assert store.backend.asked_for() == [waiting(attempt=1, alive=True)]
    state = store.backend.run_state(JOB, at(0.5))
    assert state is not None
    assert (state.state, state.attempt, state.instance) == ("running", 1, "instance-a")


def test_its_trigger_is_told_again_where_the_answer_was_lost(store: Driver) -> None:
    add(store)
    first = store.take_over(0.5, "a")

    assert store.take_over(0.5, "a") == first
    assert first.trigger == "manual"


def test_its_second_attempt_is_a_takeover(store: Driver) -> None:
    add(store)
    store.take_over(0.5, "a")
    store.clock.advance(LEASE)

    answer = store.take_over(0.5, "b")

    assert (answer.outcome, answer.attempt, answer.trigger) == ("won", 2, None)
    assert [(lost.attempt, lost.trigger) for lost in answer.closed] == [(1, "manual")]


def test_its_end_is_told_with_its_record(store: Driver) -> None:
    add(store)
    fence = store.take_over(0.5, "a").fence
    store.finish(0.5, "a")
    state = store.backend.run_state(JOB, at(0.5))
    assert state is not None
    assert (state.state, state.result, state.has_ended) == ("success", None, True)
    assert (state.fence, state.trigger) == (fence, "manual")
    assert (state.began_at, state.ended_at) == (at(0), at(0))
    store.save(0.5, fence)

    state = store.backend.run_state(JOB, at(0.5))

    assert state is not None
    assert state.result == store.backend.history(JOB)[0]
    assert store.backend.asked_for() == []
    assert store.take_over(0.5, "b").outcome == "done"


def test_asking_again_for_the_same_run_has_no_effect(store: Driver) -> None:
    assert add(store)
    assert add(store)
    assert len(store.backend.asked_for()) == 1
    store.take_over(0.5, "a")
    assert add(store)
    store.finish(0.5, "a")
    assert add(store)

    assert store.backend.asked_for() == []


def test_what_another_one_asked_for_at_that_slot_is_another_run(store: Driver) -> None:
    both = [NewRun(JOB, at(0.5), "asker"), NewRun(JOB, at(0.5), "another")]

    assert store.backend.add_runs(both) == [True, False]
    assert store.backend.add_runs(both) == [True, False]
    store.take_over(0.5, "a")
    assert store.backend.add_runs(both) == [True, True]  # who asked for it is known no longer


def test_a_slot_that_the_schedule_has_begun_is_not_to_be_had(store: Driver) -> None:
    store.win(0.5, "a")

    assert not add(store)
    assert store.backend.asked_for() == []


def test_what_was_not_begun_can_be_withdrawn(store: Driver) -> None:
    add(store)
    run = NewRun(JOB, at(0.5), "asker")

    assert store.backend.withdraw([run]) == [True]

    assert store.backend.withdraw([run]) == [False]
    assert store.backend.asked_for() == []
    assert store.backend.run_state(JOB, at(0.5)) is None
    assert store.take_over(0.5, "a").outcome == "none"


def test_what_was_begun_or_is_of_the_schedule_is_not_withdrawn(store: Driver) -> None:
    add(store)
    store.take_over(0.5, "a")
    assert store.backend.withdraw([NewRun(JOB, at(0.5), "asker")]) == [False]
    store.finish(0.5, "a")
    store.win(10, "b")
    store.claim(20, "c", overlap="queue")

    runs = [NewRun(JOB, at(slot), "asker") for slot in (0.5, 10, 20)]
    assert store.backend.withdraw(runs) == [False, False, False]
    assert store.take_over(10, "d").outcome == "running"


def test_a_newer_slot_does_not_replace_it(store: Driver) -> None:
    add(store)
    store.win(10, "a")
    store.finish(10, "a")

    assert store.backend.asked_for() == [waiting()]
    assert store.take_over(0.5, "b").outcome == "won"


def test_a_newer_slot_does_not_replace_one_whose_holder_is_gone(store: Driver) -> None:
    add(store)
    store.take_over(0.5, "a")
    store.clock.advance(LEASE)
    store.win(10, "b")
    store.finish(10, "b")

    answer = store.take_over(0.5, "c")

    assert (answer.outcome, answer.attempt) == ("won", 2)


def test_the_winner_beside_it_ends_its_lease_for_everybody(store: Driver) -> None:
    add(store)
    store.take_over(0.5, "a")
    store.clock.advance(LEASE)
    store.win(10, "b")

    assert store.heartbeat(0.5, "a") == "lost"
    assert store.take_over(0.5, "c") == ClaimAnswer("overlap", holder="instance-b", other=at(10))


def test_it_does_not_replace_an_older_slot(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)
    add(store, 5.5)
    assert store.take_over(5.5, "b").outcome == "won"
    store.finish(5.5, "b")

    answer = store.take_over(0, "c")

    assert (answer.outcome, answer.attempt) == ("won", 2)


def test_it_waits_for_another_run_of_its_job_and_is_waited_for(store: Driver) -> None:
    store.win(0, "a")
    add(store)
    assert store.take_over(0.5, "b") == ClaimAnswer("overlap", holder="instance-a", other=at(0))
    assert store.take_over(0.5, "b", overlap="allow").outcome == "won"

    store.finish(0, "a")
    assert store.claim(10, "c") == ClaimAnswer("overlap", holder="instance-b", other=at(0.5))


def test_runs_of_all_jobs_are_told_oldest_first(store: Driver) -> None:
    store.backend.add_runs(
        [NewRun("b", at(3.5), "x"), NewRun("c", at(1.5), "x"), NewRun("a", at(3.5), "x")]
    )

    found = [(state.slot, state.job) for state in store.backend.asked_for()]

    assert found == [(at(1.5), "c"), (at(3.5), "a"), (at(3.5), "b")]
    assert store.backend.add_runs([]) == []


def test_asking_for_a_run_declares_no_job(store: Driver) -> None:
    add(store)

    assert store.backend.jobs() == []


def test_a_run_that_nobody_knows_has_no_state(store: Driver) -> None:
    assert store.backend.run_state(JOB, at(0)) is None


def test_the_state_of_a_run_of_the_schedule_is_told_as_well(store: Driver) -> None:
    fence = store.win(0, "a")
    store.release(0, "a")

    state = store.backend.run_state(JOB, at(0))

    assert state is not None
    assert (state.state, state.attempt, state.retries) == ("released", 1, 0)
    assert (state.fence, state.trigger) == (fence, "scheduled")
    assert (state.began_at, state.ended_at) == (at(0), None)


def test_a_run_that_waits_is_never_pruned(store: Driver) -> None:
    add(store)
    store.clock.advance(100_000)
    while store.backend.prune([Retention(JOB, runs=1000.0, records=10, age=100.0)]):
        pass

    assert store.take_over(0.5, "a").outcome == "won"


def test_a_run_that_was_asked_for_is_pruned_and_leaves_no_mark(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a")
    add(store, 5.5)
    store.take_over(5.5, "b")
    store.finish(5.5, "b")
    store.clock.advance(100_000)
    while store.backend.prune([Retention(JOB, runs=1000.0, records=10, age=100.0)]):
        pass

    assert store.backend.run_state(JOB, at(5.5)) is None
    assert store.claim(0, "c", max_late=1e6).outcome == "done"  # the newest of the schedule stays
    assert store.claim(5, "c", max_late=1e6).outcome == "won"
