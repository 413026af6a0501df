"""A won claim settles what it finds over: no crash is invisible, and no lease lives twice."""

from __future__ import annotations

import pytest

from contract.driver import LEASE, Driver, at
from leasecron.model import from_seconds


def test_a_won_claim_closes_an_older_run_whose_lease_is_over(store: Driver) -> None:
    fence = store.win(0, "a")
    store.clock.advance(LEASE)

    answer = store.claim(20, "b")

    (closed,) = answer.closed
    assert (closed.job, closed.slot, closed.attempt, closed.fence) == ("job", at(0), 1, fence)
    assert (closed.status, closed.instance, closed.trigger) == ("lost", "instance-a", "scheduled")
    assert (answer.outcome, answer.abandoned) == ("won", False)
    assert store.statuses() == [(fence, "lost")]
    assert store.take_over(0, "c").outcome == "done"


def test_a_lost_record_spans_from_the_claim_to_the_end_of_the_lease(store: Driver) -> None:
    store.win(0, "a")
    began = store.clock.now
    store.clock.advance(15)
    assert store.heartbeat(0, "a") == "ok"
    store.clock.advance(100)
    store.win(100, "b")

    (lost,) = store.backend.history()

    assert (lost.started_at, lost.ended_at) == (from_seconds(began), from_seconds(began + 35))
    assert (lost.duration, lost.error) == (35.0, None)


def test_a_takeover_records_the_attempt_that_it_replaces(store: Driver) -> None:
    fence = store.win(0, "a")
    store.clock.advance(LEASE)

    answer = store.take_over(0, "b")

    assert [(result.fence, result.status) for result in answer.closed] == [(fence, "lost")]
    assert store.statuses() == [(fence, "lost")]


def test_a_takeover_of_a_released_attempt_records_nothing(store: Driver) -> None:
    store.win(0, "a")
    store.release(0, "a", counted=True)

    assert store.take_over(0, "b").closed == ()
    assert store.statuses() == []


def test_an_older_released_run_is_replaced_without_a_record(store: Driver) -> None:
    store.win(0, "a")
    store.release(0, "a")
    store.clock.advance(10)

    assert store.claim(10, "b").closed == ()
    assert [state.slot for state in store.unfinished()] == [at(10)]
    assert store.release(0, "a") is False
    assert store.statuses() == []


def test_the_old_holder_of_a_replaced_run_is_told(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)
    store.win(20, "b")

    assert store.heartbeat(0, "a") == "lost"
    assert store.finish(0, "a") is False
    assert store.release(0, "a") is False


def test_the_old_holder_of_an_abandoned_run_is_told(store: Driver) -> None:
    store.win(0, "a", max_attempts=1)
    store.clock.advance(LEASE)
    store.take_over(0, "b", max_attempts=1)

    assert store.heartbeat(0, "a") == "lost"
    assert store.finish(0, "a") is False
    assert store.finish(0, "b") is False
    assert store.release(0, "a") is False


def test_a_won_claim_settles_all_older_runs_at_once(store: Driver) -> None:
    for slot in (0, 1, 2):
        store.win(slot, f"t{slot}", overlap="allow")
    store.clock.advance(LEASE)

    answer = store.claim(20, "b")

    assert [result.slot for result in answer.closed] == [at(0), at(1), at(2)]
    assert [state.slot for state in store.unfinished()] == [at(20)]


def test_older_runs_with_a_live_lease_are_left_alone(store: Driver) -> None:
    store.win(0, "a", overlap="allow", lease=100.0)
    store.clock.advance(LEASE)

    assert store.claim(20, "b", overlap="allow").closed == ()
    assert store.heartbeat(0, "a") == "ok"
    assert store.finish(0, "a") is True


def test_older_runs_are_closed_where_overlap_is_allowed_too(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.clock.advance(LEASE)

    assert len(store.claim(20, "b", overlap="allow").closed) == 1


def test_the_runs_of_another_job_are_left_alone(store: Driver) -> None:
    store.win(0, "a", job="other")
    store.clock.advance(LEASE)

    assert store.claim(20, "b").closed == ()
    assert [state.alive for state in store.unfinished("other")] == [False]


def test_a_newer_run_found_over_loses_its_lease_for_good(store_without_server: Driver) -> None:
    store = store_without_server
    store.win(3600, "a")
    store.clock.advance(10)
    with store.clock.seen_by(boot="boot-a/ns-2", wall=LEASE):  # judges by its wall clock
        store.win(0, "b")

    assert store.heartbeat(3600, "a") == "lost"
    assert [(state.slot, state.alive) for state in store.unfinished()] == [
        (at(0), True),
        (at(3600), False),
    ]
    assert store.finish(3600, "a") is True


def test_a_newer_run_keeps_its_lease_where_overlap_is_allowed(store: Driver) -> None:
    store.win(3600, "a", overlap="allow")
    store.clock.advance(10)
    with store.clock.seen_by(boot="boot-a/ns-2", wall=LEASE):
        store.win(0, "b", overlap="allow")

    assert store.heartbeat(3600, "a") == "ok"


@pytest.mark.parametrize("overlap", ["skip", "allow"])
@pytest.mark.parametrize("kept", [0, 3600])
def test_the_kept_lease_of_an_ended_run_is_not_renewed_after_it_was_found_over(
    store_without_server: Driver, kept: int, overlap: str
) -> None:
    store = store_without_server
    fence = store.win(kept, "a")
    store.finish(kept, "a", "failed", keep_lease=True)
    store.clock.advance(10)
    with store.clock.seen_by(boot="boot-a/ns-2", wall=LEASE):
        store.win(10, "b", overlap=overlap)

    assert store.heartbeat(kept, "a") == "lost"
    assert store.statuses() == []
    assert store.take_over(kept, "c").outcome == "done"
    store.save(kept, fence, "failed")  # it ended as that, and nobody has changed it since
    assert store.statuses() == [(fence, "failed")]


def test_a_takeover_of_an_older_run_settles_too(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.win(1, "b", overlap="allow")
    store.clock.advance(LEASE)
    with store.clock.seen_by(wall=-LEASE):  # slot 1 is not due yet, as this observer sees it
        assert store.take_over(1, "c", overlap="allow").attempt == 2

    assert store.take_over(0, "d").outcome == "done"
    assert [status for _fence, status in store.statuses()] == ["lost", "lost"]
