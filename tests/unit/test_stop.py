"""Stopping: what is told to end, what is waited for, and what lives on."""

from __future__ import annotations

import queue
from collections.abc import Callable

import pytest
from runs_support import SEEDS, Fleet, Instance, at, seconds

from leasecron import BackendError, RunContext
from leasecron.model import Claim, ClaimAnswer, Outcome


def threads(fleet: Fleet) -> list[str]:
    """Name the service threads and workers that are alive."""
    seats = fleet.clock._turns._seats
    return sorted(s.thread.name for s in seats if s.service and s.thread.is_alive())


def in_thread(fleet: Fleet, call: Callable[[], object]) -> Callable[[], object]:
    """Start ``call`` in a thread of its own; the answer gives what it returned, when it has."""
    answers: list[object] = []
    fleet.clock.start_thread(lambda: answers.append(call()), "caller")
    return lambda: answers[0] if answers else "not back"


def working(fleet: Fleet, length: float) -> Instance:
    """Return a started instance whose job ignores its signal for ``length`` seconds at slot 600."""
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(length))
    fleet.start()
    fleet.until(601)
    return one


def test_stop_ends_every_thread(fleet: Fleet) -> None:
    one = working(fleet, 2)
    fleet.until(605)
    assert threads(fleet) == [
        "leasecron-events",
        "leasecron-store",
        "leasecron-timers",
        "leasecron-worker-1",
    ]
    assert one.scheduler.stop()
    fleet.clock.settle()
    assert threads(fleet) == []
    assert not one.running()


def test_stop_fires_nothing_more(fleet: Fleet) -> None:
    one = working(fleet, 30)
    one.every(1, lambda: None, name="other", lease=1, heartbeat=0.5)
    fleet.until(605.5)
    before = len(one.events)
    assert one.scheduler.stop(timeout=100)
    assert [event.name for event in one.events[before:]] == ["success"]
    fleet.until(700)
    assert [event.name for event in one.events[before:]] == ["success"]


def test_stop_tells_every_handler_and_waits_until_its_end_is_stored(fleet: Fleet) -> None:
    reasons: list[object] = []

    def handler(ctx: RunContext) -> None:
        ctx.signal.wait()
        reasons.append(ctx.signal.reason)
        fleet.nap(1)
        ctx.signal.raise_if_set()

    one = fleet.instance()
    for name in ("x", "y", "z"):
        one.every(600, handler, name=name)
    fleet.start()
    fleet.until(601)
    assert one.scheduler.stop()
    assert seconds(fleet.clock) == 602
    assert reasons == ["stop"] * 3
    assert [event.reason for event in one.of("interrupted")] == ["stop"] * 3
    released = [item for call in one.store.of("release") for item in call.items]
    assert {item.job for item in released} == {"x", "y", "z"}
    assert not any(item.counted for item in released)


def test_a_handler_that_ignores_stop_and_returns_has_succeeded(fleet: Fleet) -> None:
    other = fleet.instance()
    bodies: list[str] = []

    def handler(ctx: RunContext) -> None:
        bodies.append(ctx.instance)
        fleet.nap(6)

    one = fleet.instance()
    for instance in (one, other):
        instance.every(600, handler, lease=2, heartbeat=0.5)
    one.start()
    fleet.until(601)
    other.start()
    assert one.scheduler.stop(timeout=10)
    assert seconds(fleet.clock) == 606
    fleet.until(620)
    assert one.told == ["start", "success"]
    assert bodies == [one.scheduler.instance]
    assert [result.status for result in fleet.history()] == ["success"]


def test_stop_gives_up_waiting_and_the_handler_keeps_its_lease(fleet: Fleet) -> None:
    one = working(fleet, 100)
    assert one.scheduler.stop(timeout=10) is False
    assert seconds(fleet.clock) == 611
    assert not one.running()
    fleet.until(650)
    assert [call.at for call in one.store.of("heartbeat")][-3:] == [646, 648, 650]
    fleet.until(701)
    assert one.told == ["start", "success"]
    fleet.clock.settle()
    assert threads(fleet) == []
    assert one.scheduler.stop() is True


