"""The machine sleeps: the wall clock is ahead at once, and the monotonic clock has rested."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fake_instances import NOON, Instances, several_orders

from leasecron import JobOptionArgs

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def test_asleep_over_a_slot_it_is_skipped_once_as_late_and_the_next_is_right(
    instances: Instances,
) -> None:
    scheduler = instances.new()
    scheduler.cron("job", "0 18 * * *", instances.handler(), max_late="5s")
    scheduler.start()
    instances.clock.settle()
    instances.clock.jump(wall=8 * HOUR)  # six hours before the slot, and the monotonic clock rested
    instances.clock.advance(60)
    assert [skip.slot for skip in instances.skips("late")] == [
        datetime(2026, 11, 29, 18, tzinfo=UTC)
    ]
    assert scheduler.jobs["job"].next_slot == datetime(2026, 11, 30, 18, tzinfo=UTC)
    instances.clock.advance(23 * HOUR)
    assert [call.slot for call in instances.calls] == [datetime(2026, 11, 30, 18, tzinfo=UTC)]
    assert len(instances.skips("late")) == 1


def test_a_slot_that_was_skipped_as_late_is_not_caught_up_after_all(instances: Instances) -> None:
    scheduler = instances.new()
    scheduler.cron("job", "0 18 * * *", instances.handler(), max_late="5s", catch_up="1h")
    scheduler.start()
    instances.clock.settle()
    instances.move_wall_to(NOON + 6 * HOUR + 600 * SECOND)
    instances.clock.advance(120)
    assert [skip.slot for skip in instances.skips("late")] == [NOON + 6 * HOUR]
    assert instances.calls == []


@several_orders
def test_asleep_over_several_slots_the_latest_is_caught_up(instances: Instances) -> None:
    instances.move_wall_to(NOON - 11 * 60 * SECOND)
    for _ in range(2):
        scheduler = instances.new()
        scheduler.every("job", "1h", instances.handler())
        scheduler.start()
    instances.clock.advance(60)  # 11:50
    instances.move_wall_to(NOON + 2 * HOUR + 120 * SECOND)
    instances.clock.advance(61)
    assert [skip.slot for skip in instances.skips("late")] == [NOON] * 2
    assert [(call.slot, call.trigger) for call in instances.calls] == [
        (NOON + 2 * HOUR, "catch-up")
    ]
    instances.clock.advance(HOUR)
    assert instances.slots() == [NOON + 2 * HOUR, NOON + 3 * HOUR]


@pytest.mark.parametrize("woken", ["14:06", "14:02"])
def test_asleep_over_several_slots_none_is_caught_up_that_is_not_to_be(
    instances: Instances, woken: str
) -> None:
    scheduler = instances.new()
    options: dict[str, JobOptionArgs] = {"14:06": {}, "14:02": {"catch_up": 0}}
    scheduler.every("job", "1h", instances.handler(), **options[woken])
    scheduler.start()
    instances.clock.settle()
    hour, minute = map(int, woken.split(":"))
    instances.move_wall_to(NOON.replace(hour=hour, minute=minute))
    instances.clock.advance(61)
    assert instances.slots() == []
    assert [skip.slot for skip in instances.skips("late")] == [NOON + HOUR]
    assert scheduler.jobs["job"].next_slot == NOON + 3 * HOUR
