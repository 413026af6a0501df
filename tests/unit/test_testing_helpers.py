"""What applications test their jobs with: recorded events, single runs, and made-up contexts."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from runs_support import OPTIONS, SEEDS, Fleet, at, seconds

from leasecron import RunContext, RunFailed, RunSkipped, RunStarted, RunSucceeded, Scheduler
from leasecron.testing import EventRecorder, FakeClock, make_context, run_once


@pytest.fixture
def clock(seed: int) -> FakeClock:
    return FakeClock(at(4.5), seed=seed)


@pytest.fixture
def scheduler(clock: FakeClock) -> Scheduler:
    return Scheduler("memory://", clock=clock, instance="one", defaults=OPTIONS)


def a_skip(slot: datetime) -> RunSkipped:
    return RunSkipped(at=slot, job="sync", slot=slot, instance="one", reason="late")


@pytest.mark.parametrize("seed", SEEDS)
def test_waiting_for_an_event_lets_simulated_time_flow(
    scheduler: Scheduler, clock: FakeClock
) -> None:
    scheduler.every("sync", "1h", lambda ctx: ctx.sleep(3))
    recorder = EventRecorder(scheduler)
    with scheduler:
        event = recorder.wait_for("success", timeout=4000)
        assert isinstance(event, RunSucceeded)
        assert event.slot == at(3600)
        assert seconds(clock) == 3603


def test_each_event_is_waited_for_once_and_past_ones_count(
    scheduler: Scheduler, clock: FakeClock
) -> None:
    scheduler.every("sync", "10s", lambda: None)
    recorder = EventRecorder(scheduler)
    with scheduler:
        clock.advance(30)
        slots = [recorder.wait_for("start", timeout=15).slot for _ in range(4)]
        assert slots == [at(10), at(20), at(30), at(40)]
        assert [recorder.wait_for(RunSucceeded).slot for _ in range(4)] == slots
        assert [event.slot for event in recorder.of(RunStarted)] == slots
        assert [event.slot for event in recorder.of("success")] == slots
        assert recorder.of("failure") == []


def test_an_event_that_does_not_come_is_an_error_that_lists_the_others(
    scheduler: Scheduler, clock: FakeClock
) -> None:
    scheduler.every("sync", "10s", lambda: None)
    recorder = EventRecorder(scheduler)
    with scheduler:
        before = seconds(clock)
        with pytest.raises(TimeoutError) as caught:
            recorder.wait_for("failure", timeout=7)
        assert seconds(clock) == before + 7
    assert str(caught.value) == (
        "no 'failure' within 7 s; seen were ['start sync', 'success sync']"
    )
    with pytest.raises(TimeoutError, match="RunFailed"):
        recorder.wait_for(RunFailed, timeout=0)


def test_a_recorder_that_is_closed_hears_no_more(scheduler: Scheduler, clock: FakeClock) -> None:
    scheduler.every("sync", "10s", lambda: None)
    recorder = EventRecorder(scheduler)
    with scheduler:
        clock.advance(7)
        recorder.close()
        recorder.close()
        clock.advance(10)
    assert [event.slot for event in recorder.of("start")] == [at(10)]


def test_a_recorder_without_a_scheduler_is_a_listener_in_real_time() -> None:
    recorder = EventRecorder()
    timer = threading.Timer(0.02, recorder, [a_skip(at(0))])
    timer.start()
    assert recorder.wait_for("skip", timeout=10) == a_skip(at(0))
    with pytest.raises(TimeoutError):
        recorder.wait_for("skip", timeout=0.001)
    recorder.close()
    timer.join()


def test_a_single_run_succeeds_without_a_start_and_without_a_trace(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leasecron")
    seen: list[RunContext] = []
    scheduler.every("sync", "10s", seen.append)
    recorder = EventRecorder(scheduler)
    result = run_once(scheduler, "sync")
    (ctx,) = seen
    assert (ctx.job, ctx.slot, ctx.trigger, ctx.attempt) == ("sync", at(4.5), "manual", 1)
    assert (ctx.instance, ctx.lateness) == ("one", 0)
    assert isinstance(ctx.fence, int)
    assert (result.status, result.job, result.slot) == ("success", "sync", at(4.5))
    assert recorder.events == []
    assert scheduler.history() == []
    assert not scheduler.running
    assert "run succeeded" in caplog.text


def test_a_single_run_that_fails_is_a_result(scheduler: Scheduler) -> None:
    @scheduler.every("sync", "10s")
    def sync() -> None:
        raise ValueError("no")

    result = run_once(scheduler, "sync")
    assert (result.status, result.error) == ("failed", "ValueError: no")


def test_a_single_run_has_its_timeout(scheduler: Scheduler, clock: FakeClock) -> None:
    scheduler.every("sync", "10s", lambda ctx: ctx.sleep(100), timeout=5)
    result = run_once(scheduler, "sync")
    assert (result.status, result.duration) == ("failed", 5.0)
    assert result.error is not None
    assert result.error.startswith("TimeoutError")
    assert seconds(clock) < 11


@pytest.mark.parametrize(
    "slot", [at(0), at(-86_400 * 365 * 50), at(86_400 * 400)], ids=["now", "long ago", "to come"]
)
def test_a_single_run_can_be_for_any_slot(scheduler: Scheduler, slot: datetime) -> None:
    seen: list[RunContext] = []
    scheduler.every("sync", "10s", seen.append, max_late=1)
    assert run_once(scheduler, "sync", slot).slot == slot
    assert seen[0].slot == slot
    assert seen[0].lateness >= 0


def test_the_slot_of_a_single_run_is_that_instant_in_utc_and_whole_milliseconds(
    scheduler: Scheduler,
) -> None:
    seen: list[RunContext] = []
    scheduler.every("sync", "10s", seen.append)
    there = timezone(timedelta(hours=2))
    result = run_once(scheduler, "sync", datetime(2026, 1, 1, 2, 0, 3, 1234, tzinfo=there))
    expected = datetime(2026, 1, 1, 0, 0, 3, 1000, tzinfo=UTC)
    for slot in (result.slot, seen[0].slot):
        assert slot == expected
        assert slot.tzinfo is UTC


def test_a_single_run_leaves_a_running_scheduler_alone(
    scheduler: Scheduler, clock: FakeClock
) -> None:
    bodies: list[str] = []
    scheduler.every("sync", "10s", lambda ctx: bodies.append(ctx.trigger))
    recorder = EventRecorder(scheduler)
    with scheduler:
        clock.advance(7)
        run_once(scheduler, "sync", at(10))
        clock.advance(10)
    assert bodies == ["scheduled", "manual", "scheduled"]
    assert [event.slot for event in recorder.of("success")] == [at(10), at(20)]


def test_single_runs_leave_no_threads_behind(scheduler: Scheduler, clock: FakeClock) -> None:
    scheduler.every("sync", "10s", lambda: None)
    for _ in range(5):
        run_once(scheduler, "sync")
    clock.settle()
    assert [seat.thread.name for seat in clock._turns._seats if seat.service] == []


def test_a_single_run_works_with_the_clocks_of_the_machine() -> None:
    scheduler = Scheduler("memory://")
    scheduler.every("sync", "1h", lambda ctx: ctx.sleep(0.01))
    before = set(threading.enumerate())
    result = run_once(scheduler, "sync")
    assert result.status == "success"
    assert result.duration >= 0.01
    mine = set(threading.enumerate()) - before
    for thread in mine:
        thread.join(10)
    assert not any(thread.is_alive() for thread in mine)


def test_a_made_up_context_calls_a_handler_directly() -> None:
    def handler(ctx: RunContext) -> Any:
        return ctx.job, ctx.attempt, ctx.fence, ctx.signal.is_set()

    assert handler(make_context()) == ("job", 1, 1, False)
    ctx = make_context(job="sync", attempt=3)
    assert ctx.signal.set("stop")
    assert handler(ctx) == ("sync", 3, 1, True)
    assert make_context().signal is not make_context().signal


def busy_scenario(seed: int) -> list[tuple[object, ...]]:
    """Three instances, outages, a stop and a timeout; return all that was told, in order."""
    fleet = Fleet(seed)
    told: list[tuple[object, ...]] = []

    def handler(ctx: RunContext) -> None:
        if ctx.slot == at(20):
            raise ValueError("no")
        ctx.sleep(7)

    for _ in range(3):
        instance = fleet.instance()
        instance.scheduler.on(
            "*", lambda e: told.append((e.name, e.job, e.slot, e.instance, fleet.clock.wall()))
        )
        for name in ("x", "y", "z"):
            instance.every(10, handler, name=name, jitter=2, timeout=6 if name == "z" else None)
    fleet.start()
    fleet.until(33)
    fleet.instances[0].store.cut()
    fleet.until(50)
    fleet.instances[0].store.heal()
    fleet.instances[1].scheduler.stop()
    fleet.until(70)
    fleet.close()
    return told


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_replays_the_same_order_of_events(seed: int) -> None:
    first = busy_scenario(seed)
    assert busy_scenario(seed) == first
    assert len(first) > 60
    assert {event[0] for event in first} >= {"start", "success", "failure", "skip", "error"}


def test_other_seeds_have_other_orders() -> None:
    orders = {tuple(busy_scenario(seed)) for seed in range(4)}
    assert len(orders) == 4
