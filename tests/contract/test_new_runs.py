"""The rows of the claim table for a run that nobody has claimed, in their order."""

from __future__ import annotations

import pytest

from contract.driver import LEASE, Driver, at
from leasecron.model import ClaimAnswer, Declaration, Retention

TOMORROW = 86_400.0


def test_a_claim_on_a_new_run_is_won_as_attempt_one(store: Driver) -> None:
    answer = store.claim(0, "a")

    assert (answer.outcome, answer.attempt, answer.closed) == ("won", 1, ())
    assert answer.fence == round(store.clock.now * 1000)


def test_a_takeover_of_a_run_that_nobody_claimed_is_none(store: Driver) -> None:
    store.win(10, "a")

    assert store.take_over(0, "b") == ClaimAnswer("none")
    store.clock.advance(TOMORROW)
    assert store.take_over(0, "b") == ClaimAnswer("none")


def test_a_slot_that_is_reached_too_late_is_late(store: Driver) -> None:
    store.clock.advance(5.001)

    assert store.claim(0, "a", max_late=5.0) == ClaimAnswer("late")


def test_a_slot_may_be_reached_at_the_last_moment(store: Driver) -> None:
    store.clock.advance(5)

    assert store.claim(0, "a", max_late=5.0).outcome == "won"


def test_late_is_asked_before_overlap(store: Driver) -> None:
    store.win(10, "a")
    store.clock.advance(10)

    assert store.claim(0, "b", max_late=5.0).outcome == "late"


def test_a_slot_of_a_job_that_still_runs_is_an_overlap(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(10)

    answer = store.claim(10, "b")

    assert answer == ClaimAnswer("overlap", holder="instance-a", other=at(0))


def test_an_older_slot_overlaps_with_a_newer_run(store: Driver) -> None:
    store.win(10, "a")

    assert store.claim(0, "b").other == at(10)


def test_an_overlap_names_the_oldest_live_run(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.win(1, "b", overlap="allow")

    assert store.claim(2, "c").other == at(0)


def test_runs_may_overlap_where_the_job_allows_it(store: Driver) -> None:
    store.win(0, "a", overlap="allow")

    assert store.claim(10, "b", overlap="allow").outcome == "won"
    assert store.claim(10, "c", overlap="allow").outcome == "running"


def test_runs_of_other_jobs_do_not_overlap(store: Driver) -> None:
    store.win(0, "a")

    assert store.claim(0, "b", job="other").outcome == "won"


def test_the_kept_lease_of_an_ended_run_overlaps(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a", "failed", keep_lease=True)

    assert store.claim(10, "b") == ClaimAnswer("overlap", holder="instance-a", other=at(0))
    store.clock.advance(LEASE)
    assert store.claim(10, "b").outcome == "won"


def test_a_skipped_slot_blocks_nothing(store: Driver) -> None:
    store.win(0, "a")
    assert store.claim(10, "b").outcome == "overlap"
    store.finish(0, "a")

    assert store.claim(20, "c").outcome == "won"


def test_slots_that_never_ran_do_run_after_newer_ones(store: Driver) -> None:
    store.clock.advance(100)
    store.win(100, "a")
    store.finish(100, "a")

    assert store.claim(90, "b").outcome == "won"
    store.finish(90, "b")
    assert store.claim(100, "c").outcome == "done"


def prune_slot_zero(store: Driver) -> None:
    """Leave the pruned mark of the job at slot 0, and its newest row at slot 1000."""
    store.backend.declare([Declaration("job", "every 10s")])
    for slot in (0, 1000):
        store.win(slot, "a", max_late=10_000.0)
        store.finish(slot, "a")
        store.clock.advance(1000)
    assert not store.backend.prune([Retention("job", 1500.0, 1000, 0.0)])


@pytest.mark.parametrize("slot", [0, -10])
def test_a_slot_at_or_before_the_pruned_mark_is_done(store: Driver, slot: int) -> None:
    prune_slot_zero(store)

    assert store.claim(slot, "b", max_late=10_000.0) == ClaimAnswer("done")


def test_a_slot_after_the_pruned_mark_can_be_won(store: Driver) -> None:
    prune_slot_zero(store)

    assert store.claim(1, "b", max_late=10_000.0).outcome == "won"


def test_a_takeover_before_the_pruned_mark_is_none(store: Driver) -> None:
    prune_slot_zero(store)

    assert store.take_over(0, "b").outcome == "none"


def test_a_pruned_mark_after_now_says_nothing(store_without_server: Driver) -> None:
    store = store_without_server
    prune_slot_zero(store)
    store.clock.step(-2010)

    assert store.claim(-20, "b").outcome == "won"
    assert store.claim(-20, "c").outcome == "running"


def test_an_unknown_run_of_a_job_with_a_mark_overlaps(store: Driver) -> None:
    prune_slot_zero(store)
    store.win(1500, "b", max_late=10_000.0)

    assert store.claim(1, "c", max_late=10_000.0).outcome == "overlap"
