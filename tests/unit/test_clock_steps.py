"""The wall clock is set back or ahead, while jobs are armed and while a run is live."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

import pytest
from fake_instances import NOON, START, Instances, Once, every, longest_silence, several_orders

from leasecron import Every
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.model import HeartbeatAnswer, LeaseRef
from leasecron.testing import FakeClock

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
TEN_YEARS = timedelta(days=3653)
STEPS = [-30 * SECOND, -2 * HOUR, 8 * HOUR, TEN_YEARS]
SILENCE = 70.0


class BeatingBackend(MemoryBackend):
    """A memory store that notes when heartbeats came and what it answered."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self.beats: list[tuple[float, HeartbeatAnswer]] = []

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        answers = super().heartbeat(leases)
        self.beats += [(self._now(), answer) for answer in answers]
        return answers


@pytest.fixture
def instances(seed: int) -> Iterator[Instances]:
    """Instances whose heartbeats are noted."""
    made = Instances(FakeClock(START, seed=seed))
    made.backend = BeatingBackend(made.at)
    yield made
    made.stop()


def beats(instances: Instances) -> list[tuple[float, HeartbeatAnswer]]:
    assert isinstance(instances.backend, BeatingBackend)
    return instances.backend.beats


def start_two(instances: Instances, *, busy: float = 0.0, interval: str = "10s") -> None:
    for _ in range(2):
        scheduler = instances.new()
        scheduler.every("job", interval, instances.handler(busy), jitter=0, lease="4s")
        scheduler.start()


def moments(instances: Instances) -> list[float]:
    return [seen.at for seen in instances.seen]


@several_orders
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_no_slot_runs_twice_and_nothing_falls_silent(instances: Instances, step: timedelta) -> None:
    start_two(instances)
    instances.clock.advance(60)
    instances.clock.jump(wall=step)
    instances.clock.advance(600)
    instances.check_no_slot_ran_twice()
    assert longest_silence(moments(instances), 60, 660) <= SILENCE
    assert instances.slots(since=660 - SILENCE)  # and it runs, not only skips
    assert instances.events("error") == []


@several_orders
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_no_lease_expires_by_a_step_while_a_run_is_live(
    instances: Instances, step: timedelta
) -> None:
    start_two(instances, busy=35, interval="1m")
    instances.clock.advance(60 + 10)
    assert len(instances.slots()) == 1
    instances.clock.jump(wall=step)
    instances.clock.advance(24)
    assert instances.events("interrupted") == []
    assert instances.events("success") == []
    instances.clock.advance(2)
    successes = instances.events("success")
    assert [(event.slot, event.result.attempt) for event in successes] == [(NOON + 60 * SECOND, 1)]
    assert successes[0].result.duration == pytest.approx(35, abs=0.01)
    instances.clock.advance(600)
    instances.check_no_slot_ran_twice()
    assert {call.attempt for call in instances.calls} == {1}
    assert {answer for _, answer in beats(instances)} == {"ok"}


@several_orders
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_all_heartbeats_are_due_at_once_after_a_step(instances: Instances, step: timedelta) -> None:
    scheduler = instances.new()
    for name in ("one", "two"):
        scheduler.every(
            name, "1m", instances.handler(busy=7200), jitter=0, lease="2h", overlap="allow"
        )
    scheduler.start()
    instances.clock.advance(60 + 59)
    assert len(instances.slots("one") + instances.slots("two")) == 2
    assert beats(instances) == []  # the first heartbeat would be due after half an hour
    instances.clock.jump(wall=step)
    instances.clock.advance(60)
    beaten = [at for at, _ in beats(instances)]
    assert len(beaten) >= 2
    assert len(set(beaten)) == 1


