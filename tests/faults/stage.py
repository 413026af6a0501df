"""A simulated cluster of three, of which the first instance is the victim of an attack."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Unpack

from leasecron import (
    BackendError,
    BackendUnavailable,
    ConfigurationError,
    JobOptions,
    RunContext,
    Scheduler,
)
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.model import Claim, ClaimAnswer
from leasecron.options import JobOptionArgs
from leasecron.runs import Key
from leasecron.testing import Cluster

VICTIM = 0
LEASE = 4.0
OPTIONS = JobOptions(lease=LEASE)

REFUSED = {"claim", "heartbeat", "finish", "save_results", "declare", "unfinished", "prune"}
REFUSED |= {"asked_for", "fix", "succeeded", "advance"}

Handler = Callable[[RunContext], object]


class OnPurpose(RuntimeError):
    """The error that an attack raises."""


class Won:
    """The claims that a store let win, by their tokens."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}

    def note(self, claims: Sequence[Claim], answers: list[ClaimAnswer]) -> list[ClaimAnswer]:
        for claim, answer in zip(claims, answers, strict=True):
            if answer.outcome == "won":
                self.claims[claim.token] = claim
        return answers


class NotedMemory(MemoryBackend):
    """A store with leases that notes who won; where it ``tells``, of what is asked for."""

    tells = True

    def __init__(self) -> None:
        super().__init__()
        self.won = Won()

    def _tell(self, job: str, slot: datetime) -> None:
        if self.tells:
            super()._tell(job, slot)

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        return self.won.note(claims, super().claim(claims))


class Refusing(NotedMemory):
    """A store with leases that answers what it is asked by an error, where ``refuses`` says so."""

    refuses: Callable[[str], bool] = staticmethod(lambda _name: False)
    refusal = BackendError

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in REFUSED:
            return found

        def call(*arguments: Any) -> Any:
            if self.refuses(name):
                raise self.refusal(f"{name} is refused on purpose")
            return found(*arguments)

        return call


class Polled(Refusing):
    """A store that is asked now and then for what it may have failed to tell of."""

    look_every = 2.0


class NotedDirectory(LockDirBackend):
    """A store without leases that notes who won."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, create=True)
        self.won = Won()

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        return self.won.note(claims, super().claim(claims))


class Stage(Cluster):
    """A cluster whose jobs are due once a minute, each at a second of its own."""

    def __init__(
        self,
        store: NotedMemory | NotedDirectory,
        *,
        max_running: int = 200,
        defaults: JobOptions = OPTIONS,
    ) -> None:
        super().__init__(3, store, 7, defaults=defaults, max_running=max_running)
        self.store = store
        self.won = store.won.claims
        self.stops: list[bool] = []
        self.asked_for: list[Key] = []
        self.others_are_away = False
        self.met_error = self.stops_after_error = False
        self._begin = self.clock.monotonic()

    def job(
        self,
        seconds: str,
        handler: Handler,
        first: int = VICTIM,
        **options: Unpack[JobOptionArgs],
    ) -> None:
        """Declare a job named like its handler, for which instance ``first`` asks first."""

        def declare(scheduler: Scheduler) -> None:
            mine: JobOptionArgs = {**options}
            mine["jitter"] = 0 if scheduler.instance.startswith(f"instance-{first}") else 1
            # The victim looks after what others hold twice as often as they do.
            mine["heartbeat"] = 1 if scheduler.instance.startswith(f"instance-{VICTIM}") else 2
            scheduler.cron(handler.__name__, f"{seconds} * * * * *", handler, **mine)

        self.setup(declare)

    def one_off(self, second: float, handler: Handler) -> None:
        """Declare a job named like its handler that runs once, so long after the beginning."""
        when = self.clock.now() + timedelta(seconds=second)
        self.setup(lambda scheduler: scheduler.at(handler.__name__, when, handler, jitter=0))
        self.asked_for.append((handler.__name__, when))

    def ask_for(self, name: str) -> None:
        """Have a job run once now, which another instance than the victim asks for."""
        run = self.schedulers[1].trigger(name)
        self.asked_for.append((name, run.slot))

    def fill(self, name: str, minutes: float) -> None:
        """Have the slots of so many minutes before the play run, as :meth:`ask_for`.

        Unless what befell the victim holds up the ones that were asked for before.
        """
        start = self.began - timedelta(minutes=minutes)
        missing = [*self.schedulers[1].missing(name, start, self.began)]
        with suppress(ConfigurationError):
            self.schedulers[1].backfill(name, start, self.began)
            self.asked_for += [(name, slot) for slot in missing]

    def leave_alone(self) -> None:
        """Let all but the victim stand still until the judge has seen what became of the play."""
        self.others_are_away = True
        for other in (1, 2):
            self.freeze(other, 100)

    def deaf(self, seconds: float) -> None:
        """Sleep in simulated time, whatever the signal says."""
        with suppress(queue.Empty):
            self.clock.waker().get(seconds)

    def until(self, second: float) -> None:
        """Let time pass up to a second since the beginning, if it has not come yet."""
        self.advance(max(0.0, second - (self.clock.monotonic() - self._begin)))

    def in_victim(self) -> bool:
        """Say whether the calling thread is one of the victim as it lives now."""
        return self.clock._turns.is_in(self._instances[VICTIM].process._process)

    @property
    def victim_died(self) -> bool:
        """Whether the victim was killed and has not come back."""
        return self._instances[VICTIM].process.killed

    def end_victim(self) -> None:
        """Stop the victim as SIGTERM would, note whether that came to its end, and restart it.

        One that has met an error goes on, unless it shall be seen whether it stops.
        """
        if self.met_error and not self.stops_after_error:
            return
        victim = self._instances[VICTIM]
        stopped = victim.stop(30.0)
        # Without its store it cannot say that every end is stored.
        self.stops.append(stopped or victim.process.killed or victim.line.cut)
        self.heal(VICTIM)
        self.restart(VICTIM)

    def start(self) -> None:
        """Start all, the victim last; where that fails, its process ends."""
        if self._started:
            return
        for instance in self._instances[VICTIM + 1 :]:
            instance.start()
        with self._its_start_may_fail():
            super().start()

    def restart(self, i: int) -> None:
        """Put a new process in an instance's place."""
        with self._its_start_may_fail():
            super().restart(i)

    @contextmanager
    def _its_start_may_fail(self) -> Iterator[None]:
        try:
            yield
        except (BackendUnavailable, OnPurpose):
            self.crash(VICTIM)
        except RuntimeError:  # from a start() that goes on here after its process was killed
            if not self.victim_died:
                raise

    @property
    def began(self) -> datetime:
        """When the play began."""
        return self._declared[next(iter(self._declared))]
