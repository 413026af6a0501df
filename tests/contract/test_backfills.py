"""A backfill goes on from slot to slot, one run at a time, whoever takes the next step."""

from __future__ import annotations

import pytest

from contract.driver import JOB, LEASE, Driver, at
from leasecron.model import (
    Advance,
    BackfillState,
    Declaration,
    LeaseState,
    NewBackfill,
    Retention,
)

RANGE = NewBackfill(JOB, at(0), at(100), 10, "asker")


def begin(store: Driver, backfill: NewBackfill = RANGE) -> BackfillState:
    return store.backend.add_backfill(backfill)


def state(store: Driver) -> BackfillState:
    found = store.backend.backfill(JOB)
    assert found is not None
    return found


def cancel(store: Driver) -> bool:
    return store.backend.cancel_backfill(JOB, state(store).asked_at)


def go_on(store: Driver, cursor: float | None, slot: float | None) -> str:
    return store.backend.advance(
        Advance(
            JOB,
            state(store).asked_at,
            None if cursor is None else at(cursor),
            None if slot is None else at(slot),
        )
    )


def run(store: Driver, slot: float, token: str, status: str = "success") -> None:
    """Begin the run that waits, and end it."""
    answer = store.take_over(slot, token)
    assert (answer.outcome, answer.attempt, answer.trigger) == ("won", 1, "backfill")
    store.finish(slot, token, status)  # type: ignore[arg-type]


def test_a_backfill_is_told_of_while_it_goes_on(store: Driver) -> None:
    store.clock.advance(1000)
    begun = begin(store)

    assert begun == BackfillState(JOB, at(0), at(100), 10, "asker", at(1000), None, 0, 0, None)
    assert store.backend.backfills() == [begun]
    assert store.backend.backfill(JOB) == begun
    assert store.backend.backfill("other") is None


def test_a_job_has_one_backfill_at_a_time(store: Driver) -> None:
    begun = begin(store)
    store.clock.advance(5)

    assert begin(store, NewBackfill(JOB, at(5), at(6), 1, "another")) == begun
    other = begin(store, NewBackfill("other", at(0), at(100), 10, "asker"))
    assert store.backend.backfills() == [begun, other]


def test_slots_are_run_one_after_the_other_and_counted(store: Driver) -> None:
    store.clock.advance(1000)
    begin(store)

    assert go_on(store, None, 0) == "waiting"
    assert store.backend.asked_for() == [LeaseState(JOB, at(0), 0, False, "backfill")]
    assert go_on(store, 0, 10) == "stale"
    run(store, 0, "a")
    assert go_on(store, 0, 10) == "waiting"
    run(store, 10, "b", "failed")
    assert go_on(store, 10, 20) == "waiting"
    assert (state(store).succeeded, state(store).failed) == (1, 1)
    run(store, 20, "c")
    store.clock.advance(1)
    assert go_on(store, 20, None) == "ended"

    ended = state(store)
    assert (ended.succeeded, ended.failed, ended.cursor) == (2, 1, at(20))
    assert ended.ended_at == at(1001)
    assert store.backend.backfills() == []
    assert go_on(store, 20, 30) == "stale"


def test_a_handler_that_goes_on_past_its_end_is_waited_for(store: Driver) -> None:
    begin(store)
    go_on(store, None, 0)
    store.take_over(0, "a", overlap="allow")
    store.finish(0, "a", "failed", keep_lease=True)

    assert go_on(store, 0, 10) == "stale"
    store.release(0, "a")
    assert go_on(store, 0, 10) == "waiting"


def test_the_record_of_an_attempt_before_is_taken_from_a_backfill_that_was_cancelled(
    store: Driver,
) -> None:
    fence = store.win(0, "a")
    store.finish(0, "a", "failed")
    begin(store)
    go_on(store, None, 0)
    cancel(store)
    store.save(0, fence, "failed")

    assert store.statuses() == [(fence, "failed")]


def test_of_two_that_go_on_from_one_slot_one_is_late(store: Driver) -> None:
    begin(store)

    assert go_on(store, None, 0) == "waiting"
    assert go_on(store, None, 0) == "stale"
    assert go_on(store, None, 10) == "stale"
    assert len(store.backend.asked_for()) == 1


