"""What start() adds: unfinished runs are watched, taken over or left, before anything fires."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from runs_support import HEARTBEAT, LEASE, SEEDS, Fleet, Instance, at, seconds

from leasecron import RunContext

RUNS = 20.0  # how long a handler takes here


def body(fleet: Fleet, log: list[tuple[str, float, int, str]]) -> Callable[[RunContext], None]:
    """Return a handler that notes who runs what from when on, and stays for a while."""

    def handler(ctx: RunContext) -> None:
        log.append((ctx.instance, (ctx.slot - at(0)).total_seconds(), ctx.attempt, ctx.trigger))
        fleet.nap(RUNS)

    return handler


def crashed(fleet: Fleet, log: list[tuple[str, float, int, str]], **options: int) -> Instance:
    """Return an instance that has won slot 60, and is gone at 62."""
    first = fleet.instance("first")
    first.every(60, body(fleet, log), **options)  # type: ignore[arg-type]
    first.start()
    fleet.until(62)
    first.store.cut()
    assert log == [("first", 60, 1, "scheduled")]
    return first


def takeovers(instance: Instance) -> list[float]:
    return [call.at for call in instance.store.of("claim", "takeover")]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_whose_lease_is_alive_is_watched(fleet: Fleet) -> None:
    log: list[tuple[str, float, int, str]] = []
    first, second = fleet.instance("first"), fleet.instance("second")
    for instance in (first, second):
        instance.every(60, body(fleet, log))
    first.start()
    fleet.until(62)
    second.start()
    fleet.until(100)
    assert log == [("first", 60, 1, "scheduled")]
    checks = second.store.checks(at(60))
    assert len(checks) >= 5
    assert 62 + HEARTBEAT <= checks[0] <= 62 + 2 * HEARTBEAT
    assert 80 < checks[-1] <= 80 + 2 * HEARTBEAT  # until it is done, and no longer
    assert second.told == []  # watching is no event


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_watched_since_the_start_is_taken_over_like_any_other(fleet: Fleet) -> None:
    log: list[tuple[str, float, int, str]] = []
    crashed(fleet, log)
    second = fleet.instance("second")
    second.every(60, body(fleet, log))
    second.start()
    fleet.until(62 + LEASE + 2 * HEARTBEAT)
    assert log[1:] == [("second", 60, 2, "takeover")]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_whose_lease_ran_out_is_taken_over_at_once_if_it_is_the_latest(fleet: Fleet) -> None:
    log: list[tuple[str, float, int, str]] = []
    crashed(fleet, log)
    fleet.until(75)
    second = fleet.instance("second")
    second.every(60, body(fleet, log))
    second.start()
    fleet.clock.settle()
    assert log[1:] == [("second", 60, 2, "takeover")]
    assert takeovers(second) == [75]
    assert [event.trigger for event in second.of("start")] == ["takeover"]
    fleet.until(100)
    history = [(r.attempt, r.status, r.instance) for r in fleet.history()]
    assert history == [(2, "success", "second"), (1, "lost", "first")]


@pytest.mark.parametrize("seed", SEEDS)
def test_of_several_that_come_back_one_takes_the_run_over(fleet: Fleet) -> None:
    log: list[tuple[str, float, int, str]] = []
    crashed(fleet, log)
    fleet.until(75)
    back = [fleet.instance(f"back-{number}") for number in range(4)]
    for instance in back:
        instance.every(60, body(fleet, log))
        instance.start()
    fleet.until(110)
    assert [(slot, attempt) for _, slot, attempt, _ in log] == [(60, 1), (60, 2)]
    assert [event for instance in back for event in instance.of("skip")] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_whose_lease_ran_out_is_left_when_a_newer_one_is_due(fleet: Fleet) -> None:
    log: list[tuple[str, float, int, str]] = []
    crashed(fleet, log)
    fleet.until(125)
    second = fleet.instance("second")
    second.every(60, body(fleet, log))
    second.start()
    fleet.clock.settle()
    assert log[1:] == [("second", 120, 1, "catch-up")]
    assert takeovers(second) == []
    fleet.until(170)
    history = [(r.slot, r.attempt, r.status) for r in fleet.history()]
    assert history == [(at(120), 1, "success"), (at(60), 1, "lost")]


def test_a_run_that_is_left_is_replaced_by_the_next_one_if_none_is_caught_up(fleet: Fleet) -> None:
    log: list[tuple[str, float, int, str]] = []
    crashed(fleet, log)
    fleet.until(125)
    second = fleet.instance("second")
    second.every(60, body(fleet, log), catch_up=0)
    second.start()
    fleet.until(179)
    assert log[1:] == []
    assert takeovers(second) == []
    fleet.until(181)
    assert log[1:] == [("second", 180, 1, "scheduled")]
    assert [(r.slot, r.status) for r in fleet.history()] == [(at(60), "lost")]


def test_a_run_of_which_all_attempts_are_used_up_is_ended_as_failed(fleet: Fleet) -> None:
    log: list[tuple[str, float, int, str]] = []
    crashed(fleet, log, max_attempts=1)
    fleet.until(75)
    second = fleet.instance("second")
    second.every(60, body(fleet, log), max_attempts=1)
    second.start()
    fleet.until(119)
    assert log[1:] == []
    (failure,) = second.of("failure")
    assert (failure.slot, failure.exception, failure.result.status) == (at(60), None, "lost")
    assert second.told == ["failure"]


def test_a_run_that_a_stopped_instance_gave_back_is_taken_over(fleet: Fleet) -> None:
    log: list[tuple[str, float, int, str]] = []
    first, second = fleet.instance("first"), fleet.instance("second")
    first.every(60, lambda ctx: ctx.sleep(RUNS))
    second.every(60, body(fleet, log), max_attempts=1)
    first.start()
    fleet.until(62)
    assert first.scheduler.stop()
    second.start()
    fleet.clock.settle()
    assert log == [("second", 60, 2, "takeover")]  # what was given back counts as no attempt


def test_runs_of_jobs_that_are_not_declared_are_left_alone(fleet: Fleet) -> None:
    log: list[tuple[str, float, int, str]] = []
    crashed(fleet, log)
    fleet.until(75)
    second = fleet.instance("second")
    second.every(3600, lambda: None, name="other")
    second.start()
    fleet.until(100)
    assert log[1:] == []
    assert [call.items for call in second.store.of("unfinished")] == [["other"]]


def test_many_jobs_are_recovered_in_one_call(fleet: Fleet) -> None:
    one = fleet.instance()
    names = [f"job {number}" for number in range(100)]
    for name in names:
        one.every(60, lambda: None, name=name)
    one.start()
    fleet.until(61)
    assert [call.items for call in one.store.of("unfinished")] == [names]
    assert {event.job for event in one.of("success")} == set(names)


@pytest.mark.parametrize("takes", [0.5, 55, 56, 60, 120, 175])
def test_latest_and_next_slot_come_from_one_reading_when_the_store_has_answered(
    fleet: Fleet, takes: float
) -> None:
    bodies: list[float] = []
    one = fleet.instance()
    one.every(60, lambda ctx: bodies.append((ctx.slot - at(0)).total_seconds()))
    one.store.scripts["unfinished"] = lambda _: fleet.nap(takes)
    before = seconds(fleet.clock)
    one.start()
    assert seconds(fleet.clock) == before  # start() does not wait for it
    fleet.until(299)
    last_passed = [slot for slot in (60, 120) if slot < 4.5 + takes][-1:]
    assert bodies == last_passed + [slot for slot in (60, 120, 180, 240) if slot >= 4.5 + takes]
    assert one.of("skip") == []


def test_a_store_that_goes_away_at_the_start_delays_recovery_and_loses_nothing(
    fleet: Fleet,
) -> None:
    log: list[tuple[str, float, int, str]] = []
    crashed(fleet, log)
    fleet.until(75)
    second = fleet.instance("second")
    second.every(60, body(fleet, log))
    second.store.scripts["open"] = lambda _: second.store.cut()
    second.start()
    fleet.until(100)
    assert second.told == ["error"]
    second.store.heal()
    fleet.until(102)
    assert log[1:] == [("second", 60, 2, "takeover")]
    fleet.until(121)
    assert [entry[1] for entry in log[2:]] == []  # the takeover runs still: an overlap
    fleet.until(181)
    assert log[2:] == [("second", 180, 1, "scheduled")]


def test_a_store_that_answers_with_errors_is_asked_again_every_five_seconds(fleet: Fleet) -> None:
    bodies: list[float] = []
    one = fleet.instance()
    one.every(60, lambda ctx: bodies.append((ctx.slot - at(0)).total_seconds()))
    one.store.break_("unfinished")
    one.start()
    fleet.until(30)
    assert [event.operation for event in one.of("error")] == ["unfinished"] * 6
    assert {event.job for event in one.of("error")} == {"sync"}
    one.store.heal()
    fleet.until(181)
    assert bodies == [60, 120, 180]


def test_a_store_that_cannot_note_the_job_leaves_it_armed_and_catches_nothing_up(
    fleet: Fleet,
) -> None:
    bodies: list[float] = []
    fleet.until(62)
    one = fleet.instance()
    one.every(60, lambda ctx: bodies.append((ctx.slot - at(0)).total_seconds()))
    one.store.break_("declare")
    one.start()
    fleet.until(181)
    assert bodies == [120, 180]
    assert {(event.operation, event.job) for event in one.of("error")} == {("declare", "sync")}


def test_a_store_that_said_before_when_a_job_was_first_seen_need_not_say_it_again(
    fleet: Fleet,
) -> None:
    one = fleet.instance()
    one.every(60, lambda: None)
    one.start()
    fleet.until(30)
    assert one.scheduler.stop()
    one.store.break_("declare")
    fleet.until(65)
    one.start()
    fleet.until(70)
    assert [(start.slot, start.trigger) for start in one.of("start")] == [(at(60), "catch-up")]
