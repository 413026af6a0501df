"""Versions of an application that declare one job with different options: no slot runs twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from contract.hand_clock import HandClock
from contract.server_clock import HandServerClock
from fake_instances import START

from leasecron import RunContext, Scheduler
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.testing import FakeClock

DAY = 86_400.0
JOB = "job"


class ServerClock(HandServerClock):
    """A file server that has the time of the instances."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(HandClock())
        self._shown = clock

    def read_ns(self) -> int:
        return round(self._shown.wall() * 1e9) + 1


class Application:
    """Instances that come one after the other, and the slots that they ran."""

    def __init__(self, locks: Path) -> None:
        self.clock = FakeClock(START)
        self.ran: list[datetime] = []
        self._locks = locks

    @contextmanager
    def instance(self) -> Iterator[Scheduler]:
        """Have an instance whose job is yet to be declared."""
        backend = LockDirBackend(self._locks, create=True)
        backend.make_server_clock = lambda _folder, _mode: ServerClock(self.clock)
        scheduler = Scheduler(backend, clock=self.clock)
        yield scheduler
        scheduler.stop()

    def wait_until(self, slot: datetime) -> None:
        """Let time pass until shortly before a slot."""
        self.clock.advance(slot.timestamp() - self.clock.wall() - 30)

    def weekly(self) -> None:
        """Run, for a minute, the version that has a weekly job and catches up what a month had."""
        with self.instance() as scheduler:
            scheduler.cron(JOB, "0 0 * * 1", self._run, catch_up="30d")
            scheduler.start()
            self.clock.advance(60)

    def each_second(self) -> None:
        """Run, for five seconds, the version whose job is due every second."""
        with self.instance() as scheduler:
            scheduler.every(JOB, "1s", self._run)
            scheduler.start()
            self.clock.advance(5)

    def _run(self, ctx: RunContext) -> None:
        self.ran.append(ctx.slot)


def monday(day: str) -> datetime:
    return datetime.fromisoformat(f"{day}T00:00+00:00")


def test_a_slot_whose_claim_another_version_has_pruned_is_not_run_again(tmp_path: Path) -> None:
    application = Application(tmp_path / "locks")
    application.wait_until(monday("2026-11-30"))
    application.weekly()
    assert application.ran == [monday("2026-11-23"), monday("2026-11-30")]

    application.clock.advance(3 * DAY)
    for _ in range(2):  # the second one finds that the job has newer claims
        application.each_second()
    claims = [path.parent.name for path in (tmp_path / "locks" / "jobs").glob("*/*/[0-9]*")]
    assert set(claims) == {"2026-12-03"}

    application.weekly()
    application.wait_until(monday("2026-12-07"))
    application.weekly()
    twice = [slot for slot, times in Counter(application.ran).items() if times > 1]
    assert twice == []
    assert application.ran[-1] == monday("2026-12-07")
    assert len(application.ran) >= 2 + 8 + 1
