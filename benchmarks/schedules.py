"""Schedules whose slots a measurement chooses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OneSlot:
    """A schedule with a single slot."""

    at: datetime

    def next_after(self, t: datetime, /) -> datetime | None:
        return self.at if t < self.at else None

    def latest_at(self, t: datetime, /) -> datetime | None:
        return None if t < self.at else self.at


@dataclass(frozen=True, slots=True)
class Shifted:
    """The multiples of an interval since the Unix epoch, each so much later."""

    interval: timedelta
    offset: timedelta

    def next_after(self, t: datetime, /) -> datetime | None:
        return self._slot((t - _EPOCH - self.offset) // self.interval + 1)

    def latest_at(self, t: datetime, /) -> datetime | None:
        return self._slot((t - _EPOCH - self.offset) // self.interval)

    def _slot(self, number: int) -> datetime:
        return _EPOCH + self.offset + number * self.interval
