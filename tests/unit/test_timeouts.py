"""Handlers that run past their timeout, and those that ignore it."""

from __future__ import annotations

from datetime import datetime

import pytest
from runs_support import SEEDS, Fleet, at, seconds

from leasecron import RunAborted, RunContext


def test_the_signal_is_set_at_the_timeout_and_the_run_has_failed_at_once(fleet: Fleet) -> None:
    told: list[tuple[float, object]] = []

    def handler(ctx: RunContext) -> None:
        ctx.signal.wait()
        told.append((seconds(fleet.clock), ctx.signal.reason))
        fleet.nap(50)

    one = fleet.instance()
    one.every(600, handler, timeout=5)
    fleet.start()
    fleet.until(606)
    assert told == [(605, "timeout")]
    (event,) = one.of("failure")
    assert event.at == at(605)
    assert isinstance(event.exception, TimeoutError)
    assert (event.result.error, event.result.duration) == (
        "TimeoutError: job 'sync' ran past its timeout of 5 s",
        5.0,
    )
    assert fleet.history() == [event.result]


@pytest.mark.parametrize("end", ["returns", "raises"])
def test_a_late_end_changes_nothing(fleet: Fleet, end: str) -> None:
    def handler() -> None:
        fleet.nap(20)
        if end == "raises":
            raise ValueError("nobody listens")

    one = fleet.instance()
    one.every(600, handler, timeout=5)
    fleet.start()
    fleet.until(606)
    before = fleet.history()
    fleet.until(700)
    assert one.told == ["start", "failure"]
    assert fleet.history() == before
    assert len(one.store.of("finish")) == len(one.store.of("save_results")) == 1


def test_the_lease_is_kept_and_renewed_until_the_thread_is_back(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(31), timeout=5)
    fleet.start()
    fleet.until(700)
    (ending,) = one.store.of("finish")[0].items
    assert (ending.status, ending.keep_lease) == ("failed", True)
    assert [call.at for call in one.store.of("heartbeat")] == [602.0 + 2 * n for n in range(15)]
    assert [call.at for call in one.store.of("release")] == [631]


@pytest.mark.parametrize("seed", SEEDS)
def test_two_bodies_never_overlap_although_the_handler_ignores_its_timeout(fleet: Fleet) -> None:
    live: list[datetime] = []
    bodies: list[datetime] = []

    def handler(ctx: RunContext) -> None:
        assert live == []
        live.append(ctx.slot)
        bodies.append(ctx.slot)
        fleet.nap(5)
        live.pop()

    for _ in range(2):
        fleet.instance().every(2, handler, timeout=1, lease=2, heartbeat=0.5, max_late=5)
    fleet.start()
    fleet.until(61)
    assert bodies == [at(n) for n in range(6, 61, 6)]
    failures = [event for instance in fleet.instances for event in instance.of("failure")]
    assert sorted(event.slot for event in failures)[:9] == bodies[:9]
    assert all(1 <= event.result.duration <= 1.6 for event in failures)
    skips = {skip.reason for instance in fleet.instances for skip in instance.of("skip")}
    assert skips == {"taken", "overlap"}
    assert {result.status for result in fleet.history()} == {"failed"}


@pytest.mark.parametrize("seed", range(20))
def test_a_return_that_races_with_the_timeout_has_one_end(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: fleet.nap(5), timeout=5)
    fleet.start()
    fleet.until(109)
    ends = [event for event in one.events if event.name in {"success", "failure"}]
    assert [event.slot for event in ends] == [at(n) for n in range(10, 101, 10)]
    names = {"success": "success", "failure": "failed"}
    results = [*reversed(fleet.history())]
    assert [result.status for result in results] == [names[event.name] for event in ends]
    assert [skip.reason for skip in one.of("skip")] == []


def test_a_handler_that_heeds_its_timeout_lets_the_next_slot_run(fleet: Fleet) -> None:
    def handler(ctx: RunContext) -> None:
        with pytest.raises(RunAborted) as caught:
            ctx.sleep(100)
        assert caught.value.reason == "timeout"

    one = fleet.instance()
    one.every(10, handler, timeout=5)
    fleet.start()
    fleet.until(29)
    assert one.told == ["start", "failure"] * 2
    assert all(isinstance(e.exception, TimeoutError) for e in one.of("failure"))


def test_a_timeout_whose_end_cannot_be_stored_yet_is_told_of_when_it_is(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(10), timeout=5)
    one.store.break_("finish")
    fleet.start()
    fleet.until(620)
    assert one.told == ["start", "error"]
    one.store.heal()
    fleet.until(622)
    assert one.told == ["start", "error", "failure"]
    fleet.until(640)
    assert one.store.of("release")[-1].at < 623  # the thread was back long before
    assert one.scheduler.stop(timeout=1)


def test_a_timed_out_run_that_was_taken_over_is_interrupted(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(10), timeout=5)
    one.store.scripts["finish"] = lambda endings: [False] * len(endings)
    fleet.start()
    fleet.until(611)
    assert [event.reason for event in one.of("interrupted")] == ["takeover"]
    assert one.of("failure") == []
    assert fleet.history() == []
    assert one.scheduler.stop(timeout=1)  # its thread is back, and nothing of it is left


def test_a_zombie_that_outlives_a_stop_keeps_its_lease(fleet: Fleet) -> None:
    one, other = fleet.instance(), fleet.instance()
    bodies: list[str] = []

    def handler(ctx: RunContext) -> None:
        bodies.append(ctx.instance)
        fleet.nap(58)

    one.every(20, handler, timeout=5)
    one.start()
    fleet.until(21)
    other.every(20, handler, timeout=5)
    other.start()
    fleet.until(26)
    assert not one.scheduler.stop(timeout=10)
    fleet.until(77)
    assert bodies == [one.scheduler.instance]
    assert [skip.reason for skip in other.of("skip")] == ["overlap", "overlap"]
    assert one.scheduler.stop(timeout=2)
    fleet.until(81)
    assert bodies == [one.scheduler.instance, other.scheduler.instance]


def test_a_timeout_longer_than_the_run_does_nothing(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(3), timeout="100d")
    fleet.start()
    fleet.until(600 + 3600)
    assert one.told[:2] == ["start", "success"]
    assert one.of("failure") == []


def test_a_handler_that_returns_late_is_not_let_go_before_its_end_is_recorded(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(4), timeout=2)
    one.store.cut("save_results")
    fleet.start()
    fleet.until(610)
    assert one.store.of("release") == []
    assert one.scheduler.stop(1) is False
    one.store.heal()
    fleet.until(620)
    assert one.told.count("failure") == 1
    assert len(one.store.of("release")) == 1
