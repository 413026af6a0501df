"""Jobs that are added and removed, and stops that are taken back, while jobs are recovered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from runs_support import SEEDS, Fleet, Instance, at

from leasecron import RunContext


def noting(bodies: list[float]) -> Callable[[RunContext], object]:
    return lambda ctx: bodies.append((ctx.slot - at(0)).total_seconds())


def slow_to_recover(fleet: Fleet, takes: float) -> Instance:
    """Return a running instance whose store takes its time to name unfinished runs."""
    one = fleet.instance()
    one.start()
    one.store.scripts["unfinished"] = lambda _: fleet.nap(takes)
    return one


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_added_after_the_start_is_recovered_too(fleet: Fleet) -> None:
    first, second = fleet.instance("first"), fleet.instance("second")
    first.every(600, lambda: fleet.nap(100))
    first.start()
    second.start()
    fleet.until(602)
    first.store.cut()
    fleet.until(620)
    attempts: list[tuple[int, str]] = []
    second.every(600, lambda ctx: attempts.append((ctx.attempt, ctx.trigger)))
    fleet.clock.settle()
    assert attempts == [(2, "takeover")]
    fleet.until(1201)
    assert attempts[1:] == [(1, "scheduled")]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_removed_during_its_recovery_is_neither_armed_nor_claimed(fleet: Fleet) -> None:
    bodies: list[float] = []
    first = fleet.instance("first")
    first.every(60, lambda: fleet.nap(100))
    first.start()
    fleet.until(62)
    first.store.cut()
    fleet.until(80)  # what it leaves behind could be taken over
    one = slow_to_recover(fleet, 3)
    one.scheduler.every("sync", 60, noting(bodies), catch_up="1h")
    fleet.until(81)
    one.scheduler.remove("sync")
    fleet.until(200)
    assert bodies == []
    assert one.store.of("claim") == []
    assert one.told == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_removed_and_added_again_during_its_recovery_runs_once_for_each_slot(
    fleet: Fleet,
) -> None:
    old: list[float] = []
    new: list[float] = []
    one = slow_to_recover(fleet, 3)
    one.scheduler.every("sync", 60, noting(old))
    fleet.until(6)
    one.scheduler.remove("sync")
    one.scheduler.every("sync", 60, noting(new))
    fleet.until(181)
    assert old == []
    assert new == [60, 120, 180]
    assert one.of("skip") == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_removed_before_its_catch_up_is_not_caught_up(fleet: Fleet) -> None:
    bodies: list[float] = []
    one = fleet.instance()
    one.start()
    fleet.until(61)
    one.scheduler.every("sync", 60, noting(bodies), catch_up="1h", jitter="50s")
    fleet.clock.settle()
    one.scheduler.remove("sync")
    fleet.until(200)
    assert bodies == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stop_that_is_taken_back_during_a_recovery_loses_no_slot(fleet: Fleet) -> None:
    bodies: list[float] = []
    one = fleet.instance()
    one.every(60, lambda: fleet.nap(100), name="deaf")  # so that the stop does not come to its end
    one.start()
    fleet.until(61)
    one.store.scripts["unfinished"] = lambda _: fleet.nap(5)
    one.scheduler.every("sync", 10, noting(bodies))
    fleet.until(62)
    assert not one.scheduler.stop(timeout=0)
    one.start()
    fleet.until(101)
    assert bodies == [70, 80, 90, 100]
    assert one.scheduler.running


def test_a_stop_that_is_taken_back_between_two_tries_loses_no_slot(fleet: Fleet) -> None:
    bodies: list[float] = []
    one = fleet.instance()
    one.every(60, lambda: fleet.nap(100), name="deaf")
    one.start()
    fleet.until(61)
    one.store.break_("unfinished")
    one.scheduler.every("sync", 10, noting(bodies))
    fleet.until(62)
    assert not one.scheduler.stop(timeout=0)
    one.store.heal()
    one.start()
    fleet.until(101)
    assert bodies == [70, 80, 90, 100]


def test_a_handler_may_add_a_job_and_remove_its_own(fleet: Fleet) -> None:
    bodies: list[float] = []
    one = fleet.instance()

    def handler(ctx: RunContext) -> None:
        ctx.sleep(1)
        one.scheduler.every("next", 10, noting(bodies))
        one.scheduler.remove("sync")

    one.every(60, handler)
    one.start()
    fleet.until(101)
    assert bodies == [70, 80, 90, 100]
    assert [event.job for event in one.of("success")] == ["sync", *["next"] * 4]
