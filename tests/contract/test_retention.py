"""What is kept, what goes, and that pruning hides nothing."""

from __future__ import annotations

import pytest

from contract.driver import LEASE, Driver, a_claim, at
from leasecron.model import Declaration, Ending, Retention, RunResult, from_seconds

EVERYTHING = Retention("job", 0.0, 0, 0.0)


def run(store: Driver, slot: float) -> int:
    """Run one slot to its end and save its record."""
    fence = store.win(slot, "a", max_late=1e9)
    store.finish(slot, "a")
    store.save(slot, fence)
    return fence


def test_a_job_is_declared_once_and_keeps_when_it_was_first_seen(store: Driver) -> None:
    began = from_seconds(store.clock.now)
    assert store.backend.declare([Declaration("job", "every 10s")]) == [began]
    store.clock.advance(60)

    seen = store.backend.declare([Declaration("new", "daily"), Declaration("job", "every 20s")])

    assert seen == [from_seconds(store.clock.now), began]


def test_rows_stay_while_they_are_young(store: Driver) -> None:
    run(store, 0)
    run(store, 10)
    store.clock.advance(100)

    assert not store.backend.prune([Retention("job", 100.0, 0, 1e9)])
    assert store.claim(0, "b", max_late=1e9).holder == "instance-a"


def test_an_old_row_goes_and_its_slot_stays_done(store: Driver) -> None:
    run(store, 0)
    run(store, 10)
    store.clock.advance(100.001)

    assert not store.backend.prune([Retention("job", 100.0, 0, 1e9)])
    answer = store.claim(0, "b", max_late=1e9)
    assert (answer.outcome, answer.holder) == ("done", None)


def test_a_fence_is_not_given_again_once_its_run_is_pruned(store: Driver) -> None:
    run(store, 10)
    fence = run(store, 0)
    store.clock.advance(1e8)
    store.backend.prune([EVERYTHING])
    assert store.statuses() == []

    assert store.win(1e8, "b") > fence


def test_the_newest_row_of_a_job_stays_for_ever(store: Driver) -> None:
    run(store, 0)
    run(store, 10)
    store.clock.advance(1e8)
    store.backend.prune([EVERYTHING])

    assert store.claim(10, "b").holder == "instance-a"


