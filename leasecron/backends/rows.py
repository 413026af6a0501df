"""The rows of a store with leases, and when the lease in one is alive.

A run's row goes through the states ``claimed`` (an attempt is being made), ``released`` (given
back unfinished), and one of the ended ones: ``success``, ``failed``, ``abandoned`` (its attempts
are used up) or ``replaced`` (a newer slot was claimed). A run that waits for its first attempt is
``released`` with attempt 0. A lease is live by its expiry alone, whatever the state: a handler that
ignores its abort keeps the lease of a run that has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from leasecron.clock import Clock
from leasecron.model import (
    Claim,
    Ending,
    LeaseRef,
    LeaseState,
    NewRun,
    Retention,
    Retry,
    RunResult,
    RunState,
    from_ms,
    to_ms,
)

ENDED = frozenset({"success", "failed", "abandoned", "replaced"})
LEASE_ENDED = ""
"""In ``boot``: the lease was ended on purpose. No step of a clock makes it live again."""


@dataclass(slots=True)
class RunRow:
    """One run as a store keeps it. Instants and ``lease_mono`` are integer milliseconds.

    ``token``, ``fence``, ``instance``, ``trigger`` and ``claimed_at`` are those of the latest
    attempt; ``lost`` counts the attempts that ended by a lost lease; ``released_fence`` is that of
    the attempt last released, whose record may still come, as those of earlier ones may.
    ``retries`` counts how often the run was tried again. ``origin`` says whether its slot is one of
    the schedule, and ``cancelled`` that it has to make way for a newer one.
    """

    job: str
    slot: int
    state: str
    token: str
    attempt: int
    lost: int
    fence: int
    released_fence: int | None
    instance: str
    trigger: str
    claimed_at: int
    lease_until: int
    boot: str | None
    lease_mono: int
    retries: int = 0
    origin: str = "scheduled"
    cancelled: bool = False


class Keys(NamedTuple):
    """The runs that some items are of, by column."""

    jobs: Sequence[str]
    slots: Sequence[int]

    def at(self, places: Sequence[int]) -> Keys:
        """Return those at some of the places, in their order."""
        if len(places) == len(self.jobs):
            return self
        return Keys([self.jobs[place] for place in places], [self.slots[place] for place in places])


class Standing(NamedTuple):
    """What of a run's row decides for those who do not hold it, alike for the runs of a batch."""

    state: str
    attempt: int
    instance: str
    lease_until: int
    boot: str | None
    lease_mono: int


@dataclass(frozen=True, slots=True)
class Moment:
    """The clocks of one observer, read once. ``local`` says that all observers share its kernel."""

    wall: int
    mono: int
    boot: str | None
    local: bool


class OpenRuns:
    """The open rows of one job at one moment, by slot: those with a live lease, and the others."""

    __slots__ = ("_moment", "live", "over")

    def __init__(self, rows: Iterable[RunRow], moment: Moment) -> None:
        self._moment = moment
        self.live: dict[int, RunRow] = {}
        self.over: dict[int, RunRow] = {}
        for row in rows:
            self.put(row)

    def put(self, row: RunRow) -> None:
        """Note a row that is new or was changed."""
        self.live.pop(row.slot, None)
        self.over.pop(row.slot, None)
        if alive(row, self._moment):
            self.live[row.slot] = row
        elif is_open(row):
            self.over[row.slot] = row


class RunTable(Protocol):
    """The rows that a decision may look at and change."""

    def row(self, job: str, slot: int) -> RunRow | None:
        """Return the run's row."""

    def open_runs(self, job: str) -> OpenRuns | None:
        """Return the rows of the job for which ``is_open`` holds, or None where there are none."""

    def claimed_between(self, job: str, after: int, until: int) -> bool:
        """Say whether a slot of the job in ``after < slot <= until`` has a row that counts.

        Those count for which ``replaces`` holds.
        """

    def is_paused(self, job: str, slot: int | None) -> bool:
        """Say whether the job is paused now, or was at ``slot``, if that is given."""

    def pause(self, job: str, note: str) -> None:
        """Pause the job from now on; without effect while it is paused."""

    def pruned(self, job: str) -> int | None:
        """Return the newest slot of the job whose row was removed by pruning."""

    def next_fence(self) -> int:
        """Return a number greater than every one that this store gave before."""

    def put(self, row: RunRow) -> None:
        """Keep a row that is new or was changed."""

    def record(self, result: RunResult) -> None:
        """Add a record to the history, unless its fence is there already."""


def read_moment(clock: Clock, *, local: bool) -> Moment:
    """Read the clocks."""
    return Moment(
        round(clock.wall() * 1000), round(clock.monotonic() * 1000), clock.boot_id(), local
    )


