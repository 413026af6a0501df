"""An instance that only waits is seen in its store, whatever the number of its jobs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from claim_memory import ClaimMemory
from runs_support import Fleet, at

from leasecron import Scheduler
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.testing import FakeClock

DAY = 86_400


def test_a_store_is_in_use_as_long_as_an_instance_waits(tmp_path: Path) -> None:
    clock = FakeClock(at(0))
    scheduler = Scheduler(tmp_path / "jobs.db", clock=clock)
    for number in range(3):
        scheduler.every(f"job-{number}", DAY, lambda: None)
    scheduler.start()
    looker = SqliteBackend(tmp_path / "jobs.db")
    looker.open(clock)
    for _ in range(20):
        clock.advance(60)
        assert "was seen less than two minutes ago" in (looker.in_use() or "")

    scheduler.stop()
    clock.advance(121)

    assert looker.in_use() is None
    looker.close()


def test_one_job_is_declared_again_however_many_there_are(fleet: Fleet) -> None:
    one = fleet.instance()
    for number in range(50):
        one.every(DAY, lambda: None, f"job-{number}")
    fleet.start()
    before = len(one.store.of("declare"))
    fleet.until(3600)

    declared = one.store.of("declare")[before:]
    assert [len(call.items) for call in declared] == [1] * len(declared)
    times = [0.0, *(call.at for call in declared)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert 45 <= min(gaps[1:]) < max(gaps) <= 65


def test_instances_that_were_started_together_are_not_seen_together(fleet: Fleet) -> None:
    for _ in range(4):
        fleet.instance().every(DAY, lambda: None)
    fleet.start()
    fleet.until(70)
    first = {instance.store.of("declare")[1].at for instance in fleet.instances}
    assert len(first) == 4


def test_a_store_that_was_away_is_told_once_and_goes_on(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(DAY, lambda: None)
    fleet.start()
    one.store.cut("declare")
    fleet.until(600)
    before = len(one.store.of("declare"))
    one.store.heal()
    fleet.until(640)

    assert len(one.store.of("declare")) == before + 1
    assert [event.operation for event in one.of("error")] == ["declare"]


def test_a_job_that_was_removed_is_not_declared_again(fleet: Fleet) -> None:
    one = fleet.instance()
    for name in ("first", "second"):
        one.every(DAY, lambda: None, name)
    fleet.start()
    one.scheduler.remove("first")
    fleet.until(600)
    one.scheduler.remove("second")
    fleet.until(1200)

    again = [item.job for call in one.store.of("declare")[1:] for item in call.items]
    assert set(again) == {"second"}
    assert one.store.of("declare")[-1].at < 601


def test_a_store_without_leases_is_not_asked_to() -> None:
    fleet = Fleet(0, ClaimMemory())
    one = fleet.instance()
    one.every(DAY, lambda: None)
    fleet.start()
    fleet.until(600)
    assert len(one.store.of("declare")) == 1
    fleet.close()
