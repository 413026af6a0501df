"""What the holder of a run may do, and what a stale one may not."""

from __future__ import annotations

import pytest

from contract.driver import JOB, LEASE, Driver, at
from leasecron.model import Ending, LeaseRef, LeaseState, Status


def test_a_heartbeat_renews_from_now(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE - 1)
    assert store.heartbeat(0, "a") == "ok"
    store.clock.advance(LEASE - 1)

    assert store.claim(0, "b").outcome == "running"
    store.clock.advance(1)
    assert store.claim(0, "b").outcome == "won"


def test_a_heartbeat_may_change_the_length_of_the_lease(store: Driver) -> None:
    store.win(0, "a")
    assert store.heartbeat(0, "a", lease=1.0) == "ok"
    store.clock.advance(1)

    assert store.claim(0, "b").outcome == "won"


def test_a_lease_that_is_over_is_never_renewed(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)

    assert store.heartbeat(0, "a") == "lost"
    assert store.unfinished() == [LeaseState(JOB, at(0), 1, alive=False)]


def test_a_heartbeat_of_an_unknown_run_or_token_is_lost(store: Driver) -> None:
    store.win(0, "a")

    assert store.heartbeat(0, "b") == "lost"
    assert store.heartbeat(10, "a") == "lost"
    assert store.heartbeat(0, "a", job="other") == "lost"


def test_heartbeats_of_one_call_are_answered_in_order(store: Driver) -> None:
    store.win(0, "a")
    store.win(0, "b", job="other")
    refs = [
        LeaseRef("other", at(0), "b", LEASE),
        LeaseRef(JOB, at(0), "stale", LEASE),
        LeaseRef(JOB, at(0), "a", LEASE),
    ]

    assert store.backend.heartbeat(refs) == ["ok", "lost", "ok"]


def test_the_heartbeat_of_a_stale_holder_changes_nothing(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)
    store.take_over(0, "b")
    store.clock.advance(LEASE - 1)

    assert store.heartbeat(0, "a") == "lost"
    store.clock.advance(1)
    assert store.take_over(0, "c").outcome == "won"


def test_a_kept_lease_can_be_renewed_after_the_end(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a", "failed", keep_lease=True)
    store.clock.advance(LEASE - 1)
    assert store.heartbeat(0, "a") == "ok"
    store.clock.advance(LEASE - 1)

    assert store.claim(10, "b").outcome == "overlap"


@pytest.mark.parametrize("status", ["success", "failed"])
def test_a_finished_run_is_over_and_its_lease_ended(store: Driver, status: Status) -> None:
    store.win(0, "a")

    assert store.finish(0, "a", status) is True
    assert store.unfinished() == []
    assert store.heartbeat(0, "a") == "lost"
    assert store.claim(10, "b").outcome == "won"


def test_a_kept_lease_is_not_made_longer_by_finish(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE - 1)
    store.finish(0, "a", "failed", keep_lease=True)
    store.clock.advance(1)

    assert store.heartbeat(0, "a") == "lost"
    assert store.claim(20, "b").outcome == "won"


@pytest.mark.parametrize("keep_lease", [False, True])
def test_finish_may_be_repeated(store: Driver, keep_lease: bool) -> None:
    store.win(0, "a")

    assert store.finish(0, "a", keep_lease=keep_lease) is True
    assert store.finish(0, "a", keep_lease=keep_lease) is True
    assert store.heartbeat(0, "a") == ("ok" if keep_lease else "lost")


def test_a_second_finish_ends_a_lease_that_the_first_one_kept(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a", "failed", keep_lease=True)

    assert store.finish(0, "a", "success") is True
    assert store.claim(10, "b").outcome == "won"


def test_the_end_of_a_run_that_nobody_took_is_recorded_after_its_lease(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(10 * LEASE)

    assert store.finish(0, "a") is True
    assert store.take_over(0, "b").outcome == "done"


def test_a_run_can_be_finished_after_it_was_released(store: Driver) -> None:
    store.win(0, "a")
    store.release(0, "a")

    assert store.finish(0, "a") is True
    assert store.take_over(0, "b").outcome == "done"


def test_finish_needs_the_token(store: Driver) -> None:
    store.win(0, "a")

    assert store.finish(0, "b") is False
    assert store.finish(10, "a") is False
    assert store.claim(0, "c").outcome == "running"


@pytest.mark.parametrize("stale_first", [True, False])
def test_only_the_new_holder_can_finish_in_whichever_order(
    store: Driver, stale_first: bool
) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)
    fence = store.take_over(0, "b").fence

    if stale_first:
        assert store.finish(0, "a", "failed") is False
        assert store.finish(0, "b", "success") is True
    else:
        assert store.finish(0, "b", "success") is True
        assert store.finish(0, "a", "failed") is False
    store.save(0, fence, "success")

    assert store.statuses()[-1] == (fence, "success")
    assert store.claim(0, "c").holder == "instance-b"


def test_a_released_run_has_no_live_lease(store: Driver) -> None:
    store.win(0, "a")

    assert store.release(0, "a") is True
    assert store.unfinished() == [LeaseState(JOB, at(0), 1, alive=False)]
    assert store.heartbeat(0, "a") == "lost"
    assert store.claim(10, "b").outcome == "won"


def test_release_may_be_repeated(store: Driver) -> None:
    store.win(0, "a")

    assert store.release(0, "a") is True
    assert store.release(0, "a") is True


def test_release_needs_the_token(store: Driver) -> None:
    store.win(0, "a")

    assert store.release(0, "b") is False
    assert store.release(10, "a") is False
    assert store.heartbeat(0, "a") == "ok"


def test_a_stale_release_does_not_end_the_lease_of_the_new_holder(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)
    store.take_over(0, "b")

    assert store.release(0, "a", counted=True) is False
    assert store.heartbeat(0, "b") == "ok"


def test_release_of_an_ended_run_ends_its_kept_lease_and_nothing_else(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a", "failed", keep_lease=True)

    assert store.release(0, "a") is True
    assert store.take_over(0, "b").outcome == "done"
    assert store.claim(10, "b").outcome == "won"
    assert store.statuses() == []


def test_release_after_finish_answers_yes_and_changes_nothing(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a")

    assert store.release(0, "a") is True
    assert store.unfinished() == []


def test_an_attempt_is_released_after_its_lease_as_well(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)

    assert store.release(0, "a", counted=True) is True
    assert store.take_over(0, "b", max_attempts=1).abandoned


def test_endings_of_one_call_are_answered_in_order(store: Driver) -> None:
    store.win(0, "a")
    store.win(0, "b", job="other")
    endings = [
        Ending(JOB, at(0), "stale", "success"),
        Ending("other", at(0), "b", "failed"),
        Ending(JOB, at(0), "a", "success"),
    ]

    assert store.backend.finish(endings) == [False, True, True]


def test_unfinished_names_the_jobs_asked_for_oldest_slot_first(store: Driver) -> None:
    store.win(20, "a", overlap="allow")
    store.win(10, "b", overlap="allow")
    store.win(0, "c", job="other")
    store.win(0, "d", job="third")
    store.release(10, "b")
    store.win(5, "e", overlap="allow", job="other")
    store.finish(5, "e", job="other", keep_lease=True)

    assert store.unfinished("job", "other", "job", "nobody") == [
        LeaseState("other", at(0), 1, alive=True),
        LeaseState("job", at(10), 1, alive=False),
        LeaseState("job", at(20), 1, alive=True),
    ]
