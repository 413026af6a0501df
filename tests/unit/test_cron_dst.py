"""Cron slots around changes of the clock, against a reference that only looks at the clock.

The reference walks through real time step by step and reads the clock at each: no offsets, no fold,
no cronsim, and no parser, since an expression is drawn together with the numbers that it means.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from leasecron.cron import Cron

TICK = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

AROUND = 5 * HOUR
"""The reference covers this much before and after a change."""

ZONES = [
    "Africa/Casablanca",  # back and forth around each Ramadan
    "America/New_York",
    "America/Santiago",  # the gap is at midnight
    "Antarctica/Troll",  # changes by two hours
    "Asia/Kathmandu",  # changed by 15 minutes in 1986
    "Atlantic/Azores",  # the repeat crosses midnight
    "Australia/Lord_Howe",  # changes by 30 minutes
    "Europe/Berlin",
    "Europe/Dublin",  # winter is the daylight saving time
    "Europe/London",
]

Field = tuple[str, frozenset[int]]


def _field(text: str, *numbers: int) -> Field:
    return text, frozenset(numbers)


SECONDS = [_field("0", 0), _field("*/20", 0, 20, 40), _field("7,59", 7, 59)]
MINUTES = [
    _field("*", *range(60)),
    _field("*/20", 0, 20, 40),
    _field("0", 0),
    _field("30", 30),
    _field("0,30", 0, 30),
    _field("59", 59),
    _field("5-50/15", 5, 20, 35, 50),
    _field("0-59", *range(60)),
]
HOURS = [
    _field("*", *range(24)),
    _field("*/2", *range(0, 24, 2)),
    _field("0", 0),
    _field("1", 1),
    _field("2", 2),
    _field("3", 3),
    _field("0-3", 0, 1, 2, 3),
    _field("23,0,1", 23, 0, 1),
    _field("*/23", 0, 23),
    _field("0-23", *range(24)),
]
WEEKDAYS = [_field("*", *range(7)), _field("SUN", 6), _field("0-5", 0, 1, 2, 3, 4, 6)]


@dataclass(frozen=True)
class Drawn:
    """An expression, and what it means."""

    text: str
    second: frozenset[int]
    minute: frozenset[int]
    hour: frozenset[int]
    weekday: frozenset[int]
    fixed: bool
    step: timedelta

    def matches(self, reading: datetime) -> bool:
        return (
            reading.second in self.second
            and reading.minute in self.minute
            and reading.hour in self.hour
            and reading.weekday() in self.weekday
        )


def draw(chance: random.Random, *, with_seconds: bool) -> Drawn:
    minute, hour, weekday = (chance.choice(fields) for fields in (MINUTES, HOURS, WEEKDAYS))
    second = chance.choice(SECONDS) if with_seconds else _field("0", 0)
    text = f"{minute[0]} {hour[0]} * * {weekday[0]}"
    return Drawn(
        text=f"{second[0]} {text}" if with_seconds else text,
        second=second[1],
        minute=minute[1],
        hour=hour[1],
        weekday=weekday[1],
        fixed="*" not in minute[0] + hour[0],
        step=SECOND if with_seconds else MINUTE,
    )


def slots_between(drawn: Drawn, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Return the slots of a walk through real time."""
    slots = []
    reached = start.astimezone(zone).replace(tzinfo=None) - drawn.step
    instant = start
    while instant < end:
        reading = instant.astimezone(zone).replace(tzinfo=None)
        due = False
        if not drawn.fixed:
            due = drawn.matches(reading)
        while reached < reading:
            reached += drawn.step
            due = due or (drawn.fixed and drawn.matches(reached))
        if due:
            slots.append(instant)
        instant += drawn.step
    return slots


def changes(zone: ZoneInfo, first_year: int, last_year: int) -> Iterator[datetime]:
    """Yield the first instants with a new offset."""
    day = datetime(first_year, 1, 1, tzinfo=UTC)
    while day.year <= last_year:
        low, high = day, day + DAY
        offset = low.astimezone(zone).utcoffset()
        if high.astimezone(zone).utcoffset() != offset:
            while high - low > SECOND:
                middle = low + (high - low) // SECOND // 2 * SECOND
                if middle.astimezone(zone).utcoffset() == offset:
                    low = middle
                else:
                    high = middle
            yield high
        day += DAY