def test_a_row_stays_long_after_the_end_of_its_lease_however_old_its_slot(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    for _ in range(50):
        store.clock.advance(10)
        assert store.heartbeat(0, "a") == "ok"
    run_late = Retention("job", 100.0, 0, 1e9)
    store.win(500, "b", overlap="allow")
    assert store.finish(0, "a") is True

    store.backend.prune([run_late])
    assert store.finish(0, "a") is True  # the repeated call of a holder whose answer was lost
    store.clock.advance(101)
    store.backend.prune([run_late])
    assert store.finish(0, "a") is False


def test_a_row_with_a_live_lease_stays(store: Driver) -> None:
    store.win(0, "a", overlap="allow", lease=1000.0)
    store.win(10, "b", overlap="allow")
    store.clock.advance(500)
    store.clock.step(1e7)
    store.backend.prune([EVERYTHING])

    assert store.heartbeat(0, "a") == "ok"


def test_a_run_that_nobody_closed_leaves_a_lost_record_when_it_goes(store: Driver) -> None:
    fence = store.win(0, "a", overlap="allow")
    store.win(3600, "b", overlap="allow")
    store.clock.advance(1000)

    assert not store.backend.prune([Retention("job", 100.0, 1000, 1e9)])
    assert store.statuses() == [(fence, "lost")]
    assert store.finish(0, "a") is False


def test_a_released_run_that_nobody_closed_goes_without_a_record(store: Driver) -> None:
    store.win(0, "a")
    store.release(0, "a")
    store.win(3600, "b")
    store.clock.advance(1000)
    store.backend.prune([Retention("job", 100.0, 1000, 1e9)])

    assert store.statuses() == []
    assert [state.slot for state in store.unfinished()] == [at(3600)]


def test_the_pruned_mark_never_goes_back(store: Driver) -> None:
    store.win(0, "a", overlap="allow", lease=1000.0)
    store.win(100, "b", overlap="allow")
    store.finish(100, "b")
    store.clock.advance(500)
    store.finish(0, "a")
    run(store, 600)
    store.backend.prune([Retention("job", 300.0, 0, 1e9)])  # slot 100, since slot 0 ended now
    store.clock.advance(400)
    store.backend.prune([Retention("job", 300.0, 0, 1e9)])

    assert store.finish(0, "a") is False
    assert store.claim(50, "c", max_late=1e9).outcome == "done"
    assert store.claim(101, "c", max_late=1e9).outcome == "won"


def test_records_go_that_are_too_many_and_too_old(store: Driver) -> None:
    fences = [run(store, slot) for slot in range(5)]
    store.clock.advance(100)
    young = run(store, 100)

    store.backend.prune([Retention("job", 1e9, 2, 50.0)])
    assert [fence for fence, _status in store.statuses()] == [fences[-1], young]


def test_records_stay_that_are_too_many_but_young(store: Driver) -> None:
    fences = [run(store, slot) for slot in range(5)]
    store.clock.advance(50)

    store.backend.prune([Retention("job", 1e9, 2, 50.0)])
    assert len(store.statuses()) == len(fences)


def test_records_stay_that_are_old_but_few(store: Driver) -> None:
    run(store, 0)
    store.clock.advance(1e6)

    store.backend.prune([Retention("job", 1e9, 1, 50.0)])
    assert len(store.statuses()) == 1


def test_a_late_record_does_not_take_the_place_of_a_pruned_one(store: Driver) -> None:
    fence = store.win(0, "a", max_attempts=1)
    store.clock.advance(LEASE)
    assert store.take_over(0, "b", max_attempts=1).abandoned
    store.clock.advance(100)
    store.backend.prune([Retention("job", 1e9, 0, 50.0)])
    store.save(0, fence)

    assert store.statuses() == []


def test_a_job_without_a_retention_keeps_all(store: Driver) -> None:
    for slot in (0, 10):
        run(store, slot)
    store.clock.advance(1e8)

    assert not store.backend.prune([Retention("other", 0.0, 0, 0.0)])
    assert len(store.statuses()) == 2


def fill(store: Driver, slots: range) -> None:
    """Run many slots to their end, in one call of each kind."""
    claims = [a_claim(slot, f"t{slot}", overlap="allow", max_late=1e9) for slot in slots]
    answers = store.backend.claim(claims)
    store.backend.finish([Ending(c.job, c.slot, c.token, "success") for c in claims])
    now = from_seconds(store.clock.now)
    store.backend.save_results(
        [
            RunResult("job", c.slot, 1, a.fence, "i", "scheduled", "success", now, now, 0.0)
            for c, a in zip(claims, answers, strict=True)
        ]
    )


def test_a_call_removes_a_bounded_number_of_rows(store: Driver) -> None:
    fill(store, range(1201))
    store.clock.advance(1e6)

    assert store.backend.prune([EVERYTHING])
    assert len(store.backend.history(limit=5000)) == 1201
    assert store.backend.prune([EVERYTHING])
    assert len(store.backend.history(limit=5000)) == 401
    assert not store.backend.prune([EVERYTHING])
    assert store.backend.history() == []
    assert not store.backend.prune([EVERYTHING])


def test_a_full_batch_with_nothing_after_it_says_that_nothing_is_left(store: Driver) -> None:
    fill(store, range(501))
    store.clock.advance(1e6)

    assert store.backend.prune([EVERYTHING])  # 500 rows and 501 records
    assert not store.backend.prune([EVERYTHING])
    fill(store, range(1000, 1500))
    store.clock.advance(1e6)
    assert not store.backend.prune([EVERYTHING])  # 500 of each


def test_history_never_holds_more_than_the_limit(
    store: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("memory.tables", "sqlite.pruning", "server.backend"):
        monkeypatch.setattr(f"leasecron.backends.{module}.MAX_RECORDS", 3)
    fences = [run(store, slot) for slot in range(5)]

    for keep in (2, 4):
        store.backend.prune([Retention("job", 1e9, keep, 1e9)])
        assert [fence for fence, _status in store.statuses()] == fences[2:]
