"""Claims of runs that somebody has claimed before, many in a call."""

from __future__ import annotations

from contract.driver import LEASE, Driver, a_claim, at
from leasecron.model import ClaimAnswer


def test_a_call_answers_each_claim_by_how_its_run_stands(store: Driver) -> None:
    store.win(0, "a", job="done")
    store.finish(0, "a", job="done")
    store.win(0, "a", job="failed")
    store.finish(0, "a", "failed", job="failed", keep_lease=True)
    store.win(0, "a", job="over")
    store.win(0, "a", job="again")
    store.clock.advance(LEASE)
    assert store.take_over(0, "b", job="again").outcome == "won"
    store.win(0, "c", job="running")
    jobs = ["running", "again", "over", "failed", "done", "free", "running"]

    answers = store.backend.claim([a_claim(0, f"t{n}", job=job) for n, job in enumerate(jobs)])

    assert [answer.outcome for answer in answers] == [
        *("running", "running", "won", "done", "done", "won", "running"),
    ]
    assert [answer.holder for answer in answers] == [
        *("instance-c", "instance-b", None, "instance-a", "instance-a", None, "instance-c"),
    ]
    assert [answer.attempt for answer in answers] == [1, 2, 2, None, None, 1, 1]


def test_a_run_is_its_own_tokens_beside_another_claim_of_it(store: Driver) -> None:
    fence = store.win(0, "a")
    claims = [a_claim(0, "b"), a_claim(0, "a"), a_claim(0, "c")]

    answers = store.backend.claim(claims)

    running = ClaimAnswer("running", attempt=1, holder="instance-a")
    assert answers == [running, ClaimAnswer("won", attempt=1, fence=fence), running]


def test_a_token_is_its_runs_alone(store: Driver) -> None:
    store.win(0, "a", job="one")
    store.win(0, "b", job="two")

    answers = store.backend.claim([a_claim(0, "b", job="one"), a_claim(0, "a", job="two")])

    assert [answer.outcome for answer in answers] == ["running", "running"]


def test_a_run_is_found_by_its_slot_and_its_job_together(store: Driver) -> None:
    store.win(0, "a", job="one")
    store.win(10, "b", job="two")

    answers = store.backend.claim(
        [a_claim(10, "c", job="one", overlap="allow"), a_claim(0, "c", job="two", overlap="allow")]
    )

    assert [answer.outcome for answer in answers] == ["won", "won"]


def test_a_newer_slot_that_is_due_replaces_below_one_that_is_not(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.win(10, "b", overlap="allow")
    store.finish(10, "b")
    store.win(3600, "c", overlap="allow")  # before the clock was set back
    store.finish(3600, "c")
    store.clock.advance(LEASE)

    assert store.take_over(0, "d").outcome == "done"
    assert [state.slot for state in store.unfinished()] == []


def test_only_newer_slots_that_are_due_replace(store: Driver) -> None:
    store.win(0, "a", overlap="allow")
    store.finish(0, "a")
    store.win(10, "b", overlap="allow")
    store.win(10, "b", job="other", overlap="allow")
    store.win(15, "c", job="other", overlap="allow")
    store.win(3600, "d", overlap="allow")
    store.finish(3600, "d")
    store.clock.advance(LEASE)

    answer = store.take_over(10, "e")

    assert (answer.outcome, answer.attempt) == ("won", 2)
    assert [state.slot for state in store.unfinished()] == [at(10)]


def test_an_older_slot_that_is_claimed_later_replaces_nothing_newer(store: Driver) -> None:
    store.win(10, "a", overlap="allow")
    store.win(0, "b", overlap="allow", max_late=1e9)
    store.finish(0, "b")
    store.clock.advance(LEASE)

    assert store.take_over(10, "c").attempt == 2


def test_newer_slots_are_known_for_each_claim_of_a_call(store: Driver) -> None:
    for job in ("one", "two"):
        for slot in (0, 10):
            store.win(slot, "a", job=job, overlap="allow")
    store.clock.advance(LEASE)

    answers = store.backend.claim(
        [
            a_claim(slot, "b", job=job, mode="takeover")
            for job, slot in (("two", 10), ("one", 0), ("one", 10), ("two", 0))
        ]
    )

    assert [answer.outcome for answer in answers] == ["won", "done", "won", "done"]
