"""The rows of the claim table for a run that has been claimed before, in their order."""

from __future__ import annotations

import random

import pytest

from contract.driver import LEASE, Driver, a_claim, at
from leasecron.jobs import MOST_OF_NAME
from leasecron.model import ClaimAnswer, Declaration

TOMORROW = 86_400.0


def test_a_repeated_claim_with_the_same_token_gets_the_same_answer(store: Driver) -> None:
    first = store.claim(0, "a")
    store.clock.advance(1)

    assert store.claim(0, "a") == first
    assert store.claim(0, "a", max_attempts=1, max_late=0.0) == first


def test_a_repeated_claim_has_its_lease_from_the_last_call(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE - 1)
    store.claim(0, "a")
    store.clock.advance(LEASE - 1)

    assert store.claim(0, "b").outcome == "running"
    store.clock.advance(1)
    assert store.claim(0, "b").outcome == "won"


def test_a_repeated_claim_after_its_lease_is_a_new_attempt(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)

    answer = store.claim(0, "a")

    assert (answer.outcome, answer.attempt) == ("won", 2)
    assert [result.attempt for result in answer.closed] == [1]


def test_a_repeated_claim_of_a_finished_run_is_done(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a", keep_lease=True)

    assert store.claim(0, "a").outcome == "done"


@pytest.mark.parametrize("status", ["success", "failed"])
@pytest.mark.parametrize("mode", ["claim", "takeover"])
def test_a_run_that_has_ended_is_done(store: Driver, status: str, mode: str) -> None:
    store.win(0, "a")
    store.finish(0, "a", status)  # type: ignore[arg-type]

    assert store.claim(0, "b", mode=mode) == ClaimAnswer("done", holder="instance-a")
    store.clock.advance(TOMORROW)
    assert store.claim(0, "b", mode=mode) == ClaimAnswer("done", holder="instance-a")


def test_an_ended_run_whose_lease_is_kept_is_done(store: Driver) -> None:
    store.win(0, "a")
    store.finish(0, "a", "failed", keep_lease=True)

    assert store.claim(0, "b").outcome == "done"


@pytest.mark.parametrize("mode", ["claim", "takeover"])
def test_a_run_with_a_live_lease_is_running(store: Driver, mode: str) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE - 0.001)

    answer = store.claim(0, "b", mode=mode)

    assert answer == ClaimAnswer("running", attempt=1, holder="instance-a")


def test_a_running_run_is_not_late(store: Driver) -> None:
    store.win(0, "a")

    assert store.claim(0, "b", max_late=-1.0).outcome == "running"


def test_a_run_whose_lease_is_over_is_won_as_the_next_attempt(store: Driver) -> None:
    first = store.win(0, "a")
    store.clock.advance(LEASE)

    answer = store.take_over(0, "b")

    assert (answer.outcome, answer.attempt) == ("won", 2)
    assert answer.fence is not None
    assert answer.fence > first


def test_a_takeover_does_not_ask_whether_the_slot_is_late(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)

    assert store.take_over(0, "b", max_late=0.0).outcome == "won"


def test_a_plain_claim_may_make_the_next_attempt_as_well(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)

    assert store.claim(0, "b").attempt == 2


def test_a_released_run_is_won_at_once(store: Driver) -> None:
    store.win(0, "a")
    store.release(0, "a")

    answer = store.take_over(0, "b")

    assert (answer.outcome, answer.attempt, answer.closed) == ("won", 2, ())