@several_orders
def test_set_back_half_a_minute_done_slots_answer_done_and_the_next_is_on_time(
    instances: Instances,
) -> None:
    start_two(instances)
    instances.clock.advance(60)
    assert instances.slots() == every(10, start=NOON + 10 * SECOND, count=6)
    instances.clock.jump(wall=-30 * SECOND)
    instances.clock.advance(30)
    # Noon + 40, 50 and 60 s come for the second time, in both instances, and have run.
    assert instances.slots(since=60.001) == []
    again = [event.slot for event in instances.skips("taken", since=60.001)]
    assert sorted(again) == sorted(every(10, start=NOON + 40 * SECOND, count=3) * 2)
    instances.clock.advance(10)
    new = [call for call in instances.calls if call.at > 60.001]
    assert [(call.slot, call.wall) for call in new] == [(NOON + 70 * SECOND,) * 2]


@several_orders
def test_set_back_two_hours_slots_that_never_ran_run_within_70_seconds(
    instances: Instances,
) -> None:
    start_two(instances)
    instances.clock.advance(60)
    instances.clock.jump(wall=-2 * HOUR)
    instances.clock.advance(SILENCE)
    ran = [call for call in instances.calls if call.at > 60.001]
    assert ran
    assert all(call.slot == call.wall for call in ran)
    assert {call.slot.hour for call in ran} == {10}
    assert instances.skips("late") == []


def test_a_slot_that_is_due_but_not_fired_stays_armed_on_a_small_step_back(
    instances: Instances,
) -> None:
    scheduler = instances.new()
    scheduler.every("job", "10m", instances.handler(), jitter="4m")
    scheduler.every("other", "1s", lambda: None)  # so the clock is read after the slot was due
    scheduler.start()
    instances.clock.advance(10 * 60 + 2)  # due, and waiting for its jitter
    assert instances.slots() == []
    instances.clock.jump(wall=-SECOND)
    instances.clock.advance(5 * 60)
    assert instances.slots() == [NOON + 600 * SECOND]


def test_a_job_that_had_no_slot_left_is_armed_again_when_the_clock_is_set_back(
    instances: Instances,
) -> None:
    scheduler = instances.new()
    scheduler.add("job", Once(NOON + 60 * SECOND), instances.handler(), jitter=0)
    instances.clock.jump(wall=HOUR)  # at the start the clock is wrong by an hour
    scheduler.start()
    instances.clock.settle()
    assert scheduler.jobs["job"].next_slot is None
    instances.clock.jump(wall=-HOUR)
    instances.clock.advance(60)
    assert instances.slots() == [NOON + 60 * SECOND]
    instances.clock.advance(3600)
    assert instances.slots() == [NOON + 60 * SECOND]


def test_a_slot_between_a_step_back_and_its_notice_is_not_lost(instances: Instances) -> None:
    scheduler = instances.new()
    slot = NOON - HOUR + 30 * SECOND
    scheduler.cron("job", "30 0 11,18 * * *", instances.handler(), jitter=0)
    scheduler.start()
    instances.clock.settle()
    instances.clock.jump(wall=-HOUR)  # the next look at the clock is a minute away
    instances.clock.advance(61)
    assert [call.slot for call in instances.calls] == [slot]


class CountingEvery:
    """Every so often, and how often it was asked."""

    def __init__(self, interval: str) -> None:
        self._every = Every(interval)
        self.asked = 0

    def next_after(self, t: datetime) -> datetime | None:
        self.asked += 1
        return self._every.next_after(t)

    def latest_at(self, t: datetime) -> datetime | None:
        self.asked += 1
        return self._every.latest_at(t)


def test_a_step_of_ten_years_asks_a_schedule_no_more_than_a_step_of_a_minute(
    instances: Instances,
) -> None:
    scheduler = instances.new()
    asked = []
    for step in (timedelta(minutes=10), TEN_YEARS):
        schedule = CountingEvery("1s")
        scheduler.add(f"job {step}", schedule, instances.handler(), jitter=0)
        instances.clock.settle()
        scheduler.start()
        instances.clock.advance(0.5)
        before = schedule.asked
        instances.clock.jump(wall=step)
        instances.clock.advance(0.6)
        asked.append(schedule.asked - before)
    assert asked[1] <= asked[0] <= 12
