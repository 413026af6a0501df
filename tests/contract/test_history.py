"""Records of the history: one per attempt, and a late one never overwrites ``lost``."""

from __future__ import annotations

import pytest

from contract.driver import LEASE, Driver, at
from contract.hand_clock import HandClock
from leasecron.model import RunResult, from_seconds


def test_a_record_comes_back_as_it_was_saved(store: Driver) -> None:
    fence = store.win(0, "a")
    result = RunResult(
        job="job",
        slot=at(0),
        attempt=1,
        fence=fence,
        instance="instance-a",
        trigger="catch-up",
        status="failed",
        started_at=from_seconds(store.clock.now + 0.25),
        ended_at=from_seconds(store.clock.now + 1.5),
        duration=1.25,
        error="ValueError: ü 🎉 \0 'quoted'",
    )

    store.backend.save_results([result])

    assert store.backend.history() == [result]


def test_a_record_is_saved_once(store: Driver) -> None:
    fence = store.win(0, "a")
    store.finish(0, "a")
    store.save(0, fence, "success")
    store.save(0, fence, "failed")

    assert store.statuses() == [(fence, "success")]


def test_a_record_without_its_run_is_dropped(store: Driver) -> None:
    fence = store.win(0, "a")
    store.save(10, fence)
    store.save(0, fence, job="other")
    store.save(0, fence + 1)
    store.save(0, None)

    assert store.statuses(None) == []


def test_a_late_record_does_not_overwrite_lost(store: Driver) -> None:
    first = store.win(0, "a")
    store.clock.advance(LEASE)
    second = store.take_over(0, "b").fence
    store.save(0, first, "success")
    store.save(0, second, "failed")

    assert store.statuses() == [(first, "lost"), (second, "failed")]


@pytest.mark.parametrize("closing", ["replaced", "abandoned"])
def test_no_record_of_a_closed_run_is_taken(store: Driver, closing: str) -> None:
    fence = store.win(0, "a")
    store.clock.advance(LEASE)
    if closing == "replaced":
        store.win(20, "b")
    else:
        assert store.take_over(0, "b", max_attempts=1).abandoned
    store.save(0, fence, "success")

    assert store.statuses() == [(fence, "lost")]


def test_the_record_of_a_released_attempt_may_come_late(store: Driver) -> None:
    first = store.win(0, "a")
    store.release(0, "a")
    second = store.take_over(0, "b").fence
    store.save(0, first, "interrupted")
    store.clock.advance(LEASE)
    store.win(30, "c")
    store.save(0, first, "success")

    assert store.statuses() == [(first, "interrupted"), (second, "lost")]


def test_the_records_of_attempts_that_were_released_one_after_another_may_all_come_late(
    store: Driver,
) -> None:
    first = store.win(0, "a")
    store.release(0, "a")
    second = store.take_over(0, "b").fence
    store.release(0, "b")
    third = store.take_over(0, "c").fence
    store.save(0, first, "interrupted")
    store.save(0, third, "success")
    store.save(0, second, "interrupted")

    assert store.statuses() == [(first, "interrupted"), (second, "interrupted"), (third, "success")]


def test_the_record_of_a_released_attempt_may_come_after_its_run_was_replaced(
    store: Driver,
) -> None:
    fence = store.win(0, "a")
    store.release(0, "a")
    store.clock.advance(10)
    store.win(10, "b")
    store.save(0, fence, "interrupted")

    assert store.statuses() == [(fence, "interrupted")]


def test_history_is_newest_first_and_limited(store: Driver) -> None:
    fences = []
    for slot in range(5):
        fences.append(store.win(slot, "a", job=f"job-{slot % 2}", overlap="allow"))
        store.save(slot, fences[-1], job=f"job-{slot % 2}")

    newest = [result.fence for result in store.backend.history(limit=3)]
    even = [result.fence for result in store.backend.history("job-0")]

    assert newest == fences[:1:-1]
    assert even == fences[::-2]
    assert store.backend.history(limit=0) == []
    assert store.backend.history(limit=-1) == []
    assert store.backend.history("nobody") == []


def test_text_that_is_no_unicode_is_kept_as_far_as_it_can_be(store: Driver) -> None:
    fence = store.win(0, "a")
    store.save(0, fence, "failed", error="before \ud800 after")

    (result,) = store.backend.history()

    assert result.error is not None
    assert result.error.encode("utf-8") == b"before ? after"


def test_fences_rise_over_jobs_attempts_and_a_clock_set_back(
    store: Driver, clock: HandClock
) -> None:
    fences = [store.win(0, "a", job=f"job-{number}") for number in range(3)]
    clock.step(-7200)
    fences.append(store.win(0, "a", job="job-3"))
    clock.advance(LEASE)
    answer = store.take_over(0, "b", job="job-3")
    assert answer.fence is not None
    fences.append(answer.fence)

    assert fences == sorted(set(fences))


def test_a_claim_that_is_not_won_takes_no_fence(store: Driver) -> None:
    first = store.win(0, "a")
    store.claim(0, "b")
    store.claim(10, "b")

    assert store.win(0, "c", job="other") == first + 1
