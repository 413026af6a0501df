"""A schedule as an application may have one of its own."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Beat:
    """The instants that lie ``offset`` milliseconds after the multiples of ``step``.

    Where `Every` has all jobs of one interval due at once, these can be spread over it.
    """

    step: int
    offset: int

    def next_after(self, t: datetime) -> datetime:
        """Return the first one after ``t``."""
        return self.latest_at(t) + timedelta(milliseconds=self.step)

    def latest_at(self, t: datetime) -> datetime:
        """Return the last one at or before ``t``."""
        first = _EPOCH + timedelta(milliseconds=self.offset)
        step = timedelta(milliseconds=self.step)
        return first + (t - first) // step * step

    def __str__(self) -> str:
        return f"every {self.step} ms, {self.offset} ms after"
