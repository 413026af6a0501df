"""The timers thread by itself, on a fake clock."""

from __future__ import annotations

from datetime import datetime

from leasecron import JobOptions
from leasecron.jobs import DeclaredJob, declare
from leasecron.schedules import Every, Schedule
from leasecron.testing import FakeClock
from leasecron.timers import JobTimers


class Bench:
    """Timers with a thread of their own, and a list of what they called."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.log: list[object] = []
        self.jumps = 0
        self.timers = JobTimers(clock, self._fire, self._failed, self._jumped)
        self.timers.start()

    def do(self, *calls: tuple[object, ...]) -> None:
        """Have methods of the timers called in their thread."""
        for function, *args in calls:
            self.timers.post(function, *args)  # type: ignore[arg-type]
        self.clock.settle()

    def _fire(self, job: DeclaredJob, slot: datetime) -> None:
        self.log.append(slot)

    def _failed(self, job: DeclaredJob, error: Exception) -> None:
        self.log.append(error)

    def _jumped(self) -> None:
        self.jumps += 1


def job(name: str = "job", schedule: Schedule | None = None) -> DeclaredJob:
    """Return a job without jitter; every ten seconds, if it has no schedule of its own."""
    return declare(name, schedule or Every("10s"), lambda: None, {"jitter": 0}, JobOptions())
