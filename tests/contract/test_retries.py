"""How often a run was tried again is kept with its lease, and goes with it."""

from __future__ import annotations

from contract.driver import JOB, LEASE, Driver, at
from leasecron.model import ClaimAnswer, Retry


def retry(store: Driver, slot: float, token: str, retries: int) -> bool:
    (answer,) = store.backend.retry([Retry(JOB, at(slot), token, retries)])
    return answer


def test_a_new_run_has_not_been_tried_again(store: Driver) -> None:
    assert store.claim(0, "a").retries == 0


def test_the_next_attempt_goes_on_with_the_count(store: Driver) -> None:
    store.win(0, "a")
    assert retry(store, 0, "a", 1)
    assert retry(store, 0, "a", 2)
    store.clock.advance(LEASE)

    answer = store.take_over(0, "b")

    assert (answer.outcome, answer.attempt, answer.retries) == ("won", 2, 2)
    assert [record.retries for record in answer.closed] == [2]
    assert [record.retries for record in store.backend.history(JOB)] == [2]


def test_a_run_that_was_given_back_keeps_its_count(store: Driver) -> None:
    store.win(0, "a")
    retry(store, 0, "a", 1)
    store.release(0, "a")

    assert store.take_over(0, "b").retries == 1


def test_a_repeated_claim_hears_of_the_count(store: Driver) -> None:
    fence = store.win(0, "a")
    retry(store, 0, "a", 1)

    assert store.claim(0, "a") == ClaimAnswer("won", attempt=1, fence=fence, retries=1)


def test_a_count_that_comes_again_or_late_changes_nothing(store: Driver) -> None:
    store.win(0, "a")
    assert retry(store, 0, "a", 2)
    assert retry(store, 0, "a", 2)
    assert retry(store, 0, "a", 1)

    assert store.claim(0, "a").retries == 2


def test_only_the_holder_of_a_live_lease_counts(store: Driver) -> None:
    assert not retry(store, 0, "a", 1)
    store.win(0, "a")
    assert not retry(store, 0, "b", 1)
    store.clock.advance(LEASE)
    assert not retry(store, 0, "a", 1)

    assert store.take_over(0, "b").retries == 0
    assert not retry(store, 0, "a", 1)


def test_a_run_that_has_ended_is_not_tried_again(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a", "failed", keep_lease=True)

    assert not retry(store, 0, "a", 1)


def test_a_batch_is_answered_one_by_one(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.win(10, "b", overlap="allow")

    answers = store.backend.retry(
        [Retry(JOB, at(10), "b", 1), Retry(JOB, at(0), "x", 1), Retry(JOB, at(0), "a", 3)]
    )

    assert answers == [True, False, True]
    assert store.backend.retry([]) == []


def test_a_record_keeps_how_often_the_run_was_tried_again(store: Driver) -> None:
    fence = store.win(0, "a")
    store.save(0, fence, "failed", error="ValueError: no", retries=2)

    (record,) = store.backend.history(JOB)

    assert (record.retries, record.error) == (2, "ValueError: no")
