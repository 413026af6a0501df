"""A job that is paused begins no run, in any instance, until it is resumed."""

from __future__ import annotations

import pytest
from runs_support import HEARTBEAT, LEASE, SEEDS, Fleet, Instance, at, seconds

from leasecron import ConfigurationError, RunContext, Scheduler
from leasecron.model import Pause


def skipped(instance: Instance) -> list[tuple[float, str]]:
    return [
        (event.slot.timestamp() - at(0).timestamp(), event.reason) for event in instance.of("skip")
    ]


@pytest.fixture
def runs() -> list[float]:
    return []


def two(fleet: Fleet, runs: list[float], lasts: float = 0.0, **options: object) -> None:
    def handler(ctx: RunContext) -> None:
        runs.append(seconds(fleet.clock))
        if lasts:
            ctx.sleep(lasts)

    for _ in range(2):
        fleet.instance().every(60, handler, **options)  # type: ignore[arg-type]
    fleet.start()


@pytest.mark.parametrize("seed", SEEDS)
def test_slots_of_a_pause_are_skipped_by_all_and_not_caught_up(
    fleet: Fleet, runs: list[float]
) -> None:
    two(fleet, runs, catch_up=600)
    fleet.until(610)
    before = len(runs)
    fleet.instances[0].scheduler.pause("sync", "a note")
    fleet.until(730)
    assert len(runs) == before
    for instance in fleet.instances:
        assert skipped(instance)[-2:] == [(660, "paused"), (720, "paused")]
    fleet.instances[1].scheduler.resume("sync")
    late = fleet.instance()
    late.every(60, lambda: runs.append(seconds(fleet.clock)), catch_up=600)
    late.start()
    fleet.until(779)
    assert len(runs) == before
    assert (720, "paused") in skipped(late)
    fleet.until(781)

    assert runs[before:] == [780]


def test_a_live_run_goes_on(fleet: Fleet, runs: list[float]) -> None:
    two(fleet, runs, lasts=40)
    fleet.until(605)
    fleet.instances[0].scheduler.pause("sync")
    fleet.until(659)

    assert [record.status for record in fleet.history()][:1] == ["success"]
    assert all(not instance.of("interrupted") for instance in fleet.instances)


def test_a_run_whose_holder_is_gone_waits_for_the_end_of_the_pause(
    fleet: Fleet, runs: list[float]
) -> None:
    two(fleet, runs, lasts=50)
    fleet.until(605)
    holder = max(
        fleet.instances, key=lambda each: len(each.of("start")) and each.of("start")[-1].at
    )
    backup = next(instance for instance in fleet.instances if instance is not holder)
    backup.scheduler.pause("sync")
    holder.store.cut()
    before = len(runs)
    fleet.until(605 + LEASE + 4 * HEARTBEAT)
    assert len(runs) == before
    backup.scheduler.resume("sync")
    fleet.until(605 + LEASE + 8 * HEARTBEAT)

    assert len(runs) == before + 1
    assert backup.of("start")[-1].attempt == 2


def test_a_run_that_failed_for_good_pauses_its_job(fleet: Fleet) -> None:
    calls: list[int] = []

    def handler(ctx: RunContext) -> None:
        calls.append(ctx.retry)
        raise ValueError("the disk is full")

    one = fleet.instance()
    one.every(60, handler, pause_on_failure=True, retries=1, backoff=1)
    fleet.start()
    fleet.until(300)

    assert calls == [0, 1]
    assert [reason for _, reason in skipped(one)] == ["paused"] * 4
    (pause,) = fleet.pauses()
    assert pause.note == f"the run of {at(60).isoformat()} failed: ValueError: the disk is full"
    one.scheduler.resume("sync")
    fleet.until(365)
    assert calls == [0, 1, 0, 1]


def test_a_run_that_was_given_back_pauses_nothing(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(60, lambda ctx: ctx.sleep(300), pause_on_failure=True)
    fleet.start()
    fleet.until(65)
    one.scheduler.stop()

    assert fleet.pauses() == []


def test_attempts_that_are_used_up_pause_the_job(fleet: Fleet) -> None:
    one, other = fleet.instance(), fleet.instance()
    for instance in (one, other):
        instance.every(60, lambda ctx: ctx.sleep(50), pause_on_failure=True, max_attempts=1)
    fleet.start()
    fleet.until(62)
    holder = one if one.of("start") else other
    backup = other if holder is one else one
    holder.store.cut()
    fleet.until(62 + LEASE + 2 * HEARTBEAT)

    assert [event.exception for event in backup.of("failure")] == [None]
    (pause,) = fleet.pauses()
    assert pause.note == "a run has used up its attempts"


def test_who_does_not_run_can_pause_and_resume(fleet: Fleet, runs: list[float]) -> None:
    two(fleet, runs)
    fleet.until(30)
    stranger = Scheduler(fleet.memory, clock=fleet.clock)
    stranger.pause("sync", "from outside")
    stranger.pause("sync", "again")
    fleet.until(100)
    assert runs == []
    assert fleet.pauses() == [Pause("sync", at(30), None, "from outside")]
    stranger.resume("sync")
    stranger.resume("sync")
    fleet.until(130)

    assert runs == [120]


def test_a_job_can_be_paused_before_its_first_start(fleet: Fleet, runs: list[float]) -> None:
    one = fleet.instance()
    one.every(60, lambda: runs.append(1))
    one.scheduler.pause("sync")
    fleet.start()
    fleet.until(130)

    assert runs == []
    assert [reason for _, reason in skipped(one)] == ["paused", "paused"]


def test_a_job_that_nobody_declared_is_refused_with_those_that_are_known(
    fleet: Fleet, runs: list[float]
) -> None:
    two(fleet, runs)
    one = fleet.instances[0].scheduler

    for what, act in (("pause", one.pause), ("resume", one.resume)):
        with pytest.raises(
            ConfigurationError, match=f"{what}: the store knows no job 'synk'; it knows 'sync'"
        ):
            act("synk")


@pytest.mark.parametrize("note", [5, None, "x" * 1001, "a\0b", "\ud800"])
def test_what_is_no_note_is_refused(fleet: Fleet, runs: list[float], note: object) -> None:
    two(fleet, runs)

    with pytest.raises(ConfigurationError, match="pause of job 'sync': note is"):
        fleet.instances[0].scheduler.pause("sync", note)  # type: ignore[arg-type]
