"""The timers thread by itself: deadlines, what others hand over, and how a jump is noticed."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from fake_instances import NOON, START
from timers_bench import Bench, job

from leasecron import Scheduler
from leasecron.clock import MAX_WAIT
from leasecron.deadlines import Deadlines, Timer
from leasecron.schedules import Every
from leasecron.testing import EventRecorder, FakeClock


def test_deadlines_come_in_order_of_time_and_then_of_arrival(bench: Bench) -> None:
    timers, log = bench.timers, bench.log
    bench.do(
        (timers.after, 2, log.append, "c"),
        (timers.after, 1, log.append, "a"),
        (timers.after, 1, log.append, "b"),
    )
    bench.clock.advance(1)
    assert log == ["a", "b"]
    bench.clock.advance(1)
    assert log == ["a", "b", "c"]


def test_a_cancelled_deadline_calls_nothing(bench: Bench) -> None:
    timers = bench.timers
    doomed: list[Timer] = []

    def begin() -> None:
        # Both are due in the same turn: the first cancels the second, which was taken out already.
        timers.after(1, lambda: timers.cancel(doomed[0]))
        doomed.append(timers.after(1, bench.log.append, "cancelled"))
        timers.cancel(timers.after(1, bench.log.append, "cancelled at once"))
        timers.after(1, bench.log.append, "kept")

    bench.do((begin,))
    bench.clock.advance(5)
    assert bench.log == ["kept"]


def test_a_cancelled_timer_can_be_cancelled_again_and_after_it_ran(bench: Bench) -> None:
    timers = bench.timers
    kept: list[Timer] = []
    bench.do((lambda: kept.append(timers.after(1, bench.log.append, "ran")),))
    bench.clock.advance(1)
    bench.do(*[(timers.cancel, kept[0])] * 200, (timers.after, 1, bench.log.append, "next"))
    bench.clock.advance(1)
    assert bench.log == ["ran", "next"]


def test_100000_arm_and_cancel_cycles_keep_the_heap_small() -> None:
    deadlines = Deadlines()
    live = [deadlines.add(float(number), Timer(print, ())) for number in range(10)]
    largest = 0
    for number in range(100_000):
        deadlines.cancel(deadlines.add(100.0 + number, Timer(print, ())))
        largest = max(largest, len(deadlines._heap))
    assert largest < 200
    assert deadlines.pop(10**9, 1000) == live


def test_deadlines_go_by_the_monotonic_clock_and_slots_by_the_wall_clock(bench: Bench) -> None:
    timers = bench.timers
    bench.do(
        (timers.after, 100, bench.log.append, "delay"), (timers.arm, job(schedule=Every("1h")))
    )
    bench.clock.jump(wall=3600)
    bench.clock.advance(MAX_WAIT)
    assert bench.log == [NOON + timedelta(hours=1)]
    bench.clock.advance(39)
    assert len(bench.log) == 1
    bench.clock.advance(1)
    assert bench.log[1:] == ["delay"]


def test_a_callback_that_raises_disturbs_no_other(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise LookupError("broken")

    timers = bench.timers
    bench.do((broken,), (timers.after, 1, broken), (timers.after, 1, bench.log.append, "other"))
    bench.clock.advance(1)
    bench.do((bench.log.append, "posted"))
    assert bench.log == ["other", "posted"]
    assert len(caplog.records) == 2


def test_what_others_hand_over_is_not_kept_waiting_by_many_deadlines(bench: Bench) -> None:
    timers, log = bench.timers, bench.log

    def begin() -> None:
        timers.after(1, timers.post, log.append, "posted")
        for number in range(1000):
            timers.after(1, log.append, number)

    bench.do((begin,))
    bench.clock.advance(1)
    assert log.index("posted") < 300
    assert [item for item in log if item != "posted"] == list(range(1000))


def test_what_is_handed_over_while_the_thread_ends_is_still_done(bench: Bench) -> None:
    timers = bench.timers

    def last() -> None:
        timers.end()
        timers.post(bench.log.append, "after the end")

    bench.do((last,))
    assert bench.log == ["after the end"]


@pytest.mark.parametrize(("drift", "jumps"), [(0.09, 0), (-0.09, 0), (0.11, 1), (-0.11, 1)])
def test_clocks_more_than_a_tenth_of_a_second_apart_are_a_jump(
    bench: Bench, drift: float, jumps: int
) -> None:
    bench.clock.advance(3)
    bench.clock.jump(wall=drift)
    bench.clock.advance(MAX_WAIT)
    assert bench.jumps == jumps


def test_a_slow_drift_is_no_jump(bench: Bench) -> None:
    for _ in range(20):
        bench.clock.jump(wall=0.05)
        bench.clock.advance(MAX_WAIT)
    assert bench.jumps == 0


class PausingClock(FakeClock):
    """A clock whose reader can be paused for five seconds just after it has read the wall time."""

    pauses = 0

    def wall(self) -> float:
        wall = super().wall()
        if self.pauses:
            self.pauses -= 1
            self._turns.shift(wall=5_000_000, monotonic=5_000_000)
        return wall


def test_a_pause_between_two_reads_is_no_jump() -> None:
    clock = PausingClock(START)
    bench = Bench(clock)
    clock.settle()
    for _ in range(5):
        clock.pauses = 3
        clock.advance(MAX_WAIT)
        assert clock.pauses == 0
    assert bench.jumps == 0
    bench.do((bench.timers.end,))


def test_a_jump_is_noticed_within_a_minute_when_nothing_else_is_due(bench: Bench) -> None:
    bench.clock._turns.shift(wall=3_600_000_000, monotonic=0)  # nobody is told of it
    bench.clock.advance(MAX_WAIT)
    assert bench.jumps == 1


def test_a_deadline_does_not_wait_behind_all_that_was_handed_over(bench: Bench) -> None:
    timers, log = bench.timers, bench.log
    handed_over = [(log.append, number) for number in range(2000)]
    bench.do((timers.after, 0.0, log.append, "due"), *handed_over)
    assert 0 < log.index("due") < 1000
    assert [each for each in log if each != "due"] == [*range(2000)]


def test_a_deadline_does_not_wait_behind_a_few_that_take_long(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers, log, clock = bench.timers, bench.log, bench.clock
    wall, monotonic = clock.wall, clock.monotonic
    monkeypatch.setattr(clock, "wall", lambda: wall() + 0.02 * len(log))
    monkeypatch.setattr(clock, "monotonic", lambda: monotonic() + 0.02 * len(log))

    handed_over = [(log.append, number) for number in range(20)]
    bench.do((timers.after, 0.0, log.append, "due"), *handed_over)

    assert 0 < log.index("due") < 5
    assert [each for each in log if each != "due"] == [*range(20)]


def test_a_schedule_may_ask_the_store_of_the_scheduler_that_asks_it() -> None:
    scheduler = Scheduler("memory://")

    class Asking:
        def next_after(self, t: datetime) -> datetime:
            scheduler.history(limit=1)
            return t + timedelta(milliseconds=50)

        def latest_at(self, t: datetime) -> None:
            return None

    for number in range(3):
        scheduler.add(f"job {number}", Asking(), lambda: None, jitter=0)
    recorder = EventRecorder()
    scheduler.on("*", recorder)
    with scheduler:
        recorder.wait_for("success", timeout=4.0)
    assert recorder.of("error") == []