def test_a_step_of_an_earlier_backfill_is_stale(store: Driver) -> None:
    first = begin(store)
    assert cancel(store)
    second = begin(store)

    assert second.asked_at > first.asked_at
    assert store.backend.advance(Advance(JOB, first.asked_at, None, at(0))) == "stale"
    assert store.backend.advance(Advance("other", first.asked_at, None, at(0))) == "stale"


def test_what_succeeded_is_not_run_again(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a")
    store.clock.advance(1000)
    begin(store)

    assert go_on(store, None, 0) == "skipped"
    assert store.backend.asked_for() == []
    assert go_on(store, 0, 10) == "waiting"
    assert (state(store).succeeded, state(store).failed) == (1, 0)  # it did so meanwhile


@pytest.mark.parametrize("how", ["failed", "abandoned", "replaced", "given back", "gone"])
def test_what_did_not_succeed_is_run_again_from_its_first_attempt(store: Driver, how: str) -> None:
    fence = store.win(0, "a")
    if how == "failed":
        store.finish(0, "a", "failed")
    elif how == "given back":
        store.release(0, "a")
    elif how == "replaced":
        store.clock.advance(LEASE)
        store.win(20, "b")
        store.finish(20, "b")
    store.clock.advance(LEASE)
    if how == "abandoned":
        assert store.take_over(0, "x", max_attempts=1).abandoned
    store.clock.advance(1000)
    begin(store)

    assert go_on(store, None, 0) == "waiting"

    lost = [status for its, status in store.statuses() if its == fence]
    assert lost == (["lost"] if how in ("abandoned", "replaced", "gone") else [])
    assert not store.finish(0, "a")
    assert store.heartbeat(0, "a") == "lost"
    run(store, 0, "c")
    assert store.take_over(0, "d").outcome == "done"


def test_the_record_of_an_attempt_before_may_still_come(store: Driver) -> None:
    fence = store.win(0, "a")
    store.finish(0, "a", "failed")
    store.clock.advance(1000)
    begin(store)
    go_on(store, None, 0)
    store.save(0, fence, "failed")
    second = store.take_over(0, "b").fence
    store.finish(0, "b")
    store.save(0, second)

    assert store.statuses() == [(fence, "failed"), (second, "success")]


def test_a_slot_that_is_being_run_is_waited_for(store: Driver) -> None:
    store.win(0, "a")
    begin(store)
    assert go_on(store, None, 0) == "busy"
    store.finish(0, "a", "failed")

    assert go_on(store, None, 0) == "waiting"


def test_a_run_that_lost_its_holder_is_taken_over_before_the_next_slot(store: Driver) -> None:
    begin(store)
    go_on(store, None, 0)
    store.take_over(0, "a")
    store.clock.advance(LEASE)
    assert go_on(store, 0, 10) == "stale"

    answer = store.take_over(0, "b")

    assert (answer.outcome, answer.attempt) == ("won", 2)


def test_newer_slots_do_not_replace_it_and_it_replaces_none(store: Driver) -> None:
    store.clock.advance(1000)
    store.win(990, "a")
    store.finish(990, "a")
    begin(store)
    go_on(store, None, 0)

    answer = store.take_over(0, "b")
    assert answer.outcome == "won"
    store.clock.advance(LEASE)
    assert store.take_over(0, "c").outcome == "won"


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel"])
def test_a_slot_of_the_schedule_waits_for_it_and_goes_before_the_next(
    store: Driver, overlap: str
) -> None:
    store.clock.advance(1000)
    begin(store)
    go_on(store, None, 0)
    store.take_over(0, "a")

    assert store.claim(1000, "b", overlap=overlap).outcome == "overlap"
    assert store.heartbeat(0, "a") == "ok"
    store.finish(0, "a")
    assert go_on(store, 0, 10) == "busy"
    answer = store.take_over(1000, "b", overlap=overlap)
    assert (answer.outcome, answer.attempt, answer.trigger) == ("won", 1, "scheduled")
    assert go_on(store, 0, 10) == "waiting"
    assert store.take_over(10, "c", overlap=overlap).outcome == "overlap"


def test_a_slot_that_meets_another_run_as_well_is_skipped(store: Driver) -> None:
    store.clock.advance(1000)
    store.win(990, "a", overlap="allow")
    begin(store)
    go_on(store, None, 0)
    store.take_over(0, "b", overlap="allow")

    assert store.claim(1000, "c").outcome == "overlap"
    assert [s.slot for s in store.unfinished() if not s.attempt] == []


def test_a_paused_job_does_not_go_on(store: Driver) -> None:
    store.win(500, "x")
    store.finish(500, "x")
    begin(store)
    go_on(store, None, 0)
    run(store, 0, "a")
    store.backend.declare([Declaration(JOB, "")])
    store.backend.pause(JOB, "")
    assert go_on(store, 0, 10) == "paused"
    store.backend.resume(JOB)

    assert go_on(store, 0, 10) == "waiting"


def test_a_backfill_can_be_ended_before_its_run_begins(store: Driver) -> None:
    begin(store)
    go_on(store, None, 0)

    assert cancel(store)

    assert not cancel(store)
    assert store.backend.asked_for() == []
    assert store.take_over(0, "a").outcome == "done"
    ended = state(store)
    assert (ended.succeeded, ended.failed, ended.ended_at) == (0, 0, at(0))


def test_cancelling_an_earlier_backfill_leaves_a_later_one_alone(store: Driver) -> None:
    first = begin(store)
    assert cancel(store)
    begin(store)

    assert not store.backend.cancel_backfill(JOB, first.asked_at)

    assert state(store).ended_at is None
    assert not store.backend.cancel_backfill("another", first.asked_at)


def test_a_backfill_that_is_ended_lets_its_run_go_on(store: Driver) -> None:
    begin(store)
    go_on(store, None, 0)
    store.take_over(0, "a")

    assert cancel(store)

    assert store.heartbeat(0, "a") == "ok"
    assert store.finish(0, "a")


def test_the_end_counts_the_run_before_it(store: Driver) -> None:
    begin(store)
    go_on(store, None, 0)
    run(store, 0, "a")
    cancel(store)

    assert (state(store).succeeded, state(store).failed) == (1, 0)


def test_what_succeeded_is_told_by_slot(store: Driver) -> None:
    fences = {}
    for slot in (0, 10, 20, 30):
        fences[slot] = store.win(slot, f"t{slot}")
        store.finish(slot, f"t{slot}", "failed" if slot == 10 else "success")
    store.save(0, fences[0])
    store.save(10, fences[10], "failed")

    assert store.backend.succeeded(JOB, at(0), at(30)) == [at(0), at(20)]
    assert store.backend.succeeded(JOB, at(1), at(31)) == [at(20), at(30)]
    assert store.backend.succeeded("other", at(0), at(30)) == []


def test_what_succeeded_is_known_from_history_once_its_row_is_gone(store: Driver) -> None:
    for slot in (0, 10):
        fence = store.win(slot, f"t{slot}")
        store.finish(slot, f"t{slot}")
        store.save(slot, fence)
    store.clock.advance(100_000)
    while store.backend.prune([Retention(JOB, runs=1000.0, records=10, age=100.0)]):
        pass
    assert store.backend.run_state(JOB, at(0)) is None

    assert store.backend.succeeded(JOB, at(0), at(100)) == [at(0), at(10)]


def test_the_newest_slot_stays_when_it_is_run_again(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a", "failed")
    store.win(10, "b")
    store.finish(10, "b", "failed")
    store.clock.advance(100_000)
    begin(store)
    go_on(store, None, 10)
    while store.backend.prune([Retention(JOB, runs=1000.0, records=10, age=100.0)]):
        pass

    assert store.backend.run_state(JOB, at(0)) is None
    assert store.backend.run_state(JOB, at(10)) is not None
    run(store, 10, "c")


def test_the_schedule_does_not_run_a_slot_again_that_was_backfilled_and_pruned(
    store: Driver,
) -> None:
    begin(store)
    go_on(store, None, 0)
    run(store, 0, "a")
    go_on(store, 0, None)
    store.clock.advance(1000)
    store.win(1000, "b")
    store.finish(1000, "b")
    store.clock.advance(1000)
    while store.backend.prune([Retention(JOB, runs=1500.0, records=10, age=100.0)]):
        pass
    assert store.backend.run_state(JOB, at(0)) is None

    assert store.claim(0, "c", max_late=10_000.0).outcome == "done"
