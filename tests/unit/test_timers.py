"""The timers thread by itself: deadlines, cancelled ones, and what others hand over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from fake_instances import NOON, START

from leasecron import JobOptions, Scheduler
from leasecron.backends.memory import MemoryBackend
from leasecron.clock import MAX_WAIT
from leasecron.jobs import DeclaredJob, declare
from leasecron.schedules import Every
from leasecron.testing import EventRecorder, FakeClock
from leasecron.timers import Deadlines, JobTimers, Timer

SECOND = timedelta(seconds=1)


class Bench:
    """Timers with a thread of their own, and a list of what they called."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.log: list[object] = []
        self.jumps = 0
        self.timers = JobTimers(clock, self._fire, self._failed, self._jumped)
        self.timers.start()

    def do(self, *calls: tuple[object, ...]) -> None:
        """Have methods of the timers called in their thread."""
        for function, *args in calls:
            self.timers.post(function, *args)  # type: ignore[arg-type]
        self.clock.settle()

    def _fire(self, job: DeclaredJob, slot: datetime) -> None:
        self.log.append(slot)

    def _failed(self, job: DeclaredJob, error: Exception) -> None:
        self.log.append(error)

    def _jumped(self) -> None:
        self.jumps += 1


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(START)


@pytest.fixture
def bench(clock: FakeClock) -> Iterator[Bench]:
    bench = Bench(clock)
    yield bench
    bench.do((bench.timers.end,))


def job(name: str = "job", interval: str = "10s") -> DeclaredJob:
    return declare(name, Every(interval), lambda: None, {"jitter": 0}, JobOptions())


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


def test_a_job_that_is_armed_and_disarmed_leaves_nothing(bench: Bench) -> None:
    timers = bench.timers
    coming, going = job("coming"), job("going")

    def cycle() -> None:
        for _ in range(5_000):
            timers.arm(going)
            timers.arm(coming)
            timers.disarm(going)

    bench.do((timers.arm, coming), (cycle,))
    assert len(timers._slots._heap) < 200
    assert len(timers._armed) == 1


def test_deadlines_go_by_the_monotonic_clock_and_slots_by_the_wall_clock(bench: Bench) -> None:
    timers = bench.timers
    bench.do((timers.after, 100, bench.log.append, "delay"), (timers.arm, job(interval="1h")))
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


def test_while_arming_is_stopped_no_job_is_armed(bench: Bench) -> None:
    timers = bench.timers
    first, second = job("first"), job("second")
    bench.do((timers.arm, first), (timers.stop_arming,), (timers.arm, second))
    bench.clock.advance(30)
    assert bench.log == []
    assert timers.next_slot(first) is timers.next_slot(second) is None
    bench.do((timers.resume_arming,), (timers.arm, second))
    bench.clock.advance(10)
    assert bench.log == [NOON + 40 * SECOND]


def test_2000_jobs_armed_for_tomorrow_use_few_threads() -> None:
    before = set(threading.enumerate())
    scheduler = Scheduler(MemoryBackend())
    for number in range(2000):
        scheduler.every(f"job-{number}", "365d", lambda: None)
    scheduler.every("last", "20ms", lambda: None)  # jobs are armed in order, so this one last
    recorder = EventRecorder(scheduler)
    with scheduler:
        recorder.wait_for("start")
        ours = set(threading.enumerate()) - before
        assert all(scheduler._lifecycle.next_slot(job) for job in scheduler._jobs.values())
        assert len(ours) <= 5
        assert all(thread.name.startswith("leasecron-") for thread in ours)
