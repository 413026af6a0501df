"""Jobs that are armed, disarmed, and armed again by the timers thread."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest
from fake_instances import NOON, Once
from runs_support import Fleet, at
from timers_bench import Bench, job

from leasecron import Scheduler
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.jobs import DeclaredJob
from leasecron.lease_runner import LeaseRunner
from leasecron.schedules import Every
from leasecron.testing import EventRecorder

SECOND = timedelta(seconds=1)


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


class Ill:
    """A schedule that fails until it is cured, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.cured = False

    def next_after(self, t: datetime) -> datetime | None:
        self.asked += 1
        if not self.cured:
            raise LookupError("ill")
        return Every("10s").next_after(t)

    def latest_at(self, t: datetime) -> datetime | None:
        return None


def test_a_job_whose_schedule_fails_waits_for_no_slot_until_it_is_asked_again(
    bench: Bench,
) -> None:
    timers = bench.timers
    schedule = Ill()
    ill = job(schedule=schedule)
    bench.do((timers.arm, ill))
    assert timers.next_slot(ill) is None
    schedule.cured = True
    bench.clock.advance(60)
    assert timers.next_slot(ill) == NOON + 70 * SECOND
    schedule.cured = False
    bench.clock.advance(10)
    bench.do((timers.arm, ill))
    assert timers.next_slot(ill) is None
    assert bench.log[1:2] == [NOON + 70 * SECOND]


def test_after_arming_was_stopped_no_schedule_is_asked_again(bench: Bench) -> None:
    timers = bench.timers
    schedule = Ill()
    ill = job(schedule=schedule)
    over = job("over", Once(NOON))
    bench.do((timers.arm, ill), (timers.arm, over))
    bench.do((timers.stop_arming,), (timers.resume_arming,))
    bench.clock.advance(120)
    bench.clock.jump(wall=-3600)
    bench.clock.advance(120)
    assert schedule.asked == 1
    assert timers.next_slot(over) is None


def test_a_run_that_cannot_be_handed_over_costs_its_job_no_later_slot(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = LeaseRunner.run

    def fails_at_first(runner: LeaseRunner, job: DeclaredJob, slot: datetime) -> None:
        if slot == at(10):
            raise MemoryError
        run(runner, job, slot)

    monkeypatch.setattr(LeaseRunner, "run", fails_at_first)
    one = fleet.instance()
    one.every(10, lambda: None)
    fleet.start()
    fleet.until(31)
    assert [event.slot for event in one.of("success")] == [at(20), at(30)]


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
