"""``overlap="queue"`` and ``"cancel"``: the newest slot waits until the older run has ended."""

from __future__ import annotations

import pytest

from contract.driver import JOB, LEASE, Driver, a_claim, at
from leasecron.model import ClaimAnswer, Ending, LeaseState, NewRun

BOTH = pytest.mark.parametrize("overlap", ["queue", "cancel"])


def behind(slot: float, token: str) -> ClaimAnswer:
    """Return the answer to a claim that waits for a run."""
    return ClaimAnswer("overlap", holder=f"instance-{token}", other=at(slot))


@BOTH
def test_a_slot_waits_and_is_begun_once_the_older_run_has_ended(
    store: Driver, overlap: str
) -> None:
    store.win(0, "a", overlap=overlap)
    store.clock.advance(10)

    assert store.claim(10, "b", overlap=overlap) == behind(0, "a")
    assert store.claim(10, "c", overlap=overlap) == behind(0, "a")
    assert store.take_over(10, "c", overlap=overlap) == behind(0, "a")
    store.finish(0, "a")
    answer = store.take_over(10, "c", overlap=overlap)

    assert (answer.outcome, answer.attempt, answer.trigger) == ("won", 1, "scheduled")
    assert store.take_over(10, "b", overlap=overlap).outcome == "running"


@BOTH
def test_a_slot_that_waits_has_not_been_begun(store: Driver, overlap: str) -> None:
    store.win(0, "a", overlap=overlap)
    store.claim(10, "b", overlap=overlap)

    assert store.unfinished() == [
        LeaseState(JOB, at(0), 1, alive=True),
        LeaseState(JOB, at(10), 0, alive=False),
    ]
    assert store.backend.asked_for() == []
    assert store.heartbeat(10, "b") == "lost"


@BOTH
def test_only_the_newest_of_those_that_wait_is_begun(store: Driver, overlap: str) -> None:
    store.win(0, "a", overlap=overlap)
    store.clock.advance(15)
    store.claim(5, "b", overlap=overlap)
    store.claim(15, "c", overlap=overlap)
    assert store.claim(10, "d", overlap=overlap).outcome == "done"
    store.finish(0, "a")

    assert store.take_over(5, "b", overlap=overlap).outcome == "done"
    assert store.take_over(10, "b", overlap=overlap).outcome == "done"
    assert store.take_over(15, "b", overlap=overlap).outcome == "won"
    assert store.backend.history(JOB) == []


@BOTH
def test_a_slot_that_waits_is_never_late(store: Driver, overlap: str) -> None:
    store.win(0, "a", overlap=overlap)
    store.claim(10, "b", overlap=overlap)
    store.clock.advance(19)
    store.heartbeat(0, "a", lease=5000)
    store.clock.advance(4000)
    store.finish(0, "a")

    assert store.take_over(10, "b", overlap=overlap, max_late=1.0).outcome == "won"


@BOTH
def test_a_slot_that_is_older_than_the_newest_begun_does_not_wait(
    store: Driver, overlap: str
) -> None:
    store.clock.advance(30)
    store.win(20, "a", overlap=overlap)
    store.finish(20, "a")
    store.win(30, "b", overlap=overlap)

    assert store.claim(10, "c", overlap=overlap).outcome == "done"
    assert store.heartbeat(30, "b") == "ok"
    store.finish(30, "b")
    assert store.take_over(10, "c", overlap=overlap).outcome == "done"


def test_a_queued_slot_waits_for_the_next_attempt_of_a_run_whose_holder_is_gone(
    store: Driver,
) -> None:
    store.win(0, "a", overlap="queue")
    store.claim(10, "b", overlap="queue")
    store.clock.advance(LEASE)

    assert store.take_over(10, "b", overlap="queue") == behind(0, "a")
    assert store.claim(20, "b", overlap="queue") == behind(0, "a")
    answer = store.take_over(0, "c", overlap="queue")
    assert (answer.outcome, answer.attempt) == ("won", 2)
    store.finish(0, "c")
    assert store.take_over(20, "b", overlap="queue").outcome == "won"


def test_a_queued_slot_goes_on_once_the_attempts_before_it_are_used_up(store: Driver) -> None:
    store.win(0, "a", overlap="queue")
    store.claim(10, "b", overlap="queue")
    store.clock.advance(LEASE)
    assert store.take_over(0, "c", overlap="queue", max_attempts=1).abandoned

    assert store.take_over(10, "b", overlap="queue").outcome == "won"


def test_a_queued_slot_waits_for_a_run_that_was_given_back(store: Driver) -> None:
    store.win(0, "a", overlap="queue")
    store.claim(10, "b", overlap="queue")
    store.release(0, "a")

    assert store.take_over(10, "b", overlap="queue") == behind(0, "a")
    assert store.take_over(0, "b", overlap="queue").outcome == "won"


