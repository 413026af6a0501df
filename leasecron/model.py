"""The values that travel between the parts: results, claims and what a store answers to them.

Instants are aware UTC datetimes in whole milliseconds, durations float seconds. No value changes
once it is made; those that every run needs are not frozen, since that would make them three times
as slow to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

Trigger = Literal["scheduled", "catch-up", "takeover", "manual", "backfill"]
Origin = Literal["scheduled", "manual", "backfill"]
Outcome = Literal["won", "running", "overlap", "late", "done", "none", "early", "paused"]
Status = Literal["success", "failed", "interrupted", "lost"]
Reason = Literal["stop", "takeover", "lease-lost", "timeout", "replaced"]
SkipReason = Literal["late", "taken", "overlap", "paused"]
Overlap = Literal["skip", "allow", "queue", "cancel"]
Mode = Literal["claim", "takeover"]
HeartbeatAnswer = Literal["ok", "lost", "replaced"]
AdvanceAnswer = Literal["waiting", "skipped", "ended", "busy", "paused", "stale"]

MAX_RECORDS: Final = 100_000
"""History records kept per job, whatever its ``keep`` says."""

WAITING: Final[frozenset[Overlap]] = frozenset({"queue", "cancel"})
"""The rules by which a slot waits for older runs to end."""

MOST_OF_NOTE: Final = 1000
"""Characters of the note of a pause."""

LARGEST_INTEGER: Final = 2**63 - 1
"""The largest that a store can keep."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_ms(instant: datetime) -> int:
    """Return Unix milliseconds, the key of a slot in every store."""
    return (instant - _EPOCH) // _MILLISECOND


def from_ms(milliseconds: int) -> datetime:
    """Return the aware UTC datetime of Unix milliseconds."""
    return _EPOCH + milliseconds * _MILLISECOND


def from_seconds(seconds: float) -> datetime:
    """Return the aware UTC datetime of Unix seconds, in whole milliseconds (rounded down)."""
    # By way of microseconds: as a float, a slot can lie a little before its own millisecond.
    return _EPOCH + round(seconds * 1_000_000) // 1000 * _MILLISECOND


@dataclass(frozen=True, slots=True)
class RunResult:
    """One attempt of one run, as history keeps it.

    ``status`` is ``success``, ``failed``, ``interrupted`` or ``lost`` (its lease ran out; written
    by whoever noticed). ``fence`` is None on a claim-only store. ``retries`` counts how often the
    run had been tried again by the end of the attempt, ``error`` is the last error.
    """

    job: str
    slot: datetime
    attempt: int
    fence: int | None
    instance: str
    trigger: Trigger
    status: Status
    started_at: datetime
    ended_at: datetime
    duration: float
    error: str | None = None
    retries: int = 0


@dataclass(slots=True, unsafe_hash=True)
class Claim:
    """A request to run one job at one slot.

    ``mode="takeover"`` asks for the next attempt of a run that is in the store already.
    ``pause_on_failure`` pauses the job where the claim finds the run's attempts used up.
    """

    job: str
    slot: datetime
    token: str
    instance: str
    lease: float
    overlap: Overlap
    max_attempts: int
    max_late: float
    mode: Mode = "claim"
    trigger: Trigger = "scheduled"
    pause_on_failure: bool = False


@dataclass(slots=True, unsafe_hash=True)
class ClaimAnswer:
    """What the store said to a claim.

    ``other`` is the slot of the run that a claim answered ``overlap`` ran into, ``holder`` the
    instance that made the latest attempt of that run, or else of the claimed one; ``wait`` the
    seconds to wait after ``early``. ``closed`` are the attempts that this call recorded as lost;
    ``abandoned`` says that the claimed run has used up its attempts and was ended by this call.
    ``retries`` is how often the won run has been tried again so far. ``trigger`` is that of a run
    which nobody had begun before and which was in the store: it counts instead of the claim's.
    """

    outcome: Outcome
    attempt: int | None = None
    fence: int | None = None
    holder: str | None = None
    other: datetime | None = None
    wait: float | None = None
    closed: tuple[RunResult, ...] = ()
    abandoned: bool = False
    retries: int = 0
    trigger: Trigger | None = None


@dataclass(slots=True, unsafe_hash=True)
class LeaseRef:
    """A held lease that shall be renewed for ``lease`` seconds from the store's now."""

    job: str
    slot: datetime
    token: str
    lease: float