@pytest.mark.parametrize("timeout", [None, 1e10, float("inf"), 86_400])
def test_stop_waits_as_long_as_it_was_told(fleet: Fleet, timeout: float | None) -> None:
    one = working(fleet, 3600)
    assert one.scheduler.stop(timeout=timeout) is True
    assert seconds(fleet.clock) == 600 + 3600


def test_stop_with_no_time_asks_and_returns(fleet: Fleet) -> None:
    one = working(fleet, 100)
    assert one.scheduler.stop(timeout=0) is False
    assert seconds(fleet.clock) == 601
    assert one.scheduler.stop(timeout=200) is True
    assert one.told == ["start", "success"]


def test_stop_is_harmless_twice_before_a_start_and_from_several_threads(fleet: Fleet) -> None:
    one = fleet.instance()
    assert one.scheduler.stop() is True
    one.every(600, lambda: fleet.nap(50))
    fleet.start()
    fleet.until(601)
    first = in_thread(fleet, lambda: one.scheduler.stop(timeout=100))
    second = in_thread(fleet, lambda: one.scheduler.stop(timeout=None))
    third = in_thread(fleet, lambda: one.scheduler.stop(timeout=10))
    fleet.until(640)
    assert (first(), second(), third()) == ("not back", "not back", False)
    fleet.until(651)
    assert (first(), second()) == (True, True)
    assert one.scheduler.stop() is True
    assert one.told == ["start", "success"]


@pytest.mark.parametrize("seed", SEEDS)
def test_stop_from_a_handler_asks_and_returns_at_once(fleet: Fleet) -> None:
    seen: list[object] = []

    def handler(ctx: RunContext) -> None:
        seen.append(one.scheduler.stop(timeout=None))
        seen.append(seconds(fleet.clock))
        seen.append(ctx.signal.wait(1))
        seen.append(ctx.signal.reason)

    one = fleet.instance()
    one.every(600, handler)
    fleet.start()
    fleet.until(602)
    assert seen == [False, 600, True, "stop"]
    assert one.told == ["start", "success"]
    assert threads(fleet) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_stop_from_a_listener_asks_and_returns_at_once(fleet: Fleet) -> None:
    seen: list[object] = []
    one = fleet.instance()
    one.every(600, lambda ctx: ctx.sleep(100))
    one.scheduler.on("start", lambda _: seen.append(one.scheduler.stop(timeout=None)))
    fleet.start()
    fleet.until(602)
    assert seen == [False]
    assert one.told == ["start", "interrupted"]
    assert threads(fleet) == []


@pytest.mark.parametrize("seed", range(10))
def test_a_claim_won_after_a_stop_is_released_without_an_event(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None, max_attempts=1)

    def slow(_claims: list[Claim]) -> None:
        one.store.scripts.clear()
        fleet.nap(3)

    one.store.scripts["claim"] = slow
    fleet.start()
    fleet.until(601)
    assert one.scheduler.stop()
    assert seconds(fleet.clock) == 603
    assert one.events == []
    (ending,) = one.store.of("release")[0].items
    assert (ending.slot, ending.counted) == (at(600), False)
    other = fleet.instance()
    other.every(600, lambda: None, max_attempts=1)
    other.start()
    fleet.until(604)
    assert [(start.slot, start.attempt) for start in other.of("start")] == [(at(600), 2)]


def test_a_queued_claim_is_dropped_by_a_stop(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None)
    one.store.cut("claim")
    fleet.start()
    fleet.until(601)
    assert one.scheduler.stop(timeout=5)
    assert seconds(fleet.clock) <= 602
    assert one.told == ["error"]
    assert one.store.of("release") == []


