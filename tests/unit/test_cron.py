from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from importlib.resources import files
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from leasecron.cron import Cron
from leasecron.errors import ConfigurationError, shown

ROOT = Path(__file__).parents[2]
CASES = json.loads((ROOT / "tests/cases/cron.json").read_text("utf-8"))
GOOD = [case for case in CASES if case["expected_utc"] != "error"]
BAD = [case for case in CASES if case["expected_utc"] == "error"]
TICK = timedelta(microseconds=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _name(case: dict[str, Any]) -> str:
    return f"{case['expr']!r} {case['tz']}"


@pytest.mark.parametrize("case", GOOD, ids=_name)
def test_expected_slots_follow_each_other(case: dict[str, Any]) -> None:
    cron = Cron(case["expr"], case["tz"])
    t = datetime.fromisoformat(case["after_utc"])

    for expected in case["expected_utc"]:
        slot = cron.next_after(t)
        assert slot == datetime.fromisoformat(expected), case["note"]
        assert slot is not None
        assert slot.tzinfo is UTC
        t = slot


@pytest.mark.parametrize("case", GOOD, ids=_name)
def test_expected_slots_are_found_backwards(case: dict[str, Any]) -> None:
    cron = Cron(case["expr"], case["tz"])
    after = datetime.fromisoformat(case["after_utc"])
    slots = [datetime.fromisoformat(text) for text in case["expected_utc"]]

    for slot, following in zip(slots, [*slots[1:], None], strict=True):
        assert cron.latest_at(slot) == slot, case["note"]
        assert cron.latest_at(slot + TICK) == slot, case["note"]
        if following:
            assert cron.latest_at(following - TICK) == slot, case["note"]
    earlier = cron.latest_at(after)
    assert earlier is not None
    assert earlier <= after
    assert cron.latest_at(slots[0] - TICK) == earlier, case["note"]
    assert cron.next_after(earlier) == slots[0], case["note"]


@pytest.mark.parametrize("case", BAD, ids=_name)
def test_what_is_no_schedule_is_refused_when_declared(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Cron(case["expr"], case["tz"])

    wrong = case["expr"].strip() if case["tz"] == "UTC" else case["tz"]
    assert repr(wrong) in str(caught.value), case["note"]


@pytest.mark.parametrize(
    "expression",
    [
        *(None, 5, b"* * * * *", ["*"] * 5, "", " ", "@", "@reboot", "@every 5m"),
        *("* * * *", "0\u00a00 * * *", "9" * 5000 + " * * * *", "0 0 ? * *", "0 0 * * \0"),
        *("60 * * * * *", "0 0 */31 * MON#5", "0 0 * * 8", "0 24 * * *"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_an_expression_that_is_not_understood_is_refused_by_its_name(expression: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Cron(expression)

    assert f"cron expression {shown(expression)}".replace("' '", "''") in str(caught.value)


def test_the_message_says_what_would_be_right() -> None:
    with pytest.raises(ConfigurationError, match=r"'1 2 3': .*five fields.*six with seconds first"):
        Cron("1 2 3")
    with pytest.raises(ConfigurationError, match="names a date that never comes"):
        Cron("0 0 */31 * MON#5")


@pytest.mark.parametrize(
    ("alias", "written_out"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        (" @Hourly ", "0 * * * *"),
    ],
)
def test_an_alias_has_the_slots_of_what_it_stands_for(alias: str, written_out: str) -> None:
    zone = "America/New_York"
    t = NOON
    for _ in range(5):
        slot = Cron(alias, zone).next_after(t)
        assert slot == Cron(written_out, zone).next_after(t)
        assert slot is not None
        t = slot


def test_seconds_come_first_in_six_fields() -> None:
    cron = Cron("*/20 5 * * * *")

    assert cron.next_after(NOON) == NOON + timedelta(minutes=5)
    assert cron.next_after(NOON + timedelta(minutes=5)) == NOON + timedelta(minutes=5, seconds=20)
    assert cron.latest_at(NOON) == NOON - timedelta(minutes=54, seconds=20)


def test_a_seconds_field_does_not_change_what_is_fixed() -> None:
    before_gap = datetime(2026, 3, 8, 5, tzinfo=UTC)
    second_pass = datetime(2026, 11, 1, 6, 15, tzinfo=UTC)

    for five in ("30 2 * * *", "30 1 * * *", "* 2 * * *", "*/20 * * * *"):
        short, long = Cron(five, "America/New_York"), Cron(f"0 {five}", "America/New_York")
        for t in (before_gap, second_pass):
            assert short.next_after(t) == long.next_after(t)
            assert short.latest_at(t) == long.latest_at(t)
    every_second = Cron("* 30 2 * * *", "America/New_York")
    assert every_second.next_after(before_gap) == datetime(2026, 3, 8, 7, tzinfo=UTC)
    assert every_second.next_after(datetime(2026, 3, 8, 7, tzinfo=UTC)) == datetime(
        2026, 3, 9, 6, 30, tzinfo=UTC
    )


def test_the_parsed_expression_can_be_asked_about_any_instant_in_any_order() -> None:
    cron = Cron("0 3 * * *")
    days = [datetime(year, 5, 5, tzinfo=UTC) for year in (2026, 1999, 2400, 1970, 2026)]

    assert [cron.next_after(day) for day in days] == [day + timedelta(hours=3) for day in days]
    assert [cron.latest_at(day) for day in days] == [day - timedelta(hours=21) for day in days]


def test_jobs_with_one_expression_share_what_was_parsed() -> None:
    one, other = Cron("1,2,3 4 * * *", "Europe/Berlin"), Cron(" 1,2,3  4 * * *", "Asia/Tokyo")

    assert one._rule.pattern is other._rule.pattern


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("expression", ["* * * * *", "30 2 * * *", "0 0 29 2 *", "0 0 29 2 */7"])
def test_at_the_ends_of_datetimes_range_there_is_no_slot(expression: str, zone: str) -> None:
    cron = Cron(expression, zone)
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

    assert cron.next_after(last) is None
    assert cron.latest_at(first) in {None, first}
    for t in (first, first + timedelta(days=1), last - timedelta(days=1), last):
        for slot in (cron.next_after(t), cron.latest_at(t)):
            assert slot is None or slot.tzinfo is UTC
    assert cron.latest_at(last - timedelta(days=1)) is not None
    assert cron.next_after(first + timedelta(days=1)) is not None


def test_a_far_slot_is_found_in_both_directions() -> None:
    leap_day_on_sunday = Cron("0 0 29 2 */7")
    slots = [datetime(year, 2, 29, tzinfo=UTC) for year in (2088, 2128)]

    assert leap_day_on_sunday.next_after(slots[0]) == slots[1]
    assert leap_day_on_sunday.latest_at(slots[1] - TICK) == slots[0]


def test_instants_are_compared_in_utc() -> None:
    zone = ZoneInfo("America/New_York")
    cron = Cron("*/30 * * * *", zone)
    second_pass = datetime(2026, 11, 1, 1, 10, tzinfo=zone, fold=1)

    assert cron.next_after(second_pass) == datetime(2026, 11, 1, 6, 30, tzinfo=UTC)
    assert cron.latest_at(second_pass) == datetime(2026, 11, 1, 6, 0, tzinfo=UTC)


@pytest.mark.parametrize("tz", ["UTC", UTC, timezone(timedelta(0)), ZoneInfo("UTC")])
def test_utc_may_be_given_in_any_form(tz: str | tzinfo) -> None:
    cron = Cron("0 3 * * *", tz)

    assert cron == Cron("0 3 * * *")
    assert cron.tz == "UTC"


@pytest.mark.parametrize(
    "tz",
    [
        *(None, 3, b"UTC", ["UTC"], timezone(timedelta(hours=1)), "", " ", ".", "..", "utc+1"),
        *("/etc/localtime", "../../etc/passwd", "Europe/../Europe/Berlin", "Europe", "Europe/"),
        *("Europe/Berlin ", "Europe/Berlin\0", "tzdata.zi", "é", "\ud800", "x" * 5000),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_is_no_known_zone_is_refused_by_its_name(tz: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Cron("0 3 * * *", tz)

    assert f"tz is {shown(tz)}" in str(caught.value)
    assert "'Europe/Amsterdam'" in str(caught.value)


def test_a_zone_without_a_name_is_refused() -> None:
    with (files("tzdata") / "zoneinfo/Europe/Berlin").open("rb") as file:
        nameless = ZoneInfo.from_file(file)

    with pytest.raises(ConfigurationError, match="right is the name of a time zone"):
        Cron("0 3 * * *", nameless)


def test_a_cron_schedule_is_a_value() -> None:
    cron = Cron("0 3 * * *", "Europe/Amsterdam")

    assert cron == Cron("0  3 * *\t*", ZoneInfo("Europe/Amsterdam"))
    assert cron == Cron("0 3 * * *", ZoneInfo.no_cache("Europe/Amsterdam"))
    assert cron != Cron("0 3 * * *", "Europe/Berlin")
    assert cron != Cron("1 3 * * *", "Europe/Amsterdam")
    assert len({cron, Cron("0 3 * * *", "Europe/Amsterdam"), Cron("0 3 * * *")}) == 2
    assert repr(cron) == "Cron('0 3 * * *', tz='Europe/Amsterdam')"
    assert str(cron) == "cron '0 3 * * *' (Europe/Amsterdam)"
    assert (cron.expression, cron.tz) == ("0 3 * * *", "Europe/Amsterdam")
    with pytest.raises(AttributeError):
        cron.tz = "UTC"  # type: ignore[misc]
    for twin in (copy.copy(cron), copy.deepcopy(cron), pickle.loads(pickle.dumps(cron))):
        assert twin == cron
        assert twin.next_after(NOON) == cron.next_after(NOON)


def test_without_time_zone_data_only_utc_is_known() -> None:
    code = """
import sys
sys.modules["tzdata"] = None  # as if it were not installed
from datetime import UTC, datetime
from leasecron.cron import Cron
from leasecron.errors import ConfigurationError
assert Cron("0 3 * * *", "UTC").next_after(datetime(2026, 1, 1, tzinfo=UTC)).hour == 3
try:
    Cron("0 3 * * *", "Europe/Berlin")
except ConfigurationError as error:
    print(error)
"""
    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "tz is 'Europe/Berlin'" in answer.stdout
    assert "install the tzdata package" in answer.stdout
