"""Schedules: pure answers to "which slot comes after t" and "which was the latest at t"."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol, TypeVar

from leasecron.cron import Cron
from leasecron.durations import Duration, seconds, text
from leasecron.errors import ConfigurationError, shown
from leasecron.zones import naive, to_utc

__all__ = [
    "Cron",
    "Every",
    "Once",
    "Schedule",
    "ask_latest",
    "ask_next",
    "check_schedule",
    "instant_of",
    "schedule_in_words",
    "shared",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Schedule(Protocol):
    """When a job is due. Any object with these two methods is one.

    Both are pure: no clock inside, the same answer in every instance at every time, or the
    instances do not agree on the slots. They are asked with an aware datetime and answer with one,
    or with None when there is no such slot; slots are cut to whole milliseconds. For all ``t`` with
    slots on both sides ``latest_at(t) <= t < next_after(t)`` and
    ``next_after(latest_at(t)) == next_after(t)``. ``str()`` is the schedule in words, which the
    store keeps for its readers.
    """

    def next_after(self, t: datetime, /) -> datetime | None:
        """Return the first slot after ``t``."""

    def latest_at(self, t: datetime, /) -> datetime | None:
        """Return the last slot at or before ``t``."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Every:
    """The multiples of an interval, counted from the Unix epoch.

    So all instances have the same slots, whenever they started, and no slot drifts. The interval is
    a whole number of milliseconds from 1 ms to 10 years; ``interval`` holds it in seconds. Where
    the slot would leave datetime's range the answer is None.
    """

    interval: float
    _step: timedelta = field(compare=False)

    def __init__(self, interval: Duration) -> None:
        length = seconds(interval, what="interval")
        step = timedelta(seconds=length)
        if step % _MILLISECOND:
            raise ConfigurationError(
                f"interval is {shown(interval)}: right is a whole number of milliseconds"
            )
        object.__setattr__(self, "interval", length)
        object.__setattr__(self, "_step", step)

    def next_after(self, t: datetime, /) -> datetime | None:
        """Return the first multiple after ``t``."""
        try:
            return _EPOCH + ((t - _EPOCH) // self._step + 1) * self._step
        except TypeError:
            raise naive(t) from None
        except OverflowError:
            return None

    def latest_at(self, t: datetime, /) -> datetime | None:
        """Return the last multiple at or before ``t``."""
        try:
            return _EPOCH + (t - _EPOCH) // self._step * self._step
        except TypeError:
            raise naive(t) from None
        except OverflowError:
            return None

    def __repr__(self) -> str:
        return f"Every({text(self.interval)!r})"

    def __str__(self) -> str:
        return f"every {text(self.interval)}"


@dataclass(frozen=True, slots=True)
class Once:
    """A single slot, an aware instant, in whole milliseconds (rounded down)."""

    instant: datetime

    def __post_init__(self) -> None:
        if not isinstance(self.instant, datetime) or self.instant.utcoffset() is None:
            raise ConfigurationError(
                f"instant is {shown(self.instant)}: right is an aware datetime, such as"
                " datetime.now(UTC)"
            )
        try:
            object.__setattr__(self, "instant", _cut(to_utc(self.instant)))
        except OverflowError as error:
            raise ConfigurationError(
                f"instant is {shown(self.instant)}: right is one of the years 1 to 9999 in UTC"
            ) from error

    def next_after(self, t: datetime, /) -> datetime | None:
        """Return the instant if it is after ``t``."""
        return self.instant if self._is_after(t) else None

    def latest_at(self, t: datetime, /) -> datetime | None:
        """Return the instant if it is not after ``t``."""
        return None if self._is_after(t) else self.instant

    def _is_after(self, t: datetime) -> bool:
        try:
            return self.instant > t
        except TypeError:
            raise naive(t) from None

    def __str__(self) -> str:
        return f"once at {self.instant.isoformat()}"


_OWN = frozenset({Cron, Every, Once})
_Own = TypeVar("_Own", Cron, Every)


@lru_cache(maxsize=1024)
def shared(schedule: _Own) -> _Own:
    """Return the first schedule that was equal, so that all jobs that have it have one object."""
    return schedule


def instant_of(when: datetime | Duration, now: datetime, what: str) -> datetime:
    """Return an aware datetime as it is, and a duration as so long after ``now``.

    Raises :class:`ConfigurationError`, beginning with ``what``, for anything else.
    """
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise ConfigurationError(
                f"{what} is {shown(when)}: right is an aware datetime, such as"
                " datetime(2026, 12, 24, 18, tzinfo=UTC), or a duration from now, such as '1h'"
            )
        return when
    return now + timedelta(seconds=seconds(when, what=what, zero=True))


_EVERY = re.compile(r"every (\S+)")
_CRON = re.compile(r"cron '([^']+)' \((\S+)\)")
_ONCE = re.compile(r"once at (\S+)")


def schedule_in_words(text: str) -> Schedule | None:
    """Return the schedule that ``str()`` put into these words, or None for one of a user's own.

    For those who have only the store, which keeps the words.
    """
    with suppress(ConfigurationError, ValueError):  # it only looked like one of ours
        if match := _EVERY.fullmatch(text):
            return Every(match[1])
        if match := _CRON.fullmatch(text):
            return Cron(match[1], match[2])
        if match := _ONCE.fullmatch(text):
            return Once(datetime.fromisoformat(match[1]))
    return None


def check_schedule(schedule: object, what: str) -> None:
    """Raise :class:`ConfigurationError`, beginning with ``what``, if this is no schedule."""
    methods = (getattr(schedule, name, None) for name in ("next_after", "latest_at"))
    if isinstance(schedule, type) or not all(callable(method) for method in methods):
        raise ConfigurationError(
            f"{what} is {shown(schedule)}: right is Every('10s'), Cron('0 3 * * *'), or "
            "an object with "
            "the methods next_after(t) and latest_at(t)"
        )


def ask_next(schedule: Schedule, t: datetime) -> datetime | None:
    """Return the first slot after ``t`` in UTC, in whole milliseconds; None when there is none.

    The answer of a user's schedule is not believed: one that is no aware datetime, or is not later
    than asked, is a :class:`ConfigurationError`. What the schedule itself raises passes through.
    """
    if type(schedule) in _OWN:
        return schedule.next_after(t)
    asked = _end_of_millisecond(t)
    answer = _instant(schedule, _call(schedule.next_after, asked))
    if answer is not None and answer <= asked:
        raise _refusal(schedule, f"{answer} as the next slot after {asked}: right is a later one")
    return None if answer is None else _cut(answer)


def ask_latest(schedule: Schedule, t: datetime) -> datetime | None:
    """Return the last slot at or before ``t``, with the guards of :func:`ask_next`."""
    if type(schedule) in _OWN:
        return schedule.latest_at(t)
    asked = _end_of_millisecond(t)
    answer = _instant(schedule, _call(schedule.latest_at, asked))
    if answer is not None and answer > asked:
        raise _refusal(schedule, f"{answer} as the latest slot at {asked}: right is no later one")
    return None if answer is None else _cut(answer)


def _call(ask: Callable[[datetime], object], t: datetime) -> object:
    """Call a user's schedule; SystemExit and its kin become an ordinary error of it."""
    try:
        return ask(t)
    except Exception:
        raise
    except BaseException as error:
        raise ConfigurationError(f"the schedule raised {type(error).__name__}") from error


def _end_of_millisecond(t: datetime) -> datetime:
    """Return the last microsecond of the millisecond in which ``t`` lies.

    Asked there, a schedule whose slots lie between two milliseconds has each of them once: cut to
    its millisecond it is after ``t`` exactly if the slot itself is after this.
    """
    return _cut(to_utc(t)) + timedelta(microseconds=999)


def _cut(t: datetime) -> datetime:
    return t.replace(microsecond=t.microsecond // 1000 * 1000)


def _instant(schedule: Schedule, answer: object) -> datetime | None:
    if answer is None:
        return None
    if not isinstance(answer, datetime) or answer.utcoffset() is None:
        raise _refusal(schedule, f"{shown(answer)}: right is an aware datetime, or None")
    return answer.astimezone(UTC)


def _refusal(schedule: Schedule, answer: str) -> ConfigurationError:
    return ConfigurationError(f"the schedule {type(schedule).__qualname__} answered {answer}")