def test_a_run_whose_newer_slot_was_claimed_is_replaced(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.win(10, "b", overlap="allow", max_late=0.0)
    store.clock.advance(LEASE)

    answer = store.take_over(0, "c")

    assert (answer.outcome, answer.abandoned) == ("done", False)
    assert [(result.status, result.attempt) for result in answer.closed] == [("lost", 1)]
    assert store.take_over(0, "d") == ClaimAnswer("done", holder="instance-a")


def test_a_newer_slot_that_has_ended_replaces_as_well(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.clock.advance(10)
    store.win(10, "b", overlap="allow")
    store.finish(10, "b")
    store.clock.advance(LEASE)

    assert store.take_over(0, "c").outcome == "done"


def test_a_newer_slot_after_now_replaces_nothing(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.win(3600, "b", overlap="allow")
    store.clock.advance(LEASE)

    answer = store.take_over(0, "c", overlap="allow")

    assert (answer.outcome, answer.attempt) == ("won", 2)


def test_a_newer_slot_that_is_due_now_replaces(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.win(LEASE, "b", overlap="allow")
    store.clock.advance(LEASE)

    assert store.take_over(0, "c", overlap="allow").outcome == "done"


def test_a_newer_slot_of_another_job_replaces_nothing(store: Driver) -> None:
    store.win(0, "a")
    store.clock.advance(LEASE)
    store.win(10, "b", job="other")

    assert store.take_over(0, "c").attempt == 2


def test_a_run_without_attempts_left_is_abandoned(store: Driver) -> None:
    fence = store.win(0, "a", max_attempts=1)
    store.clock.advance(LEASE)

    answer = store.take_over(0, "b", max_attempts=1)

    assert (answer.outcome, answer.abandoned, answer.holder) == ("done", True, "instance-a")
    assert [(result.fence, result.status) for result in answer.closed] == [(fence, "lost")]
    assert store.take_over(0, "c", max_attempts=9) == ClaimAnswer("done", holder="instance-a")
    assert store.unfinished() == []


def test_an_abandoned_run_does_not_stand_in_the_way(store: Driver) -> None:
    store.win(0, "a", max_attempts=1)
    store.clock.advance(LEASE)

    assert store.claim(20, "b", max_attempts=1).outcome == "won"


def test_replaced_is_asked_before_abandoned(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.win(10, "b", overlap="allow")
    store.clock.advance(LEASE)

    answer = store.take_over(0, "c", max_attempts=1)

    assert (answer.outcome, answer.abandoned) == ("done", False)


def test_every_attempt_that_loses_its_lease_counts(store: Driver) -> None:
    store.win(0, "a")
    for attempt, token in ((2, "b"), (3, "c")):
        store.clock.advance(LEASE)
        assert store.take_over(0, token).attempt == attempt
    store.clock.advance(LEASE)

    assert store.take_over(0, "d").abandoned


def test_an_attempt_that_was_released_uncounted_does_not_count(store: Driver) -> None:
    store.win(0, "a", max_attempts=1)
    for number in range(5):
        token = "a" if number == 0 else f"t{number}"
        store.release(0, token)
        answer = store.take_over(0, f"t{number + 1}", max_attempts=1)
        assert (answer.outcome, answer.attempt) == ("won", number + 2)


def test_an_attempt_that_was_released_as_lost_counts_once(store: Driver) -> None:
    store.win(0, "a", max_attempts=2)
    store.release(0, "a", counted=True)
    store.release(0, "a", counted=True)
    assert store.take_over(0, "b", max_attempts=2).attempt == 2
    store.release(0, "b", counted=True)

    answer = store.take_over(0, "c", max_attempts=2)

    assert (answer.outcome, answer.abandoned, answer.closed) == ("done", True, ())


def test_a_run_whose_lease_is_over_waits_for_another_run_of_its_job(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.win(3600, "b", overlap="allow", lease=100.0)
    store.clock.advance(LEASE)

    answer = store.take_over(0, "c")

    assert answer == ClaimAnswer("overlap", holder="instance-b", other=at(3600))
    assert store.statuses() == []


def test_claims_of_one_call_see_each_other(store: Driver) -> None:
    claims = [a_claim(0, "a"), a_claim(0, "b"), a_claim(10, "c"), a_claim(0, "a", job="other")]

    answers = store.backend.claim(claims)

    assert [answer.outcome for answer in answers] == ["won", "running", "overlap", "won"]
    assert answers[0].fence != answers[3].fence


def test_a_call_with_nothing_in_it_answers_nothing(store: Driver) -> None:
    assert store.backend.claim([]) == []
    assert store.backend.heartbeat([]) == []
    assert store.backend.finish([]) == []
    assert store.backend.release([]) == []
    assert store.backend.unfinished([]) == []
    assert store.backend.declare([]) == []
    assert not store.backend.prune([])
    store.backend.save_results([])


def test_a_job_may_have_the_longest_name_that_can_be_declared(store: Driver) -> None:
    noise = random.Random(1)  # which no store can compress
    job = "".join(chr(noise.randrange(0x10000, 0x20000)) for _ in range(MOST_OF_NAME // 4))
    store.backend.declare([Declaration(job, "daily")])
    fence = store.win(0, "a", job=job)
    store.save(0, fence, job=job)

    assert store.finish(0, "a", job=job)
    assert store.statuses(job) == [(fence, "success")]


@pytest.mark.parametrize(
    "job", ["a/b", "ü 世界 🎉", 'it\'s "quoted"', "a\nb\t", "%s?:@[1]", "NULL"]
)
def test_a_job_may_have_any_name(store: Driver, job: str) -> None:
    store.win(0, "a", job=job)

    assert store.claim(0, "b", job=job).outcome == "running"
    assert store.claim(10, "b", job=job).outcome == "overlap"
    assert store.heartbeat(0, "a", job=job) == "ok"
    assert [state.job for state in store.unfinished(job)] == [job]