def test_a_run_that_is_cancelled_hears_of_it_and_ends_as_replaced(store: Driver) -> None:
    fence = store.win(0, "a", overlap="cancel")
    store.claim(10, "b", overlap="cancel")

    assert store.heartbeat(0, "a") == "replaced"
    store.clock.advance(LEASE - 1)
    assert store.heartbeat(0, "a") == "replaced"  # and its lease is renewed
    store.clock.advance(2)
    assert store.take_over(10, "b", overlap="cancel") == behind(0, "a")
    ending = Ending(JOB, at(0), "a", "interrupted")
    assert store.backend.finish([ending]) == [True]
    assert store.backend.finish([ending]) == [True]
    store.save(0, fence, "interrupted")

    state = store.backend.run_state(JOB, at(0))
    assert state is not None
    assert state.state == "replaced"
    assert store.statuses() == [(fence, "interrupted")]
    assert store.take_over(0, "c", overlap="cancel").outcome == "done"
    assert store.take_over(10, "b", overlap="cancel").outcome == "won"


def test_a_slot_that_will_not_be_begun_cancels_nothing(store: Driver) -> None:
    store.clock.advance(30)
    store.win(20, "a", overlap="cancel")
    store.finish(20, "a")
    store.win(0, "b", overlap="cancel")

    assert store.claim(10, "c", overlap="cancel").outcome == "done"
    assert store.heartbeat(0, "b") == "ok"


def test_a_run_that_is_cancelled_may_succeed(store: Driver) -> None:
    store.win(0, "a", overlap="cancel")
    store.claim(10, "b", overlap="cancel")
    store.finish(0, "a", "success")

    state = store.backend.run_state(JOB, at(0))

    assert state is not None
    assert state.state == "success"


def test_a_run_that_is_not_cancelled_hears_nothing(store: Driver) -> None:
    store.win(0, "a", overlap="queue")
    store.claim(10, "b", overlap="queue")

    assert store.heartbeat(0, "a") == "ok"


@pytest.mark.parametrize("given_back", [True, False])
def test_a_run_that_is_cancelled_is_not_taken_over(store: Driver, *, given_back: bool) -> None:
    store.win(0, "a", overlap="cancel")
    store.claim(10, "b", overlap="cancel")
    if given_back:
        store.release(0, "a")
    store.clock.advance(LEASE)

    assert store.take_over(0, "c", overlap="cancel").outcome == "done"
    assert store.take_over(10, "b", overlap="cancel").outcome == "won"
    assert [status for _fence, status in store.statuses()] == ([] if given_back else ["lost"])


def test_an_older_run_whose_holder_is_gone_makes_way_as_well(store: Driver) -> None:
    store.win(0, "a", overlap="cancel")
    store.clock.advance(LEASE)
    store.backend.add_runs([NewRun(JOB, at(0.5), "x")])
    store.take_over(0.5, "b", overlap="cancel")

    assert store.claim(10, "c", overlap="cancel") == behind(0.5, "b")
    store.finish(0.5, "b")
    assert store.take_over(0, "d", overlap="cancel").outcome == "done"
    assert store.take_over(10, "c", overlap="cancel").outcome == "won"


def test_a_run_that_was_asked_for_is_not_cancelled(store: Driver) -> None:
    store.backend.add_runs([NewRun(JOB, at(0.5), "x")])
    store.take_over(0.5, "a", overlap="cancel")

    assert store.claim(10, "b", overlap="cancel") == behind(0.5, "a")
    assert store.heartbeat(0.5, "a") == "ok"
    store.finish(0.5, "a")
    assert store.take_over(10, "b", overlap="cancel").outcome == "won"


def test_a_run_that_was_asked_for_cancels_nothing(store: Driver) -> None:
    store.win(0, "a", overlap="cancel")
    store.backend.add_runs([NewRun(JOB, at(0.5), "x")])

    assert store.take_over(0.5, "b", overlap="cancel") == behind(0, "a")
    assert store.heartbeat(0, "a") == "ok"


def test_a_slot_that_waits_replaces_nothing_until_it_is_begun(store: Driver) -> None:
    store.win(0, "a", overlap="queue")
    store.claim(10, "b", overlap="queue")
    store.clock.advance(LEASE)

    assert store.take_over(0, "c", overlap="skip").outcome == "won"


def test_claims_of_one_call_wait_as_if_they_had_come_one_by_one(store: Driver) -> None:
    store.clock.advance(10)
    first, second, third = store.backend.claim(
        [a_claim(slot, f"t{slot}", overlap="queue") for slot in (0, 5, 10)]
    )

    assert first.outcome == "won"
    assert second == third == ClaimAnswer("overlap", holder="instance-t0", other=at(0))
    store.finish(0, "t0")
    assert store.take_over(5, "x", overlap="queue").outcome == "done"
    assert store.take_over(10, "x", overlap="queue").outcome == "won"
