"""A backfill as whoever asks for it sees it: its slots beforehand, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from leasecron.asked import LOOK_EVERY, KeptOpen, sleep
from leasecron.backfilling import next_missing
from leasecron.clock import Clock
from leasecron.errors import BackendUnavailable, ConfigurationError, SchedulerStateError, shown
from leasecron.model import BackfillState, from_ms, to_ms
from leasecron.schedules import Every, Schedule

MOST_SLOTS = 10_000
"""Slots that a backfill may have unless it is said that more are meant."""

_MILLISECOND = timedelta(milliseconds=1)


class Backfill:
    """A range of slots of one job that are being run, one after the other, by any instance.

    ``total`` is how many slots of the range had not succeeded when it was asked for.
    """

    def __init__(
        self,
        begun: BackfillState,
        clock: Clock,
        look: Callable[[], BackfillState | None],
        cancel: Callable[[], bool],
        kept_open: KeptOpen,
    ) -> None:
        self.job = begun.job
        self.start = begun.start
        self.end = begun.end
        self.total = begun.total
        self._asked_at = begun.asked_at
        self._clock = clock
        self._look = look
        self._cancel = cancel
        self._kept_open = kept_open

    def state(self) -> BackfillState:
        """Return how far it has come.

        Raises :class:`SchedulerStateError` where the store knows only of a later one, and
        :class:`BackendError`.
        """
        state = self._look()
        if state is None or state.asked_at != self._asked_at:
            raise SchedulerStateError(
                f"the store knows no longer of the backfill of job {shown(self.job)} from"
                f" {self.start.isoformat()} to {self.end.isoformat()}"
            )
        return state

    def has_begun(self) -> bool:
        """Say whether any instance has gone on with it; raises what :meth:`state` raises."""
        state = self.state()
        return state.cursor is not None or state.ended_at is not None

    def wait(
        self,
        timeout: float | None = None,
        progress: Callable[[BackfillState], object] | None = None,
    ) -> BackfillState | None:
        """Wait up to ``timeout`` seconds, or for ever; return how it ended, or None.

        ``progress`` is called with each state on the way. While the store is away it goes on
        waiting. Raises what :meth:`state` raises otherwise.
        """
        give_up = None if timeout is None else self._clock.monotonic() + timeout
        with self._kept_open():
            return self._wait_until(give_up, progress)

    def _wait_until(
        self, give_up: float | None, progress: Callable[[BackfillState], object] | None
    ) -> BackfillState | None:
        while True:
            state = self._state()
            if state is not None and progress is not None:
                progress(state)
            if state is not None and state.ended_at is not None:
                return state
            now = self._clock.monotonic()
            if give_up is not None and now >= give_up:
                return None
            left = LOOK_EVERY if give_up is None else min(LOOK_EVERY, give_up - now)
            sleep(self._clock, left)

    def cancel(self) -> bool:
        """End it: no further slot is begun, and a run that goes on does so to its end.

        False where it had ended; a later one is left alone. Raises :class:`BackendError`.
        """
        return self._cancel()

    def _state(self) -> BackfillState | None:
        try:
            return self.state()
        except BackendUnavailable:
            return None

    def __repr__(self) -> str:
        start, end = self.start.isoformat(), self.end.isoformat()
        return f"<Backfill {self.job!r} {start} to {end}, {self.total} slots>"


@dataclass(frozen=True, slots=True)
class MissingSlots:
    """The slots of a schedule in ``start <= slot < end`` that are not among the ``succeeded``."""

    schedule: Schedule
    start: datetime
    end: datetime
    succeeded: frozenset[datetime]

    def __iter__(self) -> Iterator[datetime]:
        after: datetime | None = self.start - _MILLISECOND
        while after is not None:
            after, _seen = next_missing(self.schedule, after, self.end, self.succeeded)
            if after is not None:
                yield after

    def count(self, job: str, most: int) -> int:
        """Return how many there are; refuse more than ``most``, with their number or nearly so."""
        if isinstance(self.schedule, Every):  # which needs no walk to be counted
            all_of_range = (self.end - self.start).total_seconds() / self.schedule.interval
            about = int(all_of_range) - len(self.succeeded)
            if about > most:
                raise self._too_many(job, f"{about:,}", most)
        count = 0
        for slot in self:
            count += 1
            if count > most:
                about = int(count * ((self.end - self.start) / (slot - self.start)))
                raise self._too_many(job, f"about {about:,}", most)
        return count

    def _too_many(self, job: str, count: str, most: int) -> ConfigurationError:
        return ConfigurationError(
            f"backfill of job {shown(job)}: from {self.start.isoformat()} to"
            f" {self.end.isoformat()} it has {count} slots, and most is {most:,}; name a shorter"
            " range, or say that so many are meant: most=, or --yes of the command"
        )


def check_range(job: str, start: object, end: object, now: datetime) -> tuple[datetime, datetime]:
    """Return a range of slots in the past, in whole milliseconds, as slots are; None is now.

    Raises :class:`ConfigurationError` for anything else.
    """
    where = f"backfill of job {shown(job)}"
    end = now if end is None else end
    for name, value in (("start", start), ("end", end)):
        if not isinstance(value, datetime) or value.utcoffset() is None:
            raise ConfigurationError(
                f"{where}: {name} is {shown(value)}; right is an aware datetime, such as"
                " datetime(2026, 1, 1, tzinfo=UTC)"
            )
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    if end <= start:
        raise ConfigurationError(
            f"{where}: end is {end.isoformat()}, which is not after start"
            f" ({start.isoformat()}); right is a later one: the slot of the end is not in the range"
        )
    if end >= now + _MILLISECOND:  # which is cut to whole milliseconds
        raise ConfigurationError(
            f"{where}: end is {end.isoformat()}, which is still to come; right is now at the latest"
        )
    return _whole(start, where), _whole(end, where)


def _whole(instant: datetime, where: str) -> datetime:
    """Return the first whole millisecond at or after an instant."""
    try:
        below = from_ms(to_ms(instant))
        below - 2 * _MILLISECOND
        return below if below == instant else below + _MILLISECOND
    except OverflowError as error:
        raise ConfigurationError(
            f"{where}: {shown(instant)} is no instant of the years 1 to 9999 in UTC"
        ) from error