@dataclass(slots=True, unsafe_hash=True)
class Ending:
    """The end of a held run: finished with ``status``, or given back by ``release``.

    ``keep_lease`` leaves the lease of a finished run alive (its thread still runs); ``counted``
    makes a release one of the attempts that ``max_attempts`` limits. A run that is finished as
    ``interrupted`` had to make way for a newer one. ``pause`` is the note with which its job is
    paused in the same step as the run is recorded as failed, or None.
    """

    job: str
    slot: datetime
    token: str
    status: Status
    keep_lease: bool = False
    counted: bool = False
    pause: str | None = None


@dataclass(slots=True, unsafe_hash=True)
class Retry:
    """A held run that failed and will be tried again, for the ``retries``-th time."""

    job: str
    slot: datetime
    token: str
    retries: int


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that somebody asks for, to be begun by whichever instance declares its job."""

    job: str
    slot: datetime
    instance: str
    trigger: Trigger = "manual"


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A run that has not ended, as the store sees it; of attempt 0 nobody has begun it yet."""

    job: str
    slot: datetime
    attempt: int
    alive: bool
    origin: Origin = "scheduled"


@dataclass(frozen=True, slots=True)
class RunState:
    """A run as the store sees it, ended or not.

    ``state`` is ``waiting`` (nobody has begun it), ``running`` (an attempt is being made, or its
    lease ran out and nobody has taken it over), ``released``, or how it ended: ``success``,
    ``failed``, ``abandoned`` or ``replaced``. ``result`` is the record of its latest attempt, or
    None while there is none; what follows it is of that attempt too.
    """

    job: str
    slot: datetime
    state: str
    attempt: int
    retries: int
    instance: str
    result: RunResult | None
    fence: int | None = None
    trigger: Trigger = "manual"
    began_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will be done for the run."""
        return self.state in _STATUS_OF

    def without_record(self) -> RunResult:
        """Return what is known of a run that has ended, where its holder left no record."""
        began_at = self.began_at or self.slot
        ended_at = max(began_at, self.ended_at or began_at)
        return RunResult(
            self.job,
            self.slot,
            self.attempt,
            self.fence,
            self.instance,
            self.trigger,
            _STATUS_OF[self.state],
            began_at,
            ended_at,
            (ended_at - began_at).total_seconds(),
            None,
            self.retries,
        )


_STATUS_OF: Mapping[str, Status] = {
    "success": "success",
    "failed": "failed",
    "abandoned": "lost",
    "replaced": "interrupted",
}


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as the store knows it; ``paused_at`` and ``note`` are those of its pause, if any."""

    name: str
    schedule: str
    first_seen: datetime
    last_seen: datetime
    paused_at: datetime | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A time for which no run of a job was begun; ``resumed_at`` is None while it lasts."""

    job: str
    paused_at: datetime
    resumed_at: datetime | None
    note: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """A job that an instance declares, and its schedule in words."""

    job: str
    schedule: str


@dataclass(frozen=True, slots=True)
class NewBackfill:
    """A request to run the slots of a job in ``start <= slot < end`` that never succeeded.

    ``total`` is how many those are, ``instance`` who asks.
    """

    job: str
    start: datetime
    end: datetime
    total: int
    instance: str


@dataclass(frozen=True, slots=True)
class BackfillState:
    """A backfill as the store sees it.

    Of its ``total`` slots so many have ``succeeded`` and so many have ``failed``. ``cursor`` is the
    slot that it has come to, or None before the first; ``ended_at`` is None while it goes on.
    """

    job: str
    start: datetime
    end: datetime
    total: int
    instance: str
    asked_at: datetime
    cursor: datetime | None
    succeeded: int
    failed: int
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Advance:
    """A request to go on with a backfill from ``cursor`` to ``slot``, or to its end with None.

    The answer is ``waiting`` (the run is in the store, for anybody to begin), ``skipped`` (the slot
    has succeeded), ``ended``, or what kept the store from it: ``busy`` (the slot is being run, or
    one of the schedule waits, which goes first), ``paused``, or ``stale`` (somebody was faster, or
    the run before has not ended).
    """

    job: str
    asked_at: datetime
    cursor: datetime | None
    slot: datetime | None


@dataclass(frozen=True, slots=True)
class OneOff:
    """A job that runs once, and the instant that an instance declares it for."""

    job: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a job's rows are kept.

    A run's row stays for ``runs`` seconds after the later of its slot and its lease's end. Of the
    history, the newest ``records`` stay, and all that ended less than ``age`` seconds ago.
    """

    job: str
    runs: float
    records: int
    age: float
