"""Time zones: finding one by its name, and how its wall clock is put forward and back.

A *reading* is a naive datetime, what the clock on the wall shows; an *instant* is an aware one.
When the clock is put forward some readings are never shown (a gap), when it is put back some are
shown twice (a repeat, with a first and a second pass). Instants are compared and subtracted in UTC
only: two datetimes of one zone would be compared by their readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from leasecron.errors import ConfigurationError, shown


def to_utc(t: datetime) -> datetime:
    """Return the instant in UTC; a naive datetime is a :class:`ConfigurationError`.

    Raises OverflowError where UTC lies outside of datetime's range.
    """
    if not isinstance(t, datetime) or t.utcoffset() is None:
        raise naive(t)
    return t.astimezone(UTC)


def naive(t: object) -> ConfigurationError:
    """Return the error for ``t``, which is not an aware datetime."""
    return ConfigurationError(
        f"a schedule was asked about {shown(t)}: right is an aware datetime, such as "
        "datetime.now(UTC)"
    )


def find_zone(tz: str | tzinfo) -> tuple[str, tzinfo]:
    """Return the name and the rules of a zone, given by its name or as an object that has one.

    UTC needs no time zone data. Other zones come from the system's data or from the ``tzdata``
    package; one that neither knows is a :class:`ConfigurationError`.
    """
    name = getattr(tz, "key", None) if isinstance(tz, tzinfo) else tz
    if name == "UTC" or tz == UTC:
        return "UTC", UTC
    if not isinstance(name, str):
        raise ConfigurationError(
            f"tz is {shown(tz)}: right is the name of a time zone, such as 'Europe/Amsterdam', "
            "a ZoneInfo, or 'UTC'"
        )
    try:
        return name, ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"tz is {shown(name)}, a time zone that is not known here: right is a name such as "
            "'Europe/Amsterdam', or 'UTC'. Where the system has no time zone data, "
            "install the tzdata package"
        ) from error


@dataclass(frozen=True, slots=True)
class Change:
    """The clock is put forward or back: at ``at`` it would show ``before``, and shows ``after``.

    Put forward, the readings from ``before`` up to ``after`` are a gap; put back, those from
    ``after`` up to ``before`` are repeated.
    """

    at: datetime
    before: datetime
    after: datetime


class WallClock:
    """The clock on a wall of one zone.

    It presumes what holds for all zones since 1970: whole seconds in UTC, and no second change
    within the gap or the repeat of the first.
    """

    __slots__ = ("_zone",)

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def reading(self, instant: datetime) -> datetime:
        """Return what the clock shows; ``fold`` is 1 in the second pass of a repeat."""
        return instant.astimezone(self._zone).replace(tzinfo=None)

    def instants(self, reading: datetime) -> tuple[datetime, ...]:
        """Return when the clock shows ``reading``: once, in a gap never, in a repeat twice."""
        early, late = self._offsets(reading)
        first = (reading - early).replace(tzinfo=UTC)
        if early == late:
            return (first,)
        if early < late:
            return ()
        return first, (reading - late).replace(tzinfo=UTC)

    def change(self, reading: datetime) -> Change | None:
        """Return the change to whose gap or repeat ``reading`` belongs."""
        early, late = self._offsets(reading)
        if early == late:
            return None
        low, high = sorted((reading - early, reading - late))
        at = self._first_with_other_offset(_second(low), _second(high))
        shown = at.replace(tzinfo=None)
        return Change(at, shown + early, shown + late)

    def _offsets(self, reading: datetime) -> tuple[timedelta, timedelta]:
        """Return the offsets before and after the change around ``reading``; equal if none."""
        early = self._zone.utcoffset(reading.replace(tzinfo=self._zone, fold=0))
        late = self._zone.utcoffset(reading.replace(tzinfo=self._zone, fold=1))
        assert early is not None
        assert late is not None
        return early, late

    def _first_with_other_offset(self, low: datetime, high: datetime) -> datetime:
        """Return the second after ``low``, at or before ``high``, at which the offset changes."""
        offset = low.astimezone(self._zone).utcoffset()
        while (seconds := (high - low) // timedelta(seconds=1)) > 1:
            middle = low + timedelta(seconds=seconds // 2)
            if middle.astimezone(self._zone).utcoffset() == offset:
                low = middle
            else:
                high = middle
        return high


def _second(reading: datetime) -> datetime:
    return reading.replace(microsecond=0, fold=0, tzinfo=UTC)
