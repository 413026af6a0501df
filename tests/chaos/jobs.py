"""The jobs of a chaos run: how long each works, how it ends, and what it is promised."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from chaos.beat import Beat
from leasecron import Every, Schedule
from leasecron.model import WAITING, Overlap
from leasecron.option_values import JobOptionArgs

MAX_LATE = 6.0
JOBS_IN_A_PART = 50


@dataclass(frozen=True, slots=True)
class Work:
    """One job. Times are in seconds; a run's length lies between ``shortest`` and ``longest``.

    Its slots lie ``offset`` milliseconds after the multiples of ``interval``.
    """

    name: str
    interval: float
    shortest: float
    longest: float
    overlap: Overlap
    lease: float = 4.0
    heartbeat: float = 1.0
    timeout: float | None = None
    max_attempts: int = 3
    fails: float = 0.0  # the part of its tries that raise
    retries: int = 0
    backoff: float = 1.0
    once: int | None = None  # of those that run once, which
    forks: bool = False
    deaf: bool = False  # goes on when it is told to end
    offset: int = 0

    @property
    def schedule(self) -> Schedule:
        """When it is due."""
        return Beat(self.step, self.offset) if self.offset else Every(self.interval)

    @property
    def options(self) -> JobOptionArgs:
        """What the scheduler is told."""
        options: JobOptionArgs = {
            "overlap": self.overlap,
            "lease": self.lease,
            "heartbeat": self.heartbeat,
            "timeout": self.timeout,
            "max_attempts": self.max_attempts,
            "max_late": MAX_LATE,
        }
        if self.retries:  # not every store can keep their count
            options |= {"retries": self.retries, "backoff": self.backoff}
        return options

    @property
    def needs_control(self) -> bool:
        """Whether it needs a store that knows more than who has won a slot."""
        special = self.retries or self.overlap in WAITING or self.once is not None
        return bool(special or self.name in (PAUSED, ASKED, FILLED))

    @property
    def step(self) -> int:
        """The interval in milliseconds."""
        return round(self.interval * 1000)

    @property
    def margin(self) -> float:
        """How much sooner than the store its holder takes the lease for over."""
        return min(1.0, self.lease / 10)

    def length(self, slot: int) -> float:
        """Return how long the run of a slot works, whoever runs it."""
        return self._chance(slot).uniform(self.shortest, self.longest)

    def raises(self, slot: int, retry: int = 0) -> bool:
        """Say whether a try of the run of a slot ends by an exception."""
        return self._chance(slot + 1 + retry).random() < self.fails

    def instant(self, began: float, life: int) -> datetime:
        """Return when it shall run once, as a process says: each says something else.

        ``began`` is when all of it began, in seconds of wall time.
        """
        assert self.once is not None
        after = 10.0 + 9.0 * self.once + life % 5
        return datetime.fromtimestamp(began, UTC) + timedelta(seconds=after)

    def slots(self, since: float, until: float) -> range:
        """Return the slots between two wall times in seconds, in milliseconds."""
        if self.once is not None:  # nobody can tell before the store was asked
            return range(0)
        steps = -((self.offset - round(since * 1000)) // self.step)
        return range(steps * self.step + self.offset, round(until * 1000), self.step)

    def _chance(self, number: int) -> random.Random:
        return random.Random(f"{self.name} {number}")


_WARDS = tuple(
    Work(f"ward-{n}", 22.0 + n, 8.0, 14.0, "skip" if n % 2 else "allow") for n in range(6)
)
"""Long runs, far apart: most of what befalls an instance befalls one of these too."""

PAUSED, ASKED, FILLED = "paused", "asked", "filled"
"""The jobs that people pause and resume, of which they ask for runs, and that they backfill."""

_CONTROLLED = (
    Work("retried", 3.0, 0.1, 0.8, "skip", fails=0.6, retries=2),
    Work("queued", 4.0, 0.5, 6.0, "queue"),
    Work("orderly", 9.0, 4.0, 14.0, "queue", lease=6.0, heartbeat=1.5),
    Work("cancelled", 6.0, 1.0, 14.0, "cancel"),
    Work("stubborn", 10.0, 2.0, 14.0, "cancel", deaf=True),
    Work(PAUSED, 1.0, 0.02, 2.0, "skip"),
    Work(ASKED, 11.0, 0.5, 4.0, "allow"),
    Work(FILLED, 6.0, 0.2, 1.5, "skip", fails=0.3),
    *(Work(f"once-{n}", 3600.0, 1.0, 8.0, "skip", once=n) for n in range(30)),
)
"""Jobs that not every store can serve."""

WORKS = (
    Work("quick", 1.0, 0.02, 0.2, "allow"),
    Work("wide", 0.5, 0.02, 0.4, "allow", lease=20.0, heartbeat=5.0),
    Work("steady", 1.0, 0.2, 1.5, "skip"),
    Work("long", 7.0, 3.0, 12.0, "skip", max_attempts=2),
    Work("patient", 20.0, 4.0, 8.0, "skip", lease=5.0),
    Work("vigil", 25.0, 8.0, 16.0, "allow"),
    Work("watch", 30.0, 10.0, 19.0, "skip", lease=6.0, heartbeat=1.5),
    Work("beside", 15.0, 6.0, 10.0, "allow", lease=12.0, heartbeat=3.0),
    Work("deaf", 5.0, 0.5, 4.0, "skip", timeout=1.5, deaf=True),
    Work("failing", 2.0, 0.02, 1.0, "allow", fails=0.5),
    *_WARDS,
    Work("forking", 3.0, 0.3, 1.0, "skip", forks=True),
    *_CONTROLLED,
)

_BY_NAME = {work.name: work for work in WORKS}


def works_for(*, leases: bool) -> tuple[Work, ...]:
    """Return the jobs that a store of that kind can serve."""
    return tuple(work for work in WORKS if leases or not work.needs_control)


def swift(number: int) -> Work:
    """Return one of any number of jobs that are due once a second and work for some ms at most.

    However many there are, their slots are spread over the second.
    """
    return Work(f"swift-{number}", 1.0, 0.0, 0.004, "allow", offset=number * 633 % 1000)


def parts(rate: int) -> list[list[Work]]:
    """Return the swift jobs that make ``rate`` runs a second, in parts small enough to be judged.

    What is written and kept of millions of slots is more than a checker should hold at a time.
    """
    swifts = [swift(number) for number in range(rate)]
    return [swifts[since : since + JOBS_IN_A_PART] for since in range(0, rate, JOBS_IN_A_PART)]


@cache
def work_of(job: str) -> Work:
    """Return the job of that name."""
    kind, _, number = job.partition("-")
    return swift(int(number)) if kind == "swift" else _BY_NAME[job]
