"""Schedules written as cron expressions, in the wall clock of a time zone.

cronsim reads the expression and walks from match to match over naive readings of the clock. What
becomes of them where the clock is put forward or back is decided here and not by cronsim, which
can answer with an instant before the one asked about, or miss one, near a change.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache

from cronsim import CronSim, CronSimError

from leasecron.errors import ConfigurationError, shown
from leasecron.zones import WallClock, find_zone, to_utc

_TICK = timedelta.resolution
_ORIGIN = datetime(2000, 1, 1)  # noqa: DTZ001 - a reading of a wall clock has no zone
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_RIGHT = (
    "right are five fields (minute hour day month weekday), six with seconds first, "
    "or one of " + ", ".join(_ALIASES)
)


class _Pattern:
    """A parsed expression: which readings of the clock match, whatever the zone."""

    __slots__ = ("_parsed", "fixed")

    def __init__(self, fields: str) -> None:
        self._parsed = CronSim(fields, _ORIGIN)
        minute, hour = fields.split()[-5:-3]
        self.fixed = not minute.startswith("*") and not hour.startswith("*")

    def after(self, reading: datetime) -> datetime | None:
        """Return the first match after ``reading``."""
        return self._walk(reading.replace(microsecond=0), 1)

    def until(self, reading: datetime) -> datetime | None:
        """Return the last match at or before ``reading``."""
        return self._walk(reading.replace(microsecond=0) + timedelta(seconds=1), -1)

    def _walk(self, reading: datetime, direction: int) -> datetime | None:
        # Parsing costs as much as the walk or more, and a parsed expression is 5 to 9 KB: all jobs
        # with one expression share it. A walk moves only its own shallow copy.
        walker = copy.copy(self._parsed)
        walker.dt = reading.replace(fold=0)
        walker.tick_direction = direction
        return next(walker, None)


@lru_cache(maxsize=1024)
def _parse(expression: str) -> _Pattern:
    try:
        pattern = _Pattern(_ALIASES.get(expression.lower(), expression))
    except (CronSimError, ValueError) as error:  # ValueError: a number of thousands of digits
        raise ConfigurationError(
            f"cron expression {shown(expression)}: {error}; {_RIGHT}"
        ) from error
    if pattern.after(_ORIGIN) is None:
        raise ConfigurationError(
            f"cron expression {shown(expression)} names a date that never comes"
        )
    return pattern


@dataclass(frozen=True, slots=True)
class _FixedTime:
    """Each match is due when the clock first shows it or, having leapt over it, a later reading."""

    pattern: _Pattern
    clock: WallClock

    def next_after(self, t: datetime) -> datetime | None:
        return self._due(self.pattern.after(self._reached(t)))

    def latest_at(self, t: datetime) -> datetime | None:
        return self._due(self.pattern.until(self._reached(t)))

    def _reached(self, t: datetime) -> datetime:
        """Return the latest reading that the clock has shown up to ``t``."""
        reading = self.clock.reading(t)
        if reading.fold and (change := self.clock.change(reading)):
            return change.before - _TICK
        return reading

    def _due(self, match: datetime | None) -> datetime | None:
        if match is None:
            return None
        if instants := self.clock.instants(match):
            return instants[0]
        gap = self.clock.change(match)
        return gap.at if gap else None


@dataclass(frozen=True, slots=True)
class _RealTime:
    """A match is due whenever the clock shows it: in a gap never, in a repeat twice."""

    pattern: _Pattern
    clock: WallClock

    def next_after(self, t: datetime) -> datetime | None:
        reading = self.clock.reading(t)
        match = self.pattern.after(reading)
        repeat = None if reading.fold else self.clock.change(reading)
        if repeat and (match is None or match >= repeat.before):
            match = self.pattern.after(repeat.after - _TICK)  # the second pass lies between
        while match is not None:
            for instant in self.clock.instants(match):
                if instant > t:
                    return instant
            gap = self.clock.change(match)
            match = self.pattern.after(max(match, gap.after - _TICK) if gap else match)
        return None

    def latest_at(self, t: datetime) -> datetime | None:
        reading = self.clock.reading(t)
        match = self.pattern.until(reading)
        repeat = self.clock.change(reading) if reading.fold else None
        if repeat and (match is None or match < repeat.after):
            match = self.pattern.until(repeat.before - _TICK)  # the first pass lies between
        while match is not None:
            for instant in reversed(self.clock.instants(match)):
                if instant <= t:
                    return instant
            gap = self.clock.change(match)
            match = self.pattern.until(min(match, gap.before if gap else match) - _TICK)
        return None


class _Known:
    """The last answers of a schedule, which hundreds of jobs may share: only the first one asks.

    Between an instant and the first slot after it there is no other. Several threads may ask: what
    is known never becomes untrue, and each note replaces a whole.
    """

    __slots__ = ("_gaps", "_latest")

    def __init__(self) -> None:
        self._gaps: tuple[tuple[datetime, datetime], ...] = ()
        self._latest: tuple[datetime, datetime] | None = None

    def next_after(self, t: datetime) -> datetime | None:
        """Return the first slot after ``t``, None where that is not known."""
        for since, slot in self._gaps:
            if since <= t < slot:
                return slot
        return None

    def latest_at(self, t: datetime) -> datetime | None:
        """Return the last slot at or before ``t``, None where that is not known."""
        if self._latest is None:
            return None
        slot, asked = self._latest
        known = t <= asked or any(since <= asked and t < until for since, until in self._gaps)
        return slot if known and slot <= t else None

    def note_next(self, t: datetime, slot: datetime) -> None:
        """Note the first slot after ``t``; two are kept, since arming asks for two in a row."""
        self._gaps = (*self._gaps[-1:], (t, slot))

    def note_latest(self, t: datetime, slot: datetime) -> None:
        """Note the last slot at or before ``t``."""
        self._latest = (slot, t)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Cron:
    """The minutes (or seconds) that a cron expression names, in the wall clock of a zone.

    ``expression`` has five fields, minute hour day month weekday, or six with seconds first; or it
    is one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly. A field takes
    ``*``, numbers, ranges, lists and steps, months and weekdays also JAN-DEC and SUN-SAT (7 is
    Sunday too); the day also ``L`` (the last of the month) and ``LW`` (its last weekday), the
    weekday also ``5L`` (the last Friday) and ``MON#2`` (the second Monday). Where day and weekday
    are both given either suffices, unless one of them begins with ``*``: then both must match.

    ``tz`` is a zone's name, a ZoneInfo or UTC. Where its clock is put forward or back:

    - If neither minute nor hour begins with ``*``, the job is one of fixed times, and each is due
      once: in a gap at the first instant after it (several become one slot), in a repeat in the
      first pass only. No day is without its ``30 2 * * *``, and none has it twice.
    - Otherwise it follows real time: what is in a gap is not due, and what is repeated is due in
      both passes, so that ``*/20 * * * *`` keeps its twenty minutes.

    So it is in Debian's cron. The seconds have no part in it: ``0 30 2 * * *`` is ``30 2 * * *``.

    The answer is None without a slot within 50 years, and where the slot or the wall clock would
    leave datetime's range.

    An expression that is not understood, names a date that never comes (30 February), and a zone
    that is not known are a :class:`ConfigurationError`.
    """

    expression: str
    tz: str
    _rule: _FixedTime | _RealTime = field(compare=False)
    _known: _Known = field(compare=False)

    def __init__(self, expression: str, tz: str | tzinfo = "UTC") -> None:
        # str.split would take blanks of other scripts too, so the check comes first.
        if not isinstance(expression, str) or not expression.isascii():
            raise ConfigurationError(f"cron expression {shown(expression)}: {_RIGHT}, in ASCII")
        written = " ".join(expression.split())
        pattern = _parse(written)
        name, zone = find_zone(tz)
        rule = _FixedTime if pattern.fixed else _RealTime
        object.__setattr__(self, "expression", written)
        object.__setattr__(self, "tz", name)
        object.__setattr__(self, "_rule", rule(pattern, WallClock(zone)))
        object.__setattr__(self, "_known", _Known())

    def next_after(self, t: datetime, /) -> datetime | None:
        """Return the first slot after ``t``, None when there is none."""
        try:
            asked = to_utc(t)
            slot = self._known.next_after(asked)
            if slot is None and (slot := self._rule.next_after(asked)) is not None:
                self._known.note_next(asked, slot)
        except OverflowError:  # beyond the years 1 to 9999
            return None
        return slot

    def latest_at(self, t: datetime, /) -> datetime | None:
        """Return the last slot at or before ``t``, None when there is none."""
        try:
            asked = to_utc(t)
            slot = self._known.latest_at(asked)
            if slot is None and (slot := self._rule.latest_at(asked)) is not None:
                self._known.note_latest(asked, slot)
        except OverflowError:
            return None
        return slot

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, tz={self.tz!r})"

    def __str__(self) -> str:
        return f"cron {self.expression!r} ({self.tz})"