def test_a_claim_won_after_a_remove_is_released_without_an_event(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None, max_attempts=1)
    one.store.scripts["claim"] = lambda _claims: fleet.nap(3)
    fleet.start()
    fleet.until(601)
    one.scheduler.remove("sync")
    fleet.until(610)
    assert one.events == []
    (ending,) = one.store.of("release")[0].items
    assert (ending.slot, ending.counted) == (at(600), False)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stop_right_after_the_start_is_no_error(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(1, lambda: None, lease=1, heartbeat=0.5)
    for _ in range(3):
        one.start()
        assert one.scheduler.stop(timeout=5)
        fleet.clock.advance(0.3)
    assert one.of("error") == []
    assert {"start", "success"} >= set(one.told)


def test_stop_returns_although_a_listener_hangs(fleet: Fleet) -> None:
    hanging = fleet.clock.waker()
    one = fleet.instance()
    one.every(600, lambda: None)
    one.scheduler.on("success", lambda _: hanging.get())
    fleet.start()
    fleet.until(601)
    assert one.scheduler.stop(timeout=30)
    assert seconds(fleet.clock) <= 607
    hanging.put(None)
    fleet.clock.settle()
    assert threads(fleet) == []


def test_what_was_emitted_before_a_stop_is_told_before_it_returns(fleet: Fleet) -> None:
    told: list[str] = []

    def slow(event: object) -> None:
        fleet.nap(1)
        told.append(type(event).__name__)

    one = fleet.instance()
    one.every(600, lambda ctx: ctx.sleep(100))
    one.scheduler.on("*", slow)
    fleet.start()
    fleet.until(600.5)
    assert one.scheduler.stop()
    assert told == ["RunStarted", "RunInterrupted"]


def test_an_end_that_cannot_be_stored_keeps_stop_waiting(fleet: Fleet) -> None:
    one = working(fleet, 5)
    one.store.cut()
    assert one.scheduler.stop(timeout=20) is False
    assert one.of("success") == []
    one.store.heal()
    assert one.scheduler.stop(timeout=5) is True
    assert [result.status for result in fleet.history()] == ["success"]
    assert one.told[-1] == "success"


def test_a_stopped_instance_does_not_watch_its_interrupted_runs(fleet: Fleet) -> None:
    one = working(fleet, 0.1)
    one.every(300, lambda ctx: ctx.sleep(100), name="other")
    fleet.until(901)
    assert one.scheduler.stop()
    assert one.store.of("claim", "takeover") == []


def test_a_thread_that_waits_for_a_signal_is_woken_by_stop(fleet: Fleet) -> None:
    inner = fleet.clock.waker()

    def handler(ctx: RunContext) -> None:
        for _ in range(3):
            fleet.clock.start_thread(lambda: inner.put(ctx.signal.wait()), "helper")
        ctx.signal.wait()

    one = fleet.instance()
    one.every(600, handler)
    fleet.start()
    fleet.until(601)
    with pytest.raises(queue.Empty):
        inner.get(0.5)
    assert one.scheduler.stop()
    assert [inner.get(1) for _ in range(3)] == [True] * 3


def test_questions_that_a_stop_cuts_short_are_no_errors_of_the_store(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None)
    one.store.cut("declare", "unfinished", "prune")
    fleet.start()
    fleet.until(10)
    assert one.scheduler.stop()
    assert {str(error.exception) for error in one.of("error")} == {"the line is cut"}


@pytest.mark.parametrize("outcome", ["running", "overlap", "late", "done", "early"])
@pytest.mark.parametrize("end", ["stop", "remove"])
def test_what_a_claim_is_answered_after_a_stop_or_a_remove_leads_to_nothing(
    fleet: Fleet, outcome: Outcome, end: str
) -> None:
    one = fleet.instance()
    one.every(600, lambda: None)

    def slow(claims: list[Claim]) -> list[ClaimAnswer]:
        fleet.nap(3)
        return [ClaimAnswer(outcome, holder="other", other=at(0), wait=1.0) for _ in claims]

    one.store.scripts["claim"] = slow
    fleet.start()
    fleet.until(601)
    if end == "stop":
        assert one.scheduler.stop()
    else:
        one.scheduler.remove("sync")
    fleet.until(700)
    assert one.events == []
    assert len(one.store.of("claim")) == 1
    assert one.store.of("release") == []


def test_a_claim_that_fails_after_a_stop_leads_to_nothing(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None)

    def slow(_claims: list[Claim]) -> None:
        fleet.nap(3)
        raise BackendError("no")

    one.store.scripts["claim"] = slow
    fleet.start()
    fleet.until(601)
    assert one.scheduler.stop()
    assert one.events == []
