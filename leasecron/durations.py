"""Durations: seconds, a timedelta, or text such as ``'500ms'``, ``'10s'`` and ``'1h30m'``."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from functools import lru_cache
from typing import TypeAlias

import durationpy

from leasecron.errors import ConfigurationError, shown

Duration: TypeAlias = int | float | str | timedelta
"""Seconds as a number, a timedelta, or text: numbers with the units w, d, h, m, s or ms."""

TEN_YEARS = timedelta(days=3653).total_seconds()
"""The longest duration taken unless a caller says otherwise: ten years, leap days included."""

# durationpy alone would also take signs, digits of other scripts, 'us', 'mm' (a month) and 'y'.
_TEXT = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhdw]))+")

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))


def seconds(
    value: Duration,
    *,
    what: str,
    minimum: float = 0.001,
    maximum: float = TEN_YEARS,
    zero: bool = False,
) -> float:
    """Return ``value`` in seconds, exact to the microsecond.

    ``minimum`` and ``maximum`` are the bounds, both allowed; ``zero`` allows 0 as well. ``what``
    begins the message of the :class:`ConfigurationError` that anything else raises, such as
    ``"job 'sync': lease"``. Text is case-sensitive and has neither sign nor blanks; a number
    without a unit is not text but a number.
    """
    amount = _amount(value)
    if amount is None:
        raise ConfigurationError(
            f"{what} is {shown(value)}: right are seconds, a timedelta, or text such as "
            "'500ms', '10s', '1h30m' or '2d'"
        )
    if zero and amount == 0:
        return 0.0
    if not minimum <= amount <= maximum:  # nan fails here too
        bounds = f"{text(minimum)} to {text(maximum)}"
        raise ConfigurationError(f"{what} is {shown(value)}: right is {'0 or ' * zero}{bounds}")
    return round(float(amount), 6)


@lru_cache(maxsize=256)
def text(value: float) -> str:
    """Return seconds as text such as ``'1h30m'``, rounded to the millisecond."""
    left = round(value * 1000)
    words = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            words.append(f"{count}{unit}")
    return "".join(words) or "0s"


def _amount(value: object) -> float | None:
    """Return seconds, None for what is no duration at all."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float):
        return None if isinstance(value, bool) else value
    if isinstance(value, str) and _TEXT.fullmatch(value):
        try:
            return float(durationpy.from_str(value).total_seconds())
        except (durationpy.DurationError, OverflowError):  # sound, but no timedelta holds it
            return math.inf
    return None
