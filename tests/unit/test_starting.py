"""Starting: twice, again, while an earlier stop goes on, and where it cannot be done."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from runs_support import SEEDS, Fleet, Instance, at, seconds

from leasecron import BackendError, BackendUnavailable, RunContext, Scheduler, SchedulerStateError
from leasecron.model import Claim
from leasecron.testing import FakeClock


def threads(fleet: Fleet) -> list[str]:
    seats = fleet.clock._turns._seats
    return sorted(s.thread.name for s in seats if s.service and s.thread.is_alive())


SERVICE = ["leasecron-events", "leasecron-store", "leasecron-timers"]


@pytest.mark.parametrize("seed", SEEDS)
def test_start_twice_is_harmless(fleet: Fleet) -> None:
    bodies: list[object] = []
    one = fleet.instance()
    one.every(10, lambda ctx: bodies.append(ctx.slot))
    one.start()
    one.start()
    fleet.until(11)
    one.start()
    fleet.until(21)
    assert bodies == [at(10), at(20)]
    assert len(one.store.of("open")) == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_that_start_together_start_one_scheduler(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    one.store.scripts["open"] = lambda _: fleet.nap(1)
    for _ in range(4):
        fleet.clock.start_thread(one.start, "starter")
    fleet.until(11)
    assert one.running()
    assert len(one.store.of("open")) == 1
    assert [name for name in threads(fleet) if "worker" not in name] == SERVICE
    assert one.told == ["start", "success"]


def test_a_thousand_jobs_need_three_threads(fleet: Fleet) -> None:
    one = fleet.instance()
    for number in range(1000):
        one.every(86_400, lambda: None, name=f"job {number}", catch_up=0)
    fleet.start()
    fleet.until(60)
    assert threads(fleet) == SERVICE


def test_start_after_stop_starts_afresh(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    for moment in (11, 31, 51):
        one.start()
        fleet.until(moment)
        assert one.running()
        assert one.scheduler.stop()
        fleet.until(moment + 5)
        assert not one.running()
    assert [start.slot for start in one.of("start")] == [at(n) for n in range(10, 51, 10)]
    assert one.of("start")[1].trigger == "scheduled"


def test_running_says_whether_runs_are_claimed_here(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(10))
    assert not one.running()
    fleet.start()
    assert one.running()
    fleet.until(601)
    assert not one.scheduler.stop(timeout=1)
    assert not one.running()
    assert one.scheduler.stop(timeout=30)
    assert not one.running()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_while_a_stop_is_draining_takes_the_threads_over(fleet: Fleet) -> None:
    bodies: list[object] = []

    def handler(ctx: RunContext) -> None:
        bodies.append(ctx.slot)
        if ctx.slot == at(10):
            fleet.nap(25)

    one = fleet.instance()
    one.every(10, handler)
    fleet.start()
    fleet.until(11)
    assert one.scheduler.stop(timeout=1) is False
    fleet.until(23)
    assert bodies == [at(10)]
    one.start()
    assert one.running()
    fleet.until(41)
    assert bodies == [at(10), at(40)]  # slot 30 was overlapped
    assert len(one.store.of("open")) == 1
    assert [name for name in threads(fleet) if "worker" not in name] == SERVICE
    assert one.told == ["start", "success", "start", "success"] or "skip" in one.told
    assert one.scheduler.stop()


def test_a_stop_that_is_overtaken_by_a_start_returns_false(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(50))
    fleet.start()
    fleet.until(601)
    answers: list[object] = []
    fleet.clock.start_thread(
        lambda: answers.append((one.scheduler.stop(timeout=None), seconds(fleet.clock))), "stopper"
    )
    fleet.until(610)
    assert answers == []
    one.start()
    fleet.until(900)
    assert answers == [(False, 610)]
    assert one.running()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_while_the_store_is_being_closed_hears_and_runs_all(fleet: Fleet) -> None:
    """The earlier scheduler waits to give back a claim that it won after its stop."""
    bodies: list[object] = []
    one = fleet.instance()
    one.every(20, lambda ctx: bodies.append(ctx.slot))

    def slow(_claims: list[Claim]) -> None:
        one.store.scripts.clear()
        one.store.break_("release")
        fleet.nap(3)

    one.store.scripts["claim"] = slow
    fleet.start()
    fleet.until(21)
    assert one.scheduler.stop(timeout=5) is False
    one.start()
    assert one.running()
    fleet.until(30)
    one.store.heal()
    fleet.until(101)
    assert bodies[-3:] == [at(60), at(80), at(100)]
    assert [start.slot for start in one.of("start")] == bodies
    assert [name for name in threads(fleet) if "worker" not in name] == SERVICE
    assert one.scheduler.stop()
    fleet.clock.settle()
    assert threads(fleet) == []


def test_a_start_from_a_listener_of_a_stopping_scheduler_resumes_it(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda ctx: ctx.sleep(100) if ctx.attempt == 1 and ctx.slot == at(10) else None)
    restarts: list[str] = []

    def again(event: Any) -> None:
        restarts.append(event.reason)
        one.start()

    one.scheduler.on("interrupted", again)
    fleet.start()
    fleet.until(11)
    one.scheduler.stop(timeout=5)
    fleet.until(31)
    assert restarts == ["stop"]
    assert one.running()
    assert at(30) in [start.slot for start in one.of("start")]


@pytest.mark.parametrize(
    "error", [BackendError("no such place"), PermissionError("not allowed"), ValueError("odd")]
)
def test_a_store_that_cannot_be_used_raises_at_the_start(fleet: Fleet, error: Exception) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    one.store.faults["open"] = lambda: error
    with pytest.raises(type(error)) as caught:
        one.start()
    assert caught.value is error
    assert not one.running()
    assert seconds(fleet.clock) == 4.5
    fleet.clock.settle()
    assert threads(fleet) == []
    one.store.heal()
    one.start()
    fleet.until(11)
    assert one.told == ["start", "success"]


def test_a_store_that_is_away_is_waited_for_five_seconds_at_most(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    one.store.cut("open")
    before = seconds(fleet.clock)
    with pytest.raises(BackendUnavailable, match="the line is cut"):
        one.start()
    assert seconds(fleet.clock) - before <= 5
    assert len(one.store.of("open")) > 5


def test_a_store_that_does_not_answer_is_given_up_after_five_seconds(fleet: Fleet) -> None:
    one = fleet.instance()
    one.store.scripts["open"] = lambda _: fleet.nap(60)
    before = seconds(fleet.clock)
    with pytest.raises(BackendUnavailable, match=r"memory://.*5 s"):
        one.start()
    assert seconds(fleet.clock) - before == 5
    assert not one.running()
    fleet.clock.advance(100)
    assert threads(fleet) == []
    assert len(one.store.of("close")) == 1  # it did open in the end, and is let go of


def test_a_store_that_comes_back_in_time_is_used(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)

    def away(_items: list[object]) -> None:
        if seconds(fleet.clock) < 7:
            raise BackendUnavailable("not yet")

    one.store.scripts["open"] = away
    one.start()
    fleet.until(11)
    assert one.told == ["start", "success"]


class PoorClock(FakeClock):
    """A fake clock on a machine that gives a few threads only."""

    left = 100

    def start_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        if self.left <= 0:
            raise RuntimeError("can't start new thread")
        self.left -= 1
        return super().start_thread(target, name)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_start_that_gets_no_thread_raises_and_leaves_nothing_behind(
    fleet: Fleet, left: int
) -> None:
    clock = fleet.clock = PoorClock(at(4.5))
    one = fleet.instance()
    one.every(10, lambda: None)
    clock.left = left
    with pytest.raises(RuntimeError, match="can't start new thread"):
        one.start()
    assert not one.running()
    clock.settle()
    assert threads(fleet) == []
    assert all(queue.ended for queue in one.scheduler._lifecycle._queues)
    clock.left = 100
    one.start()
    fleet.until(11)
    assert one.told == ["start", "success"]


def test_the_absolute_store_is_logged_once_at_the_start(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "leasecron")
    one = fleet.instance("one")
    one.store.warnings = ["take care", "and more care"]
    one.start()
    one.start()
    records = [(r.levelname, r.getMessage()) for r in caplog.records]
    assert records == [
        ("INFO", "the scheduler started instance=one store=memory://"),
        ("WARNING", "take care"),
        ("WARNING", "and more care"),
    ]


def test_with_starts_and_stops(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    with one.scheduler as entered:
        assert entered is one.scheduler
        assert one.running()
        fleet.until(11)
    assert not one.running()
    assert one.told == ["start", "success"]
    with pytest.raises(ValueError, match="mine"), one.scheduler:
        raise ValueError("mine")
    assert not one.running()


@pytest.mark.parametrize(("value", "off"), [("1", True), ("0", False), ("", False)])
def test_leasecron_off_makes_start_do_nothing(
    fleet: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    value: str,
    off: bool,
) -> None:
    caplog.set_level(logging.INFO, "leasecron")
    monkeypatch.setenv("LEASECRON_OFF", value)
    one = fleet.instance()
    one.every(10, lambda: None)
    one.start()
    assert one.running() is not off
    fleet.until(11)
    assert one.told == ([] if off else ["start", "success"])
    assert ("LEASECRON_OFF" in caplog.text) is off
    assert bool(one.store.calls) is not off
    assert one.scheduler.stop()
    monkeypatch.delenv("LEASECRON_OFF")
    one.start()
    assert one.running()


def test_run_outside_the_main_thread_is_refused() -> None:
    caught: list[BaseException] = []
    scheduler = Scheduler("memory://")

    def call() -> None:
        try:
            scheduler.run()
        except SchedulerStateError as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(10)
    assert "main thread" in str(caught[0])
    assert not scheduler.running


def instance_with_work(fleet: Fleet, seconds_: float) -> Instance:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(seconds_))
    return one


def test_pruning_goes_on_after_a_start_that_took_a_stop_over(fleet: Fleet) -> None:
    one = instance_with_work(fleet, 200)
    fleet.start()
    fleet.until(601)
    assert not one.scheduler.stop(timeout=1)
    fleet.until(700)
    one.start()
    before = len(one.store.of("prune"))
    fleet.until(3200)
    assert len(one.store.of("prune")) >= before + 4
    assert [item.job for call in one.store.of("prune")[-1:] for item in call.items] == ["sync"]


def test_history_answers_while_the_store_is_being_closed(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    one.store.scripts["close"] = lambda _: fleet.nap(3)
    fleet.start()
    fleet.until(11)
    answers: list[object] = []
    fleet.clock.start_thread(lambda: answers.append(one.scheduler.stop(timeout=30)), "stopper")
    fleet.until(12)
    assert [result.slot for result in one.scheduler.history()] == [at(10)]
    fleet.until(30)
    assert answers == [True]


def test_what_is_kept_of_a_job_is_found_out_once_a_pass_and_not_at_every_call_of_it(
    fleet: Fleet,
) -> None:
    one = instance_with_work(fleet, 1)
    left = iter([True, True, True, False])
    one.store.scripts["prune"] = lambda _retentions: next(left)
    fleet.start()
    fleet.until(10)
    calls = one.store.of("prune")
    assert len(calls) == 4
    assert len({id(retention) for call in calls for retention in call.items}) == 1
