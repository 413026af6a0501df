from __future__ import annotations

import copy
import pickle
import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from leasecron.cron import Cron
from leasecron.errors import ConfigurationError
from leasecron.schedules import Every, Schedule, ask_latest, ask_next, check_schedule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
TICK = timedelta(microseconds=1)
MILLISECOND = timedelta(milliseconds=1)


def test_slots_of_an_interval_are_its_multiples_since_the_epoch() -> None:
    every = Every("7d")

    assert every.next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 8, tzinfo=UTC)
    assert every.latest_at(datetime(2026, 1, 7, 23, tzinfo=UTC)) == datetime(2026, 1, 1, tzinfo=UTC)


def test_the_next_slot_is_strictly_after_and_the_latest_may_be_now() -> None:
    every = Every("10s")

    assert every.next_after(NOON) == NOON + timedelta(seconds=10)
    assert every.next_after(NOON - TICK) == NOON
    assert every.latest_at(NOON) == NOON
    assert every.latest_at(NOON - TICK) == NOON - timedelta(seconds=10)


def test_an_interval_goes_on_before_the_epoch() -> None:
    every = Every("1h30m")

    assert every.next_after(EPOCH - TICK) == EPOCH
    assert every.latest_at(EPOCH - TICK) == EPOCH - timedelta(minutes=90)
    assert every.next_after(EPOCH - timedelta(days=36500)) == EPOCH - timedelta(
        days=36500, hours=-1.5
    )


@pytest.mark.parametrize("seed", range(3))
def test_slots_of_an_interval_are_whole_milliseconds_in_utc_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    zones = [UTC, timezone(timedelta(hours=-3.5)), ZoneInfo("Europe/Berlin")]
    for _ in range(300):
        length = chance.randrange(1, 10 ** chance.randrange(1, 12))
        every = Every(timedelta(milliseconds=length))
        t = EPOCH + timedelta(microseconds=chance.randrange(-(10**16), 10**17))
        t = t.astimezone(chance.choice(zones))
        after, latest = every.next_after(t), every.latest_at(t)
        where = f"{every!r} at {t}"
        assert after is not None, where
        assert latest is not None, where
        assert latest <= t < after, where
        assert after - latest == timedelta(milliseconds=length), where
        assert (after - EPOCH) % timedelta(milliseconds=length) == timedelta(0), where
        assert after.tzinfo is latest.tzinfo is UTC, where
        assert every.next_after(latest) == after, where
        assert every.latest_at(after - TICK) == latest, where


def test_an_interval_has_no_slot_outside_of_the_range_of_datetime() -> None:
    every = Every("3652d")

    assert every.next_after(LAST) is None
    assert every.latest_at(FIRST) is None
    assert every.latest_at(LAST) is not None
    assert every.next_after(FIRST) is not None


@pytest.mark.parametrize("value", [0.001, "10s", 10, timedelta(hours=36), "3653d"])
def test_an_interval_is_kept_in_seconds(value: Any) -> None:
    interval = Every(value).interval

    assert type(interval) is float
    assert Every(interval) == Every(value)


@pytest.mark.parametrize(
    "value", ["0s", "-5s", "0.5ms", 0.0000001, 10**12, True, None, "5 parsecs", "3654d"]
)
def test_an_interval_that_is_no_duration_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Every(value)

    assert f"interval is {value!r}: right" in str(caught.value)


@pytest.mark.parametrize("value", ["1.5ms", 1 / 3, timedelta(microseconds=1001)])
def test_an_interval_is_a_whole_number_of_milliseconds(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="whole number of milliseconds"):
        Every(value)


def test_an_interval_is_a_value() -> None:
    every = Every("90s")

    assert every == Every(90) == Every(timedelta(minutes=1.5)) == Every("1m30s")
    assert every != Every("91s")
    others: list[object] = [Cron("* * * * *"), "every 1m30s", 90.0]
    assert every not in others
    assert len({every, Every(90), Every("91s")}) == 2
    assert copy.deepcopy(every) == pickle.loads(pickle.dumps(every)) == every
    assert repr(every) == "Every('1m30s')"
    assert str(every) == "every 1m30s"
    assert str(Every("10s")) == "every 10s"
    with pytest.raises(AttributeError):
        every.interval = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("schedule", [Every("10s"), Cron("* * * * *", "Europe/Berlin")], ids=str)
@pytest.mark.parametrize("t", [datetime(2026, 1, 1), NOON.date(), None, 0.0, "now"], ids=repr)
def test_only_aware_datetimes_are_answered(schedule: Schedule, t: Any) -> None:
    for ask in (schedule.next_after, schedule.latest_at):
        with pytest.raises(ConfigurationError) as caught:
            ask(t)
        assert repr(t) in str(caught.value)
        assert "aware datetime" in str(caught.value)


class Listed:
    """A schedule of a user's own, from a list of slots."""

    def __init__(self, *slots: datetime) -> None:
        self.slots = slots

    def next_after(self, t: datetime, /) -> datetime | None:
        return min((slot for slot in self.slots if slot > t), default=None)

    def latest_at(self, t: datetime, /) -> datetime | None:
        return max((slot for slot in self.slots if slot <= t), default=None)


