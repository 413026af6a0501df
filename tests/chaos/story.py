"""A chaos run as its checker sees it. Times are monotonic, slots are Unix milliseconds."""

import math
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

AFTERMATH = 3.0
"""Seconds that instances may need after an outage of the store until all is as before."""

Run = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Look:
    """One look of a handler at its signal, at the monotonic time ``m``."""

    m: float
    told: str | None


@dataclass(slots=True)
class Attempt:
    """One call of a handler; ``how`` is None where nothing was heard of its end.

    The tries of an attempt are told apart by their ``retry``.
    """

    job: str
    slot: int
    attempt: int
    fence: int | None
    token: str
    instance: str
    life: int
    pid: int
    looks: list[Look]
    how: str | None = None
    retry: int = 0
    trigger: str = "scheduled"

    @property
    def run(self) -> Run:
        return (self.job, self.slot)

    @property
    def begun(self) -> float:
        return self.looks[0].m

    @property
    def last(self) -> Look:
        return self.looks[-1]

    def __str__(self) -> str:
        end = "it was not heard of again" if self.how is None else self.how
        return (
            f"{self.job} {self.slot} attempt {self.attempt} fence {self.fence} in {self.instance}:"
            f" begun {self.begun:.3f}, last seen {self.last.m:.3f} told {self.last.told}, {end}"
        )


@dataclass(frozen=True, slots=True)
class Said:
    """An event that an instance told its listener of."""

    m: float
    life: int
    name: str
    job: str | None
    slot: int | None
    reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Filling:
    """How a backfill stood when people looked; ``asked`` tells those of a job apart."""

    m: float
    job: str
    asked: int
    start: int
    end: int
    total: int
    succeeded: int
    failed: int
    ended: bool


@dataclass(frozen=True, slots=True)
class Trouble:
    """What kept one process, or everybody, from what is promised to those whom nothing befalls.

    ``next_fence`` is the first that nobody could have won before its end, where that is known.
    """

    kind: str
    since: float
    until: float
    life: int | None = None
    next_fence: int | None = None


@dataclass(slots=True)
class Pause:
    """A pause: begun between ``begun`` and ``since``, ended between ``until`` and ``over``.

    Of a call that has failed nobody knows whether it was made.
    """

    job: str
    begun: float
    since: float
    until: float = math.inf
    over: float = math.inf


@dataclass(slots=True)
class Life:
    """One process; ``up`` is when its scheduler was seen to run."""

    life: int
    number: int
    pid: int
    spawned: float
    up: float | None = None
    gone: float = math.inf
    killed: float | None = None
    told: float | None = None
    code: int | None = None
    clean: bool | None = None
    hung: bool = False


class Troubles:
    """Every trouble, to be asked for by whom and when."""

    def __init__(self) -> None:
        self._of: dict[int | None, list[Trouble]] = defaultdict(list)

    def add(self, trouble: Trouble) -> None:
        """Note one more."""
        insort(self._of[trouble.life], trouble, key=lambda each: each.since)

    def of(self, life: int | None) -> list[Trouble]:
        """Return all of ``life`` alone, or with None those of everybody."""
        return self._of[life]

    def between(self, life: int | None, since: float, until: float) -> list[Trouble]:
        """Return those of ``life`` alone, or with None those of everybody, in part in that time."""
        found = []
        for trouble in self._of[life]:
            if trouble.since > until:
                break
            if trouble.until >= since:
                found.append(trouble)
        return found


@dataclass(slots=True)
class Story:
    """All of it. ``offset`` is wall minus monotonic time; from ``calm_since`` nothing was done.

    ``has_clock`` says that the store has a clock of its own, by which no run begins too early.
    ``gaps`` are the short times for which a process did not run; the longer ones are troubles too.
    ``busy`` are the times in which the machine had no time to spare.
    """

    leases: bool
    has_clock: bool = False
    offset: float = 0.0
    began: float = 0.0
    calm_since: float = math.inf
    attempts: list[Attempt] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    lives: dict[int, Life] = field(default_factory=dict)
    troubles: Troubles = field(default_factory=Troubles)
    gaps: Troubles = field(default_factory=Troubles)
    busy: Troubles = field(default_factory=Troubles)
    bad_forks: list[str] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)
    trespassed: list[str] = field(default_factory=list)
    refused: int = 0  # times that the store could not be opened
    pauses: list[Pause] = field(default_factory=list)
    asked: dict[Run, float] = field(default_factory=dict)  # runs that people asked for, and when
    fillings: list[Filling] = field(default_factory=list)
    cancelled: set[tuple[str, int]] = field(default_factory=set)  # job and asked of a backfill
    filled: float | None = None  # when the last backfill was waited for
    fixed: dict[str, dict[int, int]] = field(default_factory=dict)  # the slot by job and life

    def is_calm(self, life: int, since: float, until: float) -> bool:
        """Say whether nothing befell a process, or everybody, in that time."""
        return not self.troubles_of(life, since, until)

    def may_be_paused(self, job: str, since: float, until: float) -> bool:
        """Say whether a job can have been paused in some part of a time."""
        of_job = (pause for pause in self.pauses if pause.job == job)
        return any(pause.begun <= until and since <= pause.over for pause in of_job)

    def is_at_leisure(self, life: int, since: float, until: float) -> bool:
        """Say whether moreover the machine had time to spare: else what is stored has to wait."""
        return self.is_calm(life, since, until) and not self.busy.between(None, since, until)

    def troubles_of(self, life: int, since: float, until: float) -> list[Trouble]:
        """Return what did."""
        everybody = self.troubles.between(None, since - AFTERMATH, until)
        return [*self.troubles.between(life, since, until), *everybody]

    def won_since(self, attempt: Attempt, lease: float) -> float:
        """Return the earliest time from which the lease can be with which an attempt was begun."""
        since, due = attempt.begun - lease, attempt.slot / 1000 - self.offset
        # One that is begun before its slot was won by a clock that was ahead.
        return max(since, due) if due <= attempt.begun else since

    def costs_of_a_lease(self, life: int, since: float, until: float) -> list[Trouble]:
        """Return what can have cost a process its leases in that time; no clock can."""
        return [each for each in self.troubles_of(life, since, until) if each.kind != "clock"]

    def was_busy(self, since: float, until: float) -> bool:
        """Say whether the machine had no time to spare for most of a time."""
        busy = self.busy.between(None, since, until)
        return length_of(busy, since, until) > (until - since) / 2


def length_of(troubles: Sequence[Trouble], since: float, until: float) -> float:
    """Return for how long of a time there was any of these."""
    length, end = 0.0, since
    for each in sorted(troubles, key=lambda each: each.since):
        length += max(0.0, min(each.until, until) - max(each.since, end))
        end = max(end, each.until)
    return length