def probes(
    chance: random.Random, change: datetime, slots: list[datetime], count: int
) -> Iterator[datetime]:
    """Yield instants to ask about: the change, slots, and their neighbours; minutes, seconds."""
    lucky = [slot for slot in slots if abs(slot - change) < AROUND - HOUR]
    for instant in [change, *chance.sample(lucky, min(len(lucky), count // 2))]:
        yield from (instant - SECOND, instant - TICK, instant, instant + TICK, instant + SECOND)
    reach = int((AROUND - HOUR) / SECOND)
    for _ in range(count):
        second = change + timedelta(seconds=chance.randrange(-reach, reach))
        yield second
        yield second.replace(second=0)
        yield second.replace(microsecond=chance.randrange(1_000_000))


def check(drawn: Drawn, name: str, change: datetime, chance: random.Random, count: int) -> int:
    """Compare with the reference around one change; return the number of questions."""
    cron = Cron(drawn.text, name)
    slots = slots_between(drawn, ZoneInfo(name), change - AROUND, change + AROUND)
    asked = 0
    for t in probes(chance, change, slots, count):
        where = f"{cron!r} at {t}, change at {change}"
        index = bisect_right(slots, t)
        after, latest = cron.next_after(t), cron.latest_at(t)
        assert after is not None, where
        assert latest is not None, where
        assert after == slots[index] if index < len(slots) else after >= change + AROUND, where
        assert latest == slots[index - 1] if index else latest < change - AROUND, where
        assert latest <= t < after, where
        assert cron.next_after(latest) == after, where
        assert cron.latest_at(after) == after, where
        assert cron.latest_at(after - TICK) == latest, where
        asked += 1
    return asked


@pytest.mark.parametrize("name", ZONES)
def test_slots_around_a_change_are_those_of_a_walk_through_real_time(name: str) -> None:
    chance = random.Random(name)
    first, last = (1985, 1987) if name == "Asia/Kathmandu" else (2025, 2026)
    asked = sum(
        check(draw(chance, with_seconds=False), name, change, chance, count=4)
        for change in changes(ZoneInfo(name), first, last)
        for _ in range(8)
    )
    assert asked > 80


@pytest.mark.parametrize("name", ["America/New_York", "Australia/Lord_Howe"])
def test_expressions_with_seconds_follow_the_same_rules(name: str) -> None:
    chance = random.Random(name)
    asked = sum(
        check(draw(chance, with_seconds=True), name, change, chance, count=4)
        for change in changes(ZoneInfo(name), 2026, 2026)
        for _ in range(3)
    )
    assert asked > 50


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_slots_in_all_zones_are_those_of_a_walk_through_real_time(seed: int) -> None:
    chance = random.Random(seed)
    for name in chance.sample(sorted(available_timezones()), 60):
        zone = ZoneInfo(name)
        known = [t for t in changes(zone, 1975, 2040) if leap(zone, t) <= 3 * HOUR]
        for change in chance.sample(known, min(len(known), 15)):
            for _ in range(3):
                check(draw(chance, with_seconds=False), name, change, chance, count=4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "year"),
    [
        ("Pacific/Apia", 2011),  # a day left out
        ("Pacific/Kwajalein", 1969),  # 23 hours twice
        ("America/Juneau", 1867),  # a day twice
        ("Europe/Paris", 1911),  # 9 minutes and 21 seconds twice
        ("Africa/Monrovia", 1972),  # 44 minutes and 30 seconds left out
    ],
)
def test_slots_stay_in_order_across_uncommon_changes(name: str, year: int) -> None:
    chance = random.Random(name)
    found = list(changes(ZoneInfo(name), year, year))
    assert found
    for change in found:
        for _ in range(30):
            cron = Cron(draw(chance, with_seconds=False).text, name)
            for t in probes(chance, change, [], 40):
                where = f"{cron!r} at {t}, change at {change}"
                after, latest = cron.next_after(t), cron.latest_at(t)
                assert after is not None, where
                assert latest is not None, where
                assert latest <= t < after, where
                assert cron.next_after(latest) == after, where
                assert cron.latest_at(after - TICK) == latest, where


def leap(zone: ZoneInfo, change: datetime) -> timedelta:
    """Return by how much the clock is put forward or back."""
    before = (change - SECOND).astimezone(zone).utcoffset()
    after = change.astimezone(zone).utcoffset()
    assert before is not None
    assert after is not None
    return abs(after - before)