class Stubborn:
    """A schedule that answers the same to everything."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def next_after(self, t: datetime, /) -> Any:
        return self.answer

    latest_at = next_after


@pytest.mark.parametrize(
    "schedule", [Every(1), Cron("@daily"), Listed()], ids=lambda s: type(s).__name__
)
def test_what_has_both_methods_is_a_schedule(schedule: object) -> None:
    check_schedule(schedule, "job 'sync': schedule")


@pytest.mark.parametrize(
    "schedule", [None, "10s", 10, Every, Listed, Listed().next_after, object()]
)
def test_what_lacks_a_method_is_no_schedule(schedule: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_schedule(schedule, "job 'sync': schedule")

    message = str(caught.value)
    assert message.startswith(f"job 'sync': schedule is {schedule!r}: right is Every('10s')")
    assert "next_after(t)" in message


def test_a_schedule_with_one_method_is_no_schedule() -> None:
    half = Listed()
    half.latest_at = None  # type: ignore[method-assign, assignment]

    with pytest.raises(ConfigurationError):
        check_schedule(half, "schedule")


def test_answers_of_a_users_schedule_are_given_in_utc() -> None:
    slot = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    schedule = Listed(slot)

    for answer in (
        ask_next(schedule, slot - MILLISECOND),
        ask_latest(schedule, slot + MILLISECOND),
        ask_latest(schedule, slot),
    ):
        assert answer == datetime(2026, 7, 1, 10, tzinfo=UTC)
        assert answer is not None
        assert answer.tzinfo is UTC


def test_a_users_schedule_may_have_no_slot() -> None:
    assert ask_next(Listed(), NOON) is None
    assert ask_latest(Listed(), NOON) is None
    assert ask_next(Listed(NOON), NOON) is None
    assert ask_latest(Listed(NOON), NOON - MILLISECOND) is None


def test_slots_between_two_milliseconds_come_once_each() -> None:
    slots = [NOON + timedelta(microseconds=n) for n in (0, 400, 999, 1000, 1500, 3700, 4000)]
    schedule = Listed(*slots)
    cut = [NOON + n * MILLISECOND for n in (0, 1, 3, 4)]

    forward = [ask_next(schedule, NOON - MILLISECOND)]
    while (slot := forward[-1]) is not None:
        forward.append(ask_next(schedule, slot))
    assert forward == [*cut, None]
    for microseconds in range(0, 5000, 100):
        t = NOON + timedelta(microseconds=microseconds)
        latest = ask_latest(schedule, t)
        assert latest == max(slot for slot in cut if slot <= t)
        assert ask_next(schedule, t) == min((slot for slot in cut if slot > t), default=None)
        assert ask_next(schedule, latest) == ask_next(schedule, t)


@pytest.mark.parametrize(
    "answer", [datetime(2026, 1, 2), NOON.date(), "tomorrow", 1_800_000_000.0, False], ids=repr
)
def test_a_users_answer_that_is_no_aware_datetime_is_refused(answer: Any) -> None:
    for ask in (ask_next, ask_latest):
        with pytest.raises(ConfigurationError) as caught:
            ask(Stubborn(answer), NOON)
        assert str(caught.value).startswith(f"the schedule Stubborn answered {answer!r}: right is")


@pytest.mark.parametrize("answer", [NOON, NOON - MILLISECOND, FIRST])
def test_a_users_next_slot_must_be_later_than_asked(answer: datetime) -> None:
    with pytest.raises(ConfigurationError, match="right is a later one"):
        ask_next(Stubborn(answer), NOON)


@pytest.mark.parametrize("answer", [NOON + MILLISECOND, LAST])
def test_a_users_latest_slot_must_not_be_later_than_asked(answer: datetime) -> None:
    with pytest.raises(ConfigurationError, match="right is no later one"):
        ask_latest(Stubborn(answer), NOON)


def test_what_a_users_schedule_raises_passes_through() -> None:
    class Broken(Listed):
        def next_after(self, t: datetime, /) -> datetime | None:
            raise LookupError("no calendar")

        latest_at = next_after

    for ask in (ask_next, ask_latest):
        with pytest.raises(LookupError, match="no calendar"):
            ask(Broken(), NOON)


def test_a_schedule_derived_from_ours_is_guarded_too() -> None:
    class Shifted(Every):
        def next_after(self, t: datetime, /) -> datetime | None:
            return t

    with pytest.raises(ConfigurationError, match="right is a later one"):
        ask_next(Shifted("10s"), NOON)


@pytest.mark.parametrize("schedule", [Every("10s"), Cron("*/5 * * * *")], ids=str)
def test_our_own_schedules_answer_as_they_are_asked(schedule: Schedule) -> None:
    for t in (NOON, NOON - TICK, NOON + TICK):
        assert ask_next(schedule, t) == schedule.next_after(t)
        assert ask_latest(schedule, t) == schedule.latest_at(t)
