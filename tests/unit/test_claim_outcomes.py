"""What each answer to a claim leads to, and a claim that has no answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from runs_support import SEEDS, Fleet, Instance, at

from leasecron import BackendError, BackendUnavailable, RunContext, RunSkipped, StoreFailed
from leasecron.model import Claim, ClaimAnswer


def script(
    instance: Instance, *answers: ClaimAnswer, mode: str = "claim"
) -> Callable[[list[Any]], list[ClaimAnswer] | None]:
    """Let the first claims of one mode have these answers."""
    left = [*answers]

    def answer(claims: list[Claim]) -> list[ClaimAnswer] | None:
        if not left or claims[0].mode != mode:
            return None
        return [left.pop(0) for _ in claims]

    instance.store.scripts["claim"] = answer
    return answer


def skips(instance: Instance) -> list[tuple[str, object, str | None]]:
    return [(skip.reason, skip.slot, skip.holder) for skip in instance.of("skip")]


def test_won_runs_the_handler(fleet: Fleet) -> None:
    seen: list[RunContext] = []
    one = fleet.instance()
    one.every(10, seen.append)
    script(one, ClaimAnswer("won", attempt=4, fence=77))
    fleet.start()
    fleet.until(11)
    assert [(ctx.attempt, ctx.fence, ctx.trigger) for ctx in seen] == [(4, 77, "scheduled")]


def test_running_is_skipped_as_taken_and_watched(fleet: Fleet) -> None:
    one = fleet.instance("one")
    one.every(600, lambda: None, catch_up=0)
    script(one, ClaimAnswer("running", attempt=1, holder="other"))
    fleet.start()
    fleet.until(605)
    assert one.events == [
        RunSkipped(
            at=at(600), job="sync", slot=at(600), instance="one", reason="taken", holder="other"
        )
    ]
    assert len(one.store.checks(at(600))) >= 1


def test_overlap_is_skipped_and_both_runs_are_watched(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None, catch_up=0)
    script(one, ClaimAnswer("overlap", holder="other", other=at(0)))
    fleet.start()
    fleet.until(605)
    assert skips(one) == [("overlap", at(600), "other")]
    assert len(one.store.checks(at(600))) >= 1
    assert len(one.store.checks(at(0))) >= 1


def test_late_is_skipped_and_not_watched(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None, catch_up=0)
    script(one, ClaimAnswer("late"))
    fleet.start()
    fleet.until(1100)
    assert skips(one) == [("late", at(600), None)]
    assert one.store.checks(at(600)) == []


def test_done_is_skipped_as_taken_and_not_watched(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None, catch_up=0)
    script(one, ClaimAnswer("done", holder="other"))
    fleet.start()
    fleet.until(1100)
    assert skips(one) == [("taken", at(600), "other")]
    assert one.store.checks(at(600)) == []


def test_early_asks_again_after_the_wait_and_says_nothing_else(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "leasecron")
    one = fleet.instance()
    one.every(10, lambda: None)
    script(one, ClaimAnswer("early", wait=3.5), ClaimAnswer("early", wait=1.5))
    fleet.start()
    fleet.until(19)
    assert [call.at for call in one.store.of("claim")] == [10, 13.5, 15]
    assert [(event.name, event.at) for event in one.events] == [
        ("start", at(15)),
        ("success", at(15)),
    ]
    assert one.of("start")[0].slot == at(10)
    assert one.of("start")[0].trigger == "scheduled"
    warnings = [record.getMessage() for record in caplog.records]
    assert [text for text in warnings if "clock" in text] == [
        "this machine's clock is 3.5 s ahead of the store's"
    ]


def test_an_early_slot_of_a_removed_job_is_not_asked_for_again(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    script(one, ClaimAnswer("early", wait=3.5))
    fleet.start()
    fleet.until(11)
    one.scheduler.remove("sync")
    fleet.until(20)
    assert [call.at for call in one.store.of("claim")] == [10]
    assert one.events == []


@pytest.mark.parametrize("error", [BackendError, ValueError, OSError])
def test_a_failed_claim_is_an_error_and_never_a_run(fleet: Fleet, error: type[Exception]) -> None:
    bodies: list[object] = []
    one = fleet.instance("one")
    one.every(10, lambda ctx: bodies.append(ctx.slot))
    fault = error("no")
    one.store.faults["claim"] = lambda: fault
    fleet.start()
    fleet.until(10.5)
    assert one.events == [
        StoreFailed(
            at=at(10),
            job="sync",
            slot=at(10),
            instance="one",
            operation="claim",
            exception=fault,
        )
    ]
    one.store.heal()
    fleet.until(21)
    assert bodies == [at(20)]


def test_the_guilty_claim_of_a_batch_fails_alone(fleet: Fleet) -> None:
    one = fleet.instance()
    for name in ("good", "bad", "fine"):
        one.every(10, lambda: None, name=name)

    def answer(claims: list[Claim]) -> None:
        if any(claim.job == "bad" for claim in claims):
            raise BackendError("not this one")

    one.store.scripts["claim"] = answer
    fleet.start()
    fleet.until(10.5)
    assert {event.job for event in one.of("success")} == {"good", "fine"}
    assert [(event.job, event.operation) for event in one.of("error")] == [("bad", "claim")]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_claim_is_tried_again_while_its_slot_is_not_late(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(100, lambda: None, max_late=30)
    fleet.start()
    one.store.cut("claim")
    fleet.until(125)
    one.store.heal()
    fleet.until(128)
    assert [(event.name, event.slot) for event in one.events] == [
        ("error", at(100)),
        ("start", at(100)),
        ("success", at(100)),
    ]
    assert 25 <= one.of("start")[0].lateness <= 26.5


def test_a_claim_whose_slot_is_late_is_given_up_with_an_error(fleet: Fleet) -> None:
    bodies: list[object] = []
    one = fleet.instance()
    one.every(100, lambda ctx: bodies.append(ctx.slot), max_late=30, catch_up=0)
    fleet.start()
    one.store.cut("claim")
    fleet.until(140)
    outage, given_up = one.of("error")
    assert (outage.at, outage.operation) == (at(100), "claim")
    assert (given_up.job, given_up.slot, given_up.operation) == ("sync", at(100), "claim")
    assert at(130) <= given_up.at <= at(131.5)
    assert isinstance(given_up.exception, BackendUnavailable)
    one.store.heal()
    fleet.until(201)
    assert bodies == [at(200)]


def test_a_claim_whose_answer_was_lost_is_won_by_its_own_token_once(fleet: Fleet) -> None:
    seen: list[RunContext] = []
    one = fleet.instance()
    one.every(100, seen.append)
    one.store.deaf.add("claim")
    fleet.start()
    fleet.until(103)
    assert seen == []
    one.store.heal()
    fleet.until(106)
    assert [(ctx.attempt, ctx.slot) for ctx in seen] == [(1, at(100))]
    assert [result.attempt for result in fleet.history()] == [1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lease_whose_claim_was_answered_late_is_trusted_no_longer_than_it_lasts(
    fleet: Fleet,
) -> None:
    """The first answer is lost, a later one arrives, and then nothing more reaches the store."""
    holder, backup = fleet.instance("holder"), fleet.instance("backup")
    told: list[tuple[int, object]] = []

    def handler(ctx: RunContext) -> None:
        if ctx.attempt == 1:
            holder.store.cut()
            ctx.signal.wait()
            told.append((1, fleet.clock.now()))
        else:
            told.append((2, fleet.clock.now()))

    for instance in (holder, backup):
        instance.every(100, handler, jitter=0)
    fleet.start()
    backup.store.cut()
    holder.store.deaf.add("claim")
    fleet.until(106.5)
    holder.store.heal()
    backup.store.heal()
    fleet.until(130)
    assert [attempt for attempt, _ in told] == [1, 2]


def test_a_claim_that_failed_but_was_made_is_found_by_the_backup(fleet: Fleet) -> None:
    seen: list[RunContext] = []
    one = fleet.instance()
    one.every(100, seen.append)

    def made_and_lost(claims: list[Claim]) -> None:
        one.store.inner.claim(claims)
        raise BackendError("what was written cannot be said")

    one.store.scripts["claim"] = made_and_lost
    fleet.start()
    fleet.until(100.5)
    one.store.heal()
    fleet.until(120)
    assert [(ctx.attempt, ctx.trigger, ctx.slot) for ctx in seen] == [(2, "takeover", at(100))]


def test_a_claim_answered_after_its_lease_is_released_and_taken_again(fleet: Fleet) -> None:
    seen: list[tuple[int, object]] = []
    one = fleet.instance()
    one.every(100, lambda ctx: seen.append((ctx.attempt, fleet.clock.now())), max_attempts=1)

    def slow(claims: list[Claim]) -> list[ClaimAnswer] | None:
        if claims[0].mode == "takeover":
            return None
        answers = one.store.inner.claim(claims)
        fleet.nap(7.5)  # the lease of 8 s is trusted for 7.2 s
        return answers

    one.store.scripts["claim"] = slow
    fleet.start()
    fleet.until(107.6)
    (error,) = one.of("error")
    assert (error.operation, error.job, error.slot) == ("start", "sync", at(100))
    assert isinstance(error.exception, BackendUnavailable)
    assert seen == []
    fleet.until(112)
    assert [attempt for attempt, _ in seen] == [2]  # so the first attempt was not counted


def test_no_claim_asks_for_more_than_its_job_says(fleet: Fleet) -> None:
    one = fleet.instance("one")
    one.every(
        100, lambda: None, lease=30, max_late=50, overlap="allow", max_attempts=7, name="other"
    )
    fleet.start()
    fleet.until(101)
    (claim,) = one.store.of("claim")[0].items
    assert claim == Claim(
        job="other",
        slot=at(100),
        token=claim.token,
        instance="one",
        lease=30.0,
        overlap="allow",
        max_attempts=7,
        max_late=50.0,
        mode="claim",
        trigger="scheduled",
    )
    assert len(claim.token) == 32
