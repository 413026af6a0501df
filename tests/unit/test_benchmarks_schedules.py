"""The schedules of the benchmarks keep the contract of schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.schedules import OneSlot, Shifted
from leasecron.schedules import ask_latest, ask_next

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
MS = timedelta(milliseconds=1)


def test_one_slot_comes_before_it_and_was_the_latest_from_then_on() -> None:
    schedule = OneSlot(NOON)

    assert [ask_next(schedule, NOON - MS), ask_next(schedule, NOON)] == [NOON, None]
    assert [ask_latest(schedule, NOON - MS), ask_latest(schedule, NOON)] == [None, NOON]


@pytest.mark.parametrize("offset", [0, 1, 250, 999])
def test_shifted_slots_are_an_interval_apart_and_each_is_the_latest_until_the_next(
    offset: int,
) -> None:
    schedule = Shifted(timedelta(seconds=1), offset * MS)
    slot = NOON + offset * MS

    assert ask_next(schedule, slot - MS) == slot
    assert ask_next(schedule, slot) == slot + timedelta(seconds=1)
    assert ask_latest(schedule, slot) == slot
    assert ask_latest(schedule, slot - MS) == slot - timedelta(seconds=1)
