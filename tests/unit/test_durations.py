from __future__ import annotations

import math
import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from leasecron.durations import TEN_YEARS, seconds, text
from leasecron.errors import ConfigurationError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("500ms", 0.5),
        ("1ms", 0.001),
        ("0.1s", 0.1),
        ("0.3s", 0.3),
        ("1.1s", 1.1),
        ("1.5s", 1.5),
        ("10s", 10.0),
        ("007s", 7.0),
        ("90m", 5400.0),
        ("2.3h", 8280.0),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("1m30.25s", 90.25),
        ("2d", 172_800.0),
        ("1w", 604_800.0),
        ("1w2d3h4m5s6ms", 788_645.006),
        ("3653d", TEN_YEARS),
        (10, 10.0),
        (0.1, 0.1),
        (0.1 + 0.2, 0.3),
        (1 / 3, 0.333333),
        (timedelta(seconds=10), 10.0),
        (timedelta(microseconds=1_000_001), 1.000001),
    ],
)
def test_a_duration_is_read_exact_to_the_microsecond(value: Any, expected: float) -> None:
    result = seconds(value, what="lease")

    assert result == expected
    assert type(result) is float


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "s", "10", "0", "abc", "nan", "inf"),
        *("-5s", "+5s", "1e3s", "1_0s", "1,5s", "1..5s", "1.s", ".5s"),
        *("10 s", " 10s", "10s ", "10s\n", "1h 30m", "10S", "1H", "5M"),
        *("5 parsecs", "5us", "5ns", "5µs", "1y", "1mm", "10s5", "ms5"),
        *("٥s", "¹s", "5ѕ", "10s\0"),  # noqa: RUF001 - other scripts are the point
        *(None, True, False, b"10s", Decimal(10), [10], 1j, object()),
    ],
    ids=repr,
)
def test_what_is_no_duration_is_refused_with_what_would_be_right(value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        seconds(value, what="job 'sync': lease")

    message = str(caught.value)
    assert message.startswith(f"job 'sync': lease is {value!r}: right are seconds, a timedelta")
    assert "'1h30m'" in message


@pytest.mark.parametrize(
    "value",
    [
        *(0, 0.0, -1, -0.5, 0.0000001, 0.0009, 10**12, 10**400, math.inf, -math.inf, math.nan),
        *("0s", "0.4ms", "0.0000001s", "3654d", "9" * 400 + "s"),
        *(timedelta(0), timedelta(seconds=-1), timedelta.max, timedelta.min),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_duration_out_of_bounds_is_refused_with_the_bounds(value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        seconds(value, what="job 'sync': lease")

    assert str(caught.value) == f"job 'sync': lease is {value!r}: right is 1ms to 3653d"


def test_bounds_are_allowed_and_belong_to_the_caller() -> None:
    assert seconds("1m", what="max_late", minimum=60, maximum=3600) == 60.0
    assert seconds("1h", what="max_late", minimum=60, maximum=3600) == 3600.0
    with pytest.raises(ConfigurationError, match=r"right is 1m to 1h$"):
        seconds(59, what="max_late", minimum=60, maximum=3600)
    with pytest.raises(ConfigurationError, match=r"right is 1m to 1h$"):
        seconds(3601, what="max_late", minimum=60, maximum=3600)


@pytest.mark.parametrize("value", [0, 0.0, -0.0, "0s", "0h0m", timedelta(0)])
def test_zero_is_a_duration_only_where_it_is_allowed(value: Any) -> None:
    assert math.copysign(1, seconds(value, what="jitter", zero=True)) == 1.0
    assert seconds(value, what="jitter", zero=True) == 0.0
    with pytest.raises(ConfigurationError):
        seconds(value, what="jitter")


def test_where_zero_is_allowed_the_message_says_so() -> None:
    with pytest.raises(ConfigurationError, match="jitter is -1: right is 0 or 1ms to 3653d"):
        seconds(-1, what="jitter", zero=True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0s"),
        (0.0004, "0s"),
        (0.5, "500ms"),
        (10.0, "10s"),
        (90.25, "1m30s250ms"),
        (5400.0, "1h30m"),
        (172_800.0, "2d"),
        (TEN_YEARS, "3653d"),
    ],
)
def test_text_of_a_duration(value: float, expected: str) -> None:
    assert text(value) == expected


@pytest.mark.parametrize("seed", range(3))
def test_text_of_a_duration_means_that_duration(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(500):
        value = chance.randrange(1, 10 ** chance.randrange(1, 12)) / 1000
        assert seconds(text(value), what="interval") == value
