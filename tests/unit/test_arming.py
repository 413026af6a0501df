"""Arming: which slot a job waits for, how long it waits at a time, and when it fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fake_instances import NOON, START, Call, Instances, every, several_orders

from leasecron import RunContext, Scheduler
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.clock import MAX_WAIT, Waker
from leasecron.jobs import DeclaredJob
from leasecron.testing import FakeClock

SECOND = timedelta(seconds=1)


def lateness(call: Call) -> float:
    return (call.wall - call.slot).total_seconds()


def armed(scheduler: Scheduler, name: str = "job") -> datetime | None:
    return scheduler.jobs[name].next_slot


def test_a_job_is_armed_for_the_first_slot_after_now(instances: Instances) -> None:
    scheduler = instances.new()
    scheduler.every("job", "10s", instances.handler(), jitter=0)
    scheduler.start()
    instances.clock.settle()
    assert armed(scheduler) == NOON + 10 * SECOND
    instances.clock.advance(9.998)
    assert instances.calls == []
    instances.clock.advance(0.001)
    assert [(call.slot, call.wall) for call in instances.calls] == [(NOON + 10 * SECOND,) * 2]


@several_orders
def test_jitter_is_spread_over_its_width_and_fires_no_slot_before_its_time(
    instances: Instances,
) -> None:
    scheduler = instances.new()
    scheduler.every("job", "10s", instances.handler(), jitter="4s")
    scheduler.start()
    instances.clock.advance(10 * 100 + 5)
    assert instances.slots() == every(10, start=NOON + 10 * SECOND, count=100)
    spread = [lateness(call) for call in instances.calls]
    assert 0 <= min(spread) < 0.5
    assert 3.5 < max(spread) < 4
    assert len({round(late, 3) for late in spread}) > 90  # drawn anew for each slot


def test_jitter_as_wide_as_can_be_neither_loses_nor_repeats_a_slot(instances: Instances) -> None:
    for _ in range(3):
        scheduler = instances.new()
        scheduler.every("job", "1s", instances.handler(), jitter="0.999s", lease="500ms")
        scheduler.start()
    instances.clock.advance(60.999)
    assert instances.slots() == every(1, start=NOON + SECOND, count=60)
    assert all(0 <= lateness(call) < 1 for call in instances.calls)


def test_a_jitter_wider_than_the_gap_to_the_next_slot_is_cut_to_less(instances: Instances) -> None:
    for _ in range(2):
        scheduler = instances.new()
        scheduler.cron("job", "* * * * *", instances.handler(), jitter="4m")
        scheduler.start()
    instances.clock.advance(101 * 60)
    assert instances.slots() == every(60, start=NOON + 60 * SECOND, count=100)
    spread = [lateness(call) for call in instances.calls]
    assert 40 < max(spread) < 60


def test_without_a_given_jitter_it_is_a_twentieth_of_the_gap_and_at_most_half_a_second(
    instances: Instances,
) -> None:
    scheduler = instances.new()
    scheduler.every("short", "5s", instances.handler())
    scheduler.every("long", "1m", instances.handler())
    scheduler.every("strict", "1m", instances.handler(), max_late="1s")
    scheduler.start()
    instances.clock.advance(30 * 60 + 1)
    widest = {"short": 0.25, "long": 0.5, "strict": 0.25}
    for name, width in widest.items():
        spread = [lateness(call) for call in instances.calls if call.job == name]
        assert len(spread) >= 30
        assert width * 0.75 < max(spread) < width


def test_the_next_slot_is_armed_before_the_current_one_is_handled(instances: Instances) -> None:
    scheduler = instances.new()
    seen: list[datetime | None] = []
    scheduler.on("start", lambda event: seen.append(armed(scheduler)))

    def handler(ctx: RunContext) -> None:
        seen.append(armed(scheduler))
        ctx.sleep(25)

    scheduler.every("job", "10s", handler, jitter=0)
    scheduler.start()
    instances.clock.advance(10)
    assert seen == [NOON + 20 * SECOND] * 2
    instances.clock.advance(20)  # the handler is still busy, and the slots go on
    assert [skip.slot for skip in instances.skips("overlap")] == [
        NOON + 20 * SECOND,
        NOON + 30 * SECOND,
    ]
    assert armed(scheduler) == NOON + 40 * SECOND


def test_the_next_slot_is_after_both_now_and_the_slot_that_fired(instances: Instances) -> None:
    scheduler = instances.new()
    scheduler.every("job", "10s", instances.handler(), jitter=0, catch_up=0)
    scheduler.start()
    instances.clock.settle()
    # Time goes on while the timers thread does not run: three slots pass by before it wakes.
    instances.clock.jump(wall=35, monotonic=35)
    assert instances.slots() == [NOON + 10 * SECOND]
    assert armed(scheduler) == NOON + 40 * SECOND
    instances.clock.advance(5)
    assert instances.slots() == [NOON + 10 * SECOND, NOON + 40 * SECOND]


class HairEarly(Scheduler):
    """Reads a clock in ``fire`` that was corrected to 2 ms before the slot, once for each slot."""

    corrected: datetime | None = None

    def fire(self, job: DeclaredJob, slot: datetime) -> None:
        clock = self.clock
        assert isinstance(clock, CorrectedClock)
        if slot != self.corrected:
            self.corrected = slot
            clock.correction += slot.timestamp() - 0.002 - clock.wall()
        super().fire(job, slot)


class CorrectedClock(FakeClock):
    """A clock whose wall time is a little off, by a correction that changes."""

    correction = 0.0

    def wall(self) -> float:
        return super().wall() + self.correction


@pytest.mark.parametrize("jitter", [0, "300ms"])
@several_orders
def test_a_timer_that_fires_a_hair_early_neither_skips_nor_repeats(
    jitter: float | str, seed: int
) -> None:
    clock = CorrectedClock(START, seed=seed)
    scheduler = HairEarly(MemoryBackend(), clock=clock)
    ran: list[datetime] = []
    early: list[float] = []

    def handler(ctx: RunContext) -> None:
        ran.append(ctx.slot)
        early.append(ctx.slot.timestamp() - clock.wall())

    skipped: list[object] = []
    scheduler.on("skip", skipped.append)
    scheduler.every("job", "1s", handler, jitter=jitter)
    scheduler.start()
    clock.advance(140)  # time that the corrections take back included
    assert clock.correction < -0.1  # the corrections did take place
    assert ran[:100] == every(1, start=NOON + SECOND, count=100)
    assert max(early) <= 0
    assert skipped == []
    assert scheduler.stop()


@several_orders
def test_slots_do_not_drift_whenever_an_instance_starts_and_however_long_a_run_takes(
    instances: Instances,
) -> None:
    for wait in (0, 3.3, 4.4):  # so they start at +0, +3.3 and +7.7 s
        instances.clock.advance(wait)
        scheduler = instances.new()
        scheduler.every("job", "10s", instances.handler(busy=7), jitter="1s")
        scheduler.start()
    instances.clock.advance(60 * 10)
    assert instances.slots()[:60] == every(10, start=NOON + 10 * SECOND, count=60)
    assert all(0 <= lateness(call) < 1 for call in instances.calls)
    instances.check_no_slot_ran_twice()
    assert {call.instance for call in instances.calls} == {
        "instance-1",
        "instance-2",
        "instance-3",
    }


def test_a_week_is_counted_from_the_epoch_in_every_instance(instances: Instances) -> None:
    instances.move_wall_to(datetime(2026, 1, 1, tzinfo=UTC))
    for started_after in (0, 3600, 5 * 86_400):
        instances.clock.jump(wall=started_after, monotonic=started_after)
        scheduler = instances.new()
        scheduler.every("job", "7d", instances.handler())
        scheduler.start()
        instances.clock.settle()
        assert armed(scheduler) == datetime(2026, 1, 8, tzinfo=UTC)


class NotingWaker:
    """A waker that notes how long its reader would wait."""

    def __init__(self, waker: Waker, timeouts: list[float | None]) -> None:
        self._waker = waker
        self._timeouts = timeouts
        self.put = waker.put
        self.drain = waker.drain

    def get(self, timeout: float | None = None) -> object:
        self._timeouts.append(timeout)
        return self._waker.get(timeout)


class NotingClock(FakeClock):
    """A fake clock that notes every timeout that is asked of one of its wakers."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self.timeouts: list[float | None] = []

    def waker(self) -> NotingWaker:
        return NotingWaker(super().waker(), self.timeouts)


def test_no_wait_is_longer_than_a_minute_however_far_the_next_slot_is() -> None:
    clock = NotingClock(START)
    scheduler = Scheduler(MemoryBackend(), clock=clock)
    scheduler.cron("yearly", "0 0 1 1 *", lambda: None)
    scheduler.every("rare", "60d", lambda: None)
    scheduler.start()
    clock.advance(6 * 3600)
    asked = [timeout for timeout in clock.timeouts if timeout is not None]
    assert len(asked) > 300  # the clocks were read again each minute
    assert max(asked) == MAX_WAIT == 60
    assert scheduler.stop()


def test_a_slot_at_the_end_of_many_split_waits_is_on_time(instances: Instances) -> None:
    scheduler = instances.new()
    scheduler.cron("job", "17 18 * * *", instances.handler(), jitter=0)
    scheduler.start()
    instances.clock.advance(timedelta(hours=7))
    assert [(call.slot, call.wall) for call in instances.calls] == [
        (datetime(2026, 11, 29, 18, 17, tzinfo=UTC),) * 2
    ]
