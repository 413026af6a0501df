"""From seconds to instants in whole milliseconds, and back."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from leasecron.model import from_ms, from_seconds, to_ms

LAST = to_ms(datetime(2200, 1, 1, tzinfo=UTC))


def test_an_instant_survives_the_way_through_seconds() -> None:
    # As seconds in a float it is a little off: a slot must not seem to lie ahead of itself.
    chance = random.Random(20261129)
    for ms in [chance.randrange(LAST) for _ in range(20_000)]:
        assert to_ms(from_seconds(from_ms(ms).timestamp())) == ms


@pytest.mark.parametrize(
    ("microseconds", "expected"), [(0, 0), (1, 0), (999, 0), (1000, 1), (1999, 1), (-1, -1)]
)
def test_instants_are_rounded_down_to_the_millisecond(microseconds: int, expected: int) -> None:
    noon = datetime(2026, 11, 29, 12, tzinfo=UTC)
    moment = noon + timedelta(microseconds=microseconds)
    assert from_seconds(moment.timestamp()) == noon + timedelta(milliseconds=expected)


def test_instants_before_the_epoch_are_rounded_down_too() -> None:
    assert to_ms(from_seconds(-0.0005)) == -1
    assert to_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
