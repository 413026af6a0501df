"""The values of the model: rules, rows, claims and answers. None of them ever changes.

Times are whole numbers without a unit. ``at`` is the number of a slot, from the oldest; a token is
a text, and an instance too.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Fault = Literal[
    "",
    "a lease that is over is renewed",
    "a won claim settles nothing",
    "finish needs no token",
    "a lease that is alive is taken",
    "an ended run is won again",
    "other runs' leases do not matter",
    "a fence is given twice",
    "nobody takes over",
    "a count of retries can fall",
    "the next attempt forgets the count",
    "a pause stops no takeover",
    "a pause stops no new run",
    "the slots of a pause are caught up",
    "a failed run pauses nothing",
    "used-up attempts pause nothing",
    "a slot replaces what was asked for",
    "what was asked for replaces a slot",
    "what was asked for is cancelled",
    "what was begun is withdrawn",
    "all slots wait",
    "a slot that waits replaces what was begun",
    "a queued slot waits for live leases alone",
    "each waits for the other",
    "a cancelled run is taken over",
    "a cancelled run is not told",
    "a slot that will not run cancels",
    "a backfill does not wait for its run",
    "a backfill does not wait for a deaf handler",
    "what succeeded is run again",
    "a backfilled run is replaced",
    "a backfilled run replaces",
    "a backfill costs a slot",
    "a backfill goes before what waits",
    "a cancelled backfill counts what goes on",
    "a backfill counts and does not go on",
    "a backfill goes on from anywhere",
    "an earlier backfill goes on",
    "a pause stops no backfill",
    "a backfill takes what is being run",
    "a backfill forgets the fences",
    "a backfilled slot that is pruned is free",
    "a backfill never ends",
]
"""A rule that is broken on purpose."""

Overlap = Literal["skip", "allow", "queue", "cancel"]
Origin = Literal["scheduled", "manual", "backfill"]

ENDED = frozenset({"success", "failed", "abandoned", "replaced"})


class Rules(NamedTuple):
    """What all claims of the job say, when its slots are, and how long rows are kept."""

    slots: tuple[int, ...]
    lease: int
    max_late: int
    keep: int
    overlap: Overlap = "skip"
    max_attempts: int = 2
    pause_on_failure: bool = False
    fault: Fault = ""


class Now(NamedTuple):
    """What an observer's clocks show; only on one host do two observers share ``elapsed``."""

    host: int
    elapsed: int
    wall: int


class Run(NamedTuple):
    """A row. ``host`` is the one by whose clock the lease runs; None: it was ended for good.

    A run that nobody has begun is ``released`` with attempt 0. Of ``manual`` origin is what
    somebody asked for, and no slot of the schedule; of ``backfill`` origin is a slot that is run
    again, and then its fences are those of the attempts before.
    """

    state: str
    token: str
    instance: str
    attempt: int
    lost: int
    fence: int
    released_fence: int | None
    host: int | None
    elapsed_until: int
    wall_until: int
    retries: int = 0
    origin: Origin = "scheduled"
    cancelled: bool = False


class Pause(NamedTuple):
    """A time for which no run is begun; it lasts while ``until`` is None."""

    since: int
    until: int | None = None


class Backfill(NamedTuple):
    """The newest backfill: the slot that it has come to, if any, and how the runs before ended.

    ``instance`` is who asked for it.
    """

    instance: str
    cursor: int | None = None
    succeeded: int = 0
    failed: int = 0
    ended: bool = False


class Table(NamedTuple):
    """All that a store knows of the job; ``pruned`` is the newest slot that was removed."""

    runs: tuple[Run | None, ...]
    next_fence: int
    pruned: int | None = None
    pauses: tuple[Pause, ...] = ()
    backfill: Backfill | None = None


class Lost(NamedTuple):
    """An attempt that is recorded, by most calls as lost."""

    at: int
    attempt: int
    fence: int
    instance: str


class Answer(NamedTuple):
    """The answer to a claim."""

    outcome: str
    attempt: int | None = None
    fence: int | None = None
    holder: str | None = None
    other: int | None = None
    closed: tuple[Lost, ...] = ()
    abandoned: bool = False
    retries: int = 0
    trigger: str | None = None


class Went(NamedTuple):
    """The answer to going on with a backfill, and the attempts that it recorded as lost."""

    answer: str
    closed: tuple[Lost, ...] = ()


class Asked(NamedTuple):
    """A claim."""

    at: int
    token: str
    instance: str
    takeover: bool = False


def is_live(run: Run, now: Now) -> bool:
    """A lease is live by its expiry alone, whatever the state of its run."""
    if run.host is None:
        return False
    if run.host == now.host:
        return run.elapsed_until > now.elapsed
    return run.wall_until > now.wall


def is_begun(run: Run | None, origin: Origin | None = None) -> bool:
    """Say whether a run is there and was begun, and is of that origin if one is given."""
    return run is not None and run.attempt > 0 and origin in {None, run.origin}


def is_waiting(run: Run | None, origin: Origin | None = None) -> bool:
    """Say whether a run is there and waits to be begun, and is of that origin if one is given."""
    if run is None or run.attempt or run.state in ENDED:
        return False
    return origin in {None, run.origin}


def has_succeeded(run: Run | None) -> bool:
    """Say whether a run is there and has succeeded."""
    return run is not None and run.state == "success"


def goes_on(table: Table) -> bool:
    """Say whether a backfill goes on."""
    return table.backfill is not None and not table.backfill.ended


def is_paused(table: Table) -> bool:
    """Say whether a pause lasts."""
    return any(pause.until is None for pause in table.pauses)


def was_paused(table: Table, slot: int) -> bool:
    """Say whether a slot is in a pause that is over."""
    return any(
        pause.until is not None and pause.since <= slot <= pause.until for pause in table.pauses
    )


def with_run(table: Table, at: int, run: Run | None) -> Table:
    """Return the table with another row, or none, of one slot."""
    return table._replace(runs=(*table.runs[:at], run, *table.runs[at + 1 :]))


def renewed(run: Run, rules: Rules, now: Now) -> Run:
    """Let a lease last from now on, by the clocks of who sees it."""
    return run._replace(
        host=now.host,
        elapsed_until=now.elapsed + rules.lease,
        wall_until=now.wall + rules.lease,
    )


def without_lease(run: Run, now: Now) -> Run:
    """End a lease for good. Of several ends that are noted the earliest counts."""
    return run._replace(host=None, elapsed_until=0, wall_until=min(run.wall_until, now.wall))


def lost(at: int, run: Run) -> Lost:
    """Return the record of a run's latest attempt."""
    return Lost(at, run.attempt, run.fence, run.instance)