def alive(row: RunRow | Standing, moment: Moment) -> bool:
    """Say whether the row's lease has not run out.

    Within one boot the monotonic times decide, so that neither a step of the wall clock nor a
    suspend ends a lease. Of an earlier boot of this host nothing is left. Only between hosts, or
    where a boot has no name, the wall times decide.
    """
    boot = row.boot
    if boot == LEASE_ENDED:
        return False
    if boot is not None and moment.boot is not None:
        if boot == moment.boot:
            return row.lease_mono > moment.mono
        if moment.local and boot.partition("/")[0] != moment.boot.partition("/")[0]:
            return False
    return row.lease_until > moment.wall


def is_open(row: RunRow) -> bool:
    """Say whether the run has not ended, or has ended with its lease kept."""
    return row.boot != LEASE_ENDED or row.state not in ENDED


def replaces(row: RunRow) -> bool:
    """Say whether the run stands in place of older ones: it was begun, and by the schedule."""
    return row.attempt > 0 and row.origin == "scheduled"


def may_be(run: NewRun, row: RunRow) -> bool:
    """Say whether a row may be what this run has become, since it was put in before.

    Who has begun it stands in the place of whoever asked for it.
    """
    return row.origin != "scheduled" and (row.attempt > 0 or row.instance == run.instance)


def may_be_newest(row: RunRow) -> bool:
    """Say whether the row may be the newest of its job, which is kept: it is of a slot that counts.

    Those are slots of the schedule that were begun or are made up for.
    """
    return replaces(row) or row.origin == "backfill"


def renew_lease(row: RunRow, lease: float, moment: Moment) -> None:
    """Let a lease last for ``lease`` seconds from this moment, by the clocks of its observer."""
    length = milliseconds(lease)
    row.lease_until = moment.wall + length
    row.boot = moment.boot
    row.lease_mono = moment.mono + length


def end_lease(row: RunRow, moment: Moment) -> None:
    """End a lease for good, noting when: retention counts from there."""
    row.lease_until = min(row.lease_until, moment.wall)
    row.boot = LEASE_ENDED
    row.lease_mono = 0


def lost_result(row: RunRow, moment: Moment) -> RunResult:
    """Return the record of an attempt whose lease ran out."""
    ended_at = max(row.claimed_at, min(row.lease_until, moment.wall))
    return RunResult(
        job=row.job,
        slot=from_ms(row.slot),
        attempt=row.attempt,
        fence=row.fence,
        instance=row.instance,
        trigger=row.trigger,  # type: ignore[arg-type]  # a store gives back what a claim put in
        status="lost",
        started_at=from_ms(row.claimed_at),
        ended_at=from_ms(ended_at),
        duration=(ended_at - row.claimed_at) / 1000,
        retries=row.retries,
    )


def unfinished_state(row: RunRow, moment: Moment) -> LeaseState:
    """Return what ``unfinished`` says of a run that has not ended."""
    return LeaseState(
        row.job,
        from_ms(row.slot),
        row.attempt,
        alive(row, moment),
        row.origin,  # type: ignore[arg-type]  # a store gives back what was put in
    )


def run_state(row: RunRow, result: RunResult | None) -> RunState:
    """Return what is told of a run, with the record of its latest attempt."""
    state = "running" if row.state == "claimed" else row.state
    if row.state == "released" and not row.attempt:
        state = "waiting"
    return RunState(
        row.job,
        from_ms(row.slot),
        state,
        row.attempt,
        row.retries,
        row.instance,
        result,
        row.fence or None,
        row.trigger,  # type: ignore[arg-type]  # a store gives back what was put in
        from_ms(row.claimed_at),
        from_ms(row.lease_until) if row.state in ENDED else None,
    )


def prunable(row: RunRow, newest: float, keep: float, moment: Moment) -> bool:
    """Say whether a row may go: it is over for ``keep`` seconds, and nothing depends on it.

    On the job's newest one depends what replaces what; one that waits is to be run.
    """
    if alive(row, moment) or (not row.attempt and row.state not in ENDED):
        return False
    if row.origin != "manual" and row.slot >= newest:
        return False
    return max(row.slot, row.lease_until) + keep * 1000 < moment.wall


def pauses_kept(retention: Retention) -> int:
    """Return for how many milliseconds after its end a pause of the job is kept.

    No slot in it can be claimed by then, and of the history there is as much.
    """
    return milliseconds(max(retention.runs, retention.age))


def keys_of(items: Collection[Claim | LeaseRef | Ending | Retry | NewRun | RunResult]) -> Keys:
    """Return the keys of the items' runs; most batches have one or a few slots."""
    known = {slot: to_ms(slot) for slot in {item.slot for item in items}}
    return Keys([item.job for item in items], [known[item.slot] for item in items])


def valid_text(text: str | None) -> str | None:
    """Return text that every store can keep; an exception's can hold what is no valid Unicode."""
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=64)  # as many lengths as jobs have options, and one for each claim
def milliseconds(seconds: float) -> int:
    """Return a length of time as a store keeps it, which is never nothing."""
    return max(1, round(seconds * 1000))
