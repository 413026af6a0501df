"""Schedules that users wrote, and what they may get wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from fake_instances import NOON, Instances, every

from leasecron import Every, StoreFailed

SECOND = timedelta(seconds=1)


class Breakable:
    """Every ten seconds, unless it is told to answer something else."""

    def __init__(self) -> None:
        self._every = Every("10s")
        self.next: Callable[[datetime], Any] = self._every.next_after
        self.latest: Callable[[datetime], Any] = self._every.latest_at

    def next_after(self, t: datetime) -> Any:
        return self.next(t)

    def latest_at(self, t: datetime) -> Any:
        return self.latest(t)

    def mend(self) -> None:
        self.next, self.latest = self._every.next_after, self._every.latest_at


def raises(t: datetime) -> datetime:
    raise LookupError("no calendar")


BAD: dict[str, Callable[[datetime], Any]] = {
    "raises": raises,
    "naive": lambda t: t.replace(tzinfo=None) + SECOND,
    "in the past": lambda t: t - SECOND,
    "the same": lambda t: t,
    "no datetime": lambda t: t.timestamp() + 1,
    "a date": lambda t: t.date(),
}
bad_answers = pytest.mark.parametrize("bad", BAD.values(), ids=BAD)


def errors(instances: Instances) -> list[StoreFailed]:
    return instances.events("error")


@bad_answers
def test_a_bad_answer_is_an_error_and_the_job_is_armed_again_after_a_minute(
    instances: Instances, bad: Callable[[datetime], Any]
) -> None:
    schedule = Breakable()
    schedule.next = bad
    scheduler = instances.new()
    scheduler.add("job", schedule, instances.handler(), jitter=0)
    scheduler.every("other", "10s", instances.handler(), jitter=0)
    scheduler.start()
    instances.clock.advance(59)
    (error,) = errors(instances)
    assert (error.operation, error.job, error.slot) == ("schedule", "job", None)
    assert error.exception is not None
    assert scheduler.jobs["job"].next_slot is None
    instances.clock.advance(2)
    assert len(errors(instances)) == 2  # a minute later it still answered badly
    schedule.mend()
    instances.clock.advance(60)
    assert scheduler.jobs["job"].next_slot == NOON + 130 * SECOND
    instances.clock.advance(20)
    assert instances.slots() == every(10, start=NOON + 130 * SECOND, count=2)
    assert instances.slots("other") == every(10, start=NOON + 10 * SECOND, count=14)
    assert len(errors(instances)) == 2


@bad_answers
def test_a_schedule_that_breaks_while_it_is_armed_loses_neither_the_slot_nor_its_place(
    instances: Instances, bad: Callable[[datetime], Any]
) -> None:
    schedule = Breakable()
    scheduler = instances.new()
    scheduler.add("job", schedule, instances.handler(), jitter=0)
    scheduler.start()
    instances.clock.settle()
    schedule.next = bad
    instances.clock.advance(30)
    assert instances.slots() == [NOON + 10 * SECOND]
    assert len(errors(instances)) == 1
    schedule.mend()
    instances.clock.advance(65)
    assert instances.slots() == [
        NOON + 10 * SECOND,
        *every(10, start=NOON + 80 * SECOND, count=2),
    ]
    assert len(errors(instances)) == 1


def test_a_job_that_waits_to_be_armed_again_and_is_armed_by_a_step_back_skips_no_slot(
    instances: Instances,
) -> None:
    schedule = Breakable()
    scheduler = instances.new()
    scheduler.add("job", schedule, instances.handler(), jitter=0)
    scheduler.start()
    instances.clock.settle()
    schedule.next = raises
    instances.clock.advance(10)  # noon + 10 s fires, and no slot can be found after it
    schedule.mend()
    instances.clock.jump(wall=-3600 * SECOND)
    instances.clock.advance(300)
    again = instances.slots(since=10.001)
    assert again == every(10, start=again[0], count=len(again))
    assert len(again) >= 23
    assert len(errors(instances)) == 1


@bad_answers
def test_a_schedule_that_does_not_know_its_latest_slot_is_armed_all_the_same(
    instances: Instances, bad: Callable[[datetime], Any]
) -> None:
    schedule = Breakable()
    # As a latest slot, what is "not later" for the next one is one that has not come yet.
    schedule.latest = bad if bad not in (BAD["in the past"], BAD["the same"]) else _too_new
    scheduler = instances.new()
    scheduler.add("job", schedule, instances.handler(), jitter=0, catch_up="1h")
    scheduler.start()
    instances.clock.advance(30)
    assert instances.slots() == every(10, start=NOON + 10 * SECOND, count=3)
    assert [(error.operation, error.job) for error in errors(instances)] == [("schedule", "job")]


def _too_new(t: datetime) -> datetime:
    return t + SECOND


def test_a_late_slot_whose_schedule_cannot_tell_the_latest_is_an_error(
    instances: Instances,
) -> None:
    schedule = Breakable()
    scheduler = instances.new()
    scheduler.add("job", schedule, instances.handler(), jitter=0, max_late="5s")
    scheduler.start()
    instances.clock.settle()
    schedule.latest = raises
    instances.clock.jump(wall=3600, monotonic=3600)
    assert [skip.slot for skip in instances.skips("late")] == [NOON + 10 * SECOND]
    assert [(error.operation, error.job) for error in errors(instances)] == [("schedule", "job")]
    instances.clock.advance(10)
    assert instances.slots() == [NOON + 3610 * SECOND]


def test_a_schedule_without_a_slot_is_never_armed_and_no_error(instances: Instances) -> None:
    schedule = Breakable()
    schedule.next = schedule.latest = lambda t: None
    scheduler = instances.new()
    scheduler.add("job", schedule, instances.handler())
    scheduler.start()
    instances.clock.advance(3600)
    assert scheduler.jobs["job"].next_slot is None
    assert instances.seen == []
    assert instances.calls == []


def test_a_schedule_that_comes_to_its_end_runs_its_last_slot(instances: Instances) -> None:
    schedule = Breakable()
    ends = NOON + 30 * SECOND
    ten_seconds = Every("10s")
    schedule.next = lambda t: ten_seconds.next_after(t) if t < ends else None
    scheduler = instances.new()
    scheduler.add("job", schedule, instances.handler(), jitter=0)
    scheduler.start()
    instances.clock.advance(3600)
    assert instances.slots() == every(10, start=NOON + 10 * SECOND, count=3)
    assert scheduler.jobs["job"].next_slot is None
    assert errors(instances) == []


def test_a_job_removed_while_its_schedule_is_broken_is_not_asked_again(
    instances: Instances,
) -> None:
    schedule = Breakable()
    asked: list[datetime] = []

    def note(t: datetime) -> datetime:
        asked.append(t)
        return raises(t)

    schedule.next = note
    scheduler = instances.new()
    scheduler.add("job", schedule, instances.handler())
    scheduler.start()
    instances.clock.settle()
    assert len(asked) == 1
    scheduler.remove("job")
    instances.clock.advance(600)
    assert len(asked) == 1
    assert len(errors(instances)) == 1
