"""What is known of a run, a lease and a pause from what a store was told of them and answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from leasecron.model import Claim, Overlap

TOLERANCE: Final = 0.002
"""Seconds by which a store that counts whole milliseconds may see a lease as over too early."""

TICK: Final = timedelta(milliseconds=1)
"""In which a store tells no two instants apart."""

Gap = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Moment:
    """Both clocks of the simulation, read at once."""

    wall: datetime
    mono: float


@dataclass(frozen=True, slots=True)
class Asked:
    """The number of a call, and when it was about to be made."""

    number: int
    moment: Moment


@dataclass(slots=True, eq=False)
class Holding:
    """A lease that was won. ``ended`` is None until it was given back.

    ``cancelled`` is the number of the call since which it has to make way for a newer run; ``told``
    is when its holder had the answer that says so, and ``beat_since`` when he spoke next.
    """

    claim: Claim
    attempt: int
    fence: int | None
    won: datetime
    renewed: Moment
    ended: datetime | None = None
    cancelled: int | None = None
    told: datetime | None = None
    beat_since: datetime | None = None

    @property
    def until(self) -> datetime:
        """When it ended, or ran out, or will."""
        return self.ended or self.renewed.wall + timedelta(seconds=self.claim.lease)

    def alive(self, now: Moment) -> bool:
        """Say whether it has certainly not run out, by whichever clock the store goes."""
        passed = max(now.mono - self.renewed.mono, (now.wall - self.renewed.wall).total_seconds())
        return self.ended is None and passed < self.claim.lease - TOLERANCE


@dataclass(slots=True, eq=False)
class WitnessedRun:
    """One job at one instant.

    ``put_in`` is when it was put into the store without being begun: because somebody asked for it
    (``asked_for``), be it a backfill (``filled``), or because it has to wait. ``surpassed`` is the
    number of the call since which a newer slot has its place.
    """

    job: str
    slot: datetime
    overlap: Overlap | None = None
    put_in: datetime | None = None
    asked_for: bool = False
    filled: bool = False
    surpassed: int | None = None
    ended: bool = False
    succeeded: bool = False
    retries: int = 0
    holdings: list[Holding] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What it is called in a finding."""
        return f"job {self.job!r} slot {self.slot.isoformat()}"

    def idle_since(self) -> datetime | None:
        """Return since when nobody holds it, of one that is to be run."""
        if self.ended or self.surpassed is not None or self.put_in is None:
            return None
        return self.holdings[-1].until if self.holdings else self.put_in

    def gaps_until(self, now: datetime) -> list[Gap]:
        """Return the times in which it was to be run, and nobody held it."""
        since = self.idle_since()
        return [*self.gaps, (since, now)] if since is not None and since < now else self.gaps


@dataclass(slots=True, eq=False)
class WitnessedBackfill:
    """A backfill; ``due_since`` is when its next step could be made, or None while it cannot."""

    job: str
    due_since: datetime | None
    gaps: list[Gap] = field(default_factory=list)

    def goes_on(self, now: datetime) -> None:
        """Take note that its next step was made."""
        self.gaps = self.gaps_until(now)
        self.due_since = None

    def gaps_until(self, now: datetime) -> list[Gap]:
        """Return the times in which its next step could be made, and was not."""
        since = self.due_since
        return [*self.gaps, (since, now)] if since is not None and since < now else self.gaps


@dataclass(slots=True, eq=False)
class WitnessedPause:
    """A pause of a job, begun by the call of that ``number``; ``until`` is None while it lasts."""

    job: str
    number: int
    since: datetime
    until: datetime | None = None

    def touches(self, since: datetime, until: datetime) -> bool:
        """Say whether any of it lay in that time."""
        return self.since < until and (self.until is None or self.until > since)
