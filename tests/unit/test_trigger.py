"""Runs that somebody asks for: begun at once by one of those that declare the job."""

from __future__ import annotations

from typing import Any

import pytest
from runs_support import HEARTBEAT, LEASE, SEEDS, Fleet, Instance, at, seconds

from leasecron import (
    BackendError,
    BackendUnavailable,
    ConfigurationError,
    LockDirBackend,
    RunContext,
    Scheduler,
    SchedulerStateError,
)
from leasecron.model import NewRun, RunResult


class Noting:
    """A handler that notes its runs, and takes some time for each."""

    def __init__(self, fleet: Fleet, lasts: float = 0.0) -> None:
        self.fleet = fleet
        self.lasts = lasts
        self.runs: list[tuple[str, float, str, int]] = []

    def __call__(self, ctx: RunContext) -> None:
        self.runs.append((ctx.instance, seconds(self.fleet.clock), ctx.trigger, ctx.attempt))
        if self.lasts:
            ctx.sleep(self.lasts)


def two(fleet: Fleet, handler: Noting, *, polled: bool = False) -> tuple[Instance, Instance]:
    for _ in range(2):
        instance = fleet.instance()
        instance.store.polled = polled
        instance.every(600, handler)
    fleet.start()
    one, other = fleet.instances
    return one, other


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("polled", [False, True])
def test_one_instance_begins_the_run_at_once(fleet: Fleet, *, polled: bool) -> None:
    handler = Noting(fleet)
    one, other = two(fleet, handler, polled=polled)
    fleet.until(100.5)

    run = one.scheduler.trigger("sync")
    fleet.until(102.5)

    ((_, began, trigger, attempt),) = handler.runs
    assert began < (102.5 if polled else 100.7)
    assert (trigger, attempt) == ("manual", 1)
    assert (run.job, run.slot) == ("sync", at(100.5))
    (record,) = fleet.history()
    assert (record.slot, record.trigger, record.status) == (run.slot, "manual", "success")
    assert run.wait(timeout=0) == record
    assert one.of("skip") == other.of("skip") == []


def test_a_run_is_never_asked_for_at_a_whole_second(fleet: Fleet) -> None:
    one, _other = two(fleet, Noting(fleet))
    fleet.until(100)

    assert one.scheduler.trigger("sync").slot == at(100.001)


def test_a_slot_of_the_schedule_is_passed_by(fleet: Fleet) -> None:
    one = fleet.instance()
    handler = Noting(fleet)
    one.scheduler.every("sync", 0.5, handler, lease=0.5, heartbeat=0.1)
    fleet.start()
    fleet.until(100.5)

    assert one.scheduler.trigger("sync").slot == at(100.501)


def test_another_process_may_ask_for_it(fleet: Fleet) -> None:
    handler = Noting(fleet)
    two(fleet, handler)
    fleet.until(100.5)
    stranger = Scheduler(fleet.memory, clock=fleet.clock, instance="stranger")

    run = stranger.trigger("sync")
    result = run.wait(timeout=10)

    assert isinstance(result, RunResult)
    assert (result.status, result.trigger) == ("success", "manual")
    assert len(handler.runs) == 1
    fleet.until(700)
    assert [trigger for _, _, trigger, _ in handler.runs] == ["manual", "scheduled"]


def test_who_asks_waits_for_the_end(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=20)
    one, _other = two(fleet, handler)
    fleet.until(100.5)
    run = one.scheduler.trigger("sync")

    assert run.wait(timeout=5) is None
    result = run.wait()

    assert result is not None
    assert 120 <= seconds(fleet.clock) < 122
    assert result.duration == 20


def test_one_that_asked_waits_on_while_the_store_is_away(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=3)
    one, _other = two(fleet, handler)
    fleet.until(100.5)
    run = one.scheduler.trigger("sync")
    fleet.until(101)
    one.store.cut("run_state")
    assert run.wait(timeout=5) is None
    one.store.heal()

    assert run.wait(timeout=10) is not None


def test_a_run_whose_holder_left_no_record_is_told_of_all_the_same(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: None)
    one.store.break_("save_results")
    fleet.start()
    fleet.until(100.5)

    result = one.scheduler.trigger("sync").wait(timeout=60)

    assert result is not None
    assert (result.status, result.attempt, result.trigger) == ("success", 1, "manual")
    assert fleet.history() == []


def test_the_others_stand_by_for_it(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=300)
    one, other = two(fleet, handler)
    fleet.until(100.5)
    one.scheduler.trigger("sync")
    fleet.until(101)
    ((holder, *_),) = handler.runs
    lost, backup = (one, other) if holder == "a" else (other, one)
    lost.store.cut()
    fleet.until(101 + LEASE + 2 * HEARTBEAT)

    assert [(name, trigger, attempt) for name, _, trigger, attempt in handler.runs] == [
        (holder, "manual", 1),
        (backup.scheduler.instance, "takeover", 2),
    ]


@pytest.mark.parametrize("polled", [False, True])
def test_a_newer_slot_does_not_replace_it(fleet: Fleet, *, polled: bool) -> None:
    """Its holder is gone when the next slot is due: both are run."""
    handler = Noting(fleet, lasts=30)
    one, other = two(fleet, handler, polled=polled)
    fleet.until(598.5)
    one.scheduler.trigger("sync")
    fleet.until(599.9)
    ((holder, *_),) = handler.runs
    lost = one if holder == "a" else other
    lost.store.cut()
    fleet.until(700)

    backup = "b" if holder == "a" else "a"
    assert [(name, attempt) for name, _, _, attempt in handler.runs] == [
        (holder, 1),
        (backup, 2),
    ]
    skipped = fleet.instances["ab".index(backup)].of("skip")
    assert [event.reason for event in skipped] == ["overlap"]
    assert [(r.trigger, r.status) for r in fleet.history()] == [
        ("takeover", "success"),
        ("manual", "lost"),
    ]


def test_a_newer_slot_that_has_begun_does_not_replace_it(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=30)
    for _ in range(2):
        fleet.instance().every(600, handler, overlap="allow")
    fleet.start()
    fleet.until(598.5)
    one, other = fleet.instances
    one.scheduler.trigger("sync")
    fleet.until(599.9)
    ((holder, *_),) = handler.runs
    lost = one if holder == "a" else other
    lost.store.cut()
    fleet.until(700)

    backup = "b" if holder == "a" else "a"
    assert sorted(handler.runs[1:], key=lambda run: run[1])[1][0::2] == (backup, "takeover")
    assert [(r.trigger, r.status) for r in fleet.history()] == [
        ("takeover", "success"),
        ("scheduled", "success"),
        ("manual", "lost"),
    ]


def test_it_waits_for_the_run_that_goes_on(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=50)
    one, _other = two(fleet, handler)
    fleet.until(610.5)
    one.scheduler.trigger("sync")
    fleet.until(649)
    assert len(handler.runs) == 1
    fleet.until(651)

    (_, _, first, _), (_, began, second, _) = handler.runs
    assert (first, second) == ("scheduled", "manual")
    assert 650 <= began < 651


def test_what_nobody_has_taken_note_of_is_taken_back_before_a_restart(fleet: Fleet) -> None:
    handler = Noting(fleet)
    one = fleet.instance()
    one.every(600, handler)
    one.start()
    one.scheduler.stop()
    stranger = Scheduler(fleet.memory, clock=fleet.clock)
    with pytest.raises(
        ConfigurationError, match=r"job 'sync' has taken note .* last seen at .* are 'sync'"
    ):
        stranger.trigger("sync")
    one.start()
    fleet.until(100)

    assert handler.runs == []  # it was taken back


def test_nobody_declares_the_job(fleet: Fleet) -> None:
    two(fleet, Noting(fleet))
    fleet.until(100)
    stranger = Scheduler(fleet.memory, clock=fleet.clock)

    with pytest.raises(ConfigurationError) as refused:
        stranger.trigger("synk")

    assert str(refused.value) == (
        "no instance that declares job 'synk' has taken note of the run within 5 s, so it is taken"
        " back: it was never seen; declared are 'sync'"
    )
    assert 105 <= seconds(fleet.clock) < 106


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_that_has_to_wait_is_declared_all_the_same(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=100)
    two(fleet, handler)
    fleet.until(610)
    stranger = Scheduler(fleet.memory, clock=fleet.clock)

    run = stranger.trigger("sync")

    assert run.wait(timeout=0) is None
    fleet.until(720)
    assert [trigger for _, _, trigger, _ in handler.runs] == ["scheduled", "manual"]


def test_a_job_that_is_paused_is_not_asked_for(fleet: Fleet) -> None:
    one, _other = two(fleet, Noting(fleet))
    fleet.until(100)
    one.scheduler.pause("sync", "the bank is closed")

    with pytest.raises(
        ConfigurationError, match=r"'sync' is paused since .*\(the bank is closed\)"
    ):
        one.scheduler.trigger("sync")


def test_a_run_that_the_store_forgot_is_waited_for_no_longer(fleet: Fleet) -> None:
    one, _other = two(fleet, Noting(fleet))
    fleet.until(100)
    one.store.scripts["run_state"] = lambda _: None
    run = one.scheduler.trigger("sync")
    one.store.inner._tables = None
    one.store.inner.open(fleet.clock)

    with pytest.raises(SchedulerStateError, match="the store knows no run of job 'sync' at"):
        run.wait(timeout=5)


def test_a_store_of_claims_alone_refuses(tmp_path: object) -> None:
    scheduler = Scheduler(LockDirBackend(f"{tmp_path}/locks", create=True))
    scheduler.every("sync", 600, print)

    for act in (scheduler.trigger, scheduler.pause, scheduler.resume):
        with pytest.raises(ConfigurationError, match=r"\(\) needs a store such as sqlite:"):
            act("sync")


@pytest.mark.parametrize("name", ["", 5, "a\0b", None])
def test_what_is_no_name_is_refused(fleet: Fleet, name: Any) -> None:
    one = fleet.instance()

    for act in (one.scheduler.trigger, one.scheduler.pause, one.scheduler.resume):
        with pytest.raises(ConfigurationError, match="the name of"):
            act(name)


def test_who_cannot_learn_of_his_run_leaves_none_behind(fleet: Fleet) -> None:
    two(fleet, Noting(fleet))
    fleet.until(100)
    one, _other = fleet.instances
    stranger = Instance(fleet.clock, fleet.memory, "stranger", 200)
    stranger.store.break_("run_state")
    one.scheduler.pause("sync")
    stranger.store.scripts["jobs"] = lambda _: []

    with pytest.raises(BackendError, match="the disk is broken"):
        stranger.scheduler.trigger("sync")

    one.scheduler.resume("sync")
    fleet.until(200)
    assert fleet.history() == []


def test_a_store_that_is_away_while_somebody_is_looked_for_is_waited_for(fleet: Fleet) -> None:
    handler = Noting(fleet)
    two(fleet, handler)
    fleet.until(100.5)
    stranger = Instance(fleet.clock, fleet.memory, "stranger", 200)
    stranger.store.cut("run_state")

    def heal_later() -> None:
        fleet.nap(2)
        stranger.store.heal()

    fleet.clock.start_thread(heal_later, "healer")

    run = stranger.scheduler.trigger("sync")

    assert run.wait(timeout=10) is not None


def test_in_an_outage_the_store_is_asked_once_however_often_it_tells(fleet: Fleet) -> None:
    one, other = two(fleet, Noting(fleet))
    fleet.until(50)
    one.store.cut("asked_for")
    for _ in range(3):
        other.scheduler.trigger("sync")
        fleet.clock.advance(2)
    before = len(one.store.of("asked_for"))
    fleet.clock.advance(60)

    assert len(one.store.of("asked_for")) - before < 100  # each second, as in every outage


def test_a_run_that_may_have_been_put_in_is_taken_back(fleet: Fleet) -> None:
    two(fleet, Noting(fleet))
    fleet.until(100)
    for instance in fleet.instances:
        instance.scheduler.stop()
    stranger = Instance(fleet.clock, fleet.memory, "stranger", 200)
    stranger.store.deaf.add("add_runs")

    with pytest.raises(BackendUnavailable, match="the answer was lost"):
        stranger.scheduler.trigger("sync")

    stranger.store.heal()
    fleet.memory.open(fleet.clock)
    assert fleet.memory.asked_for() == []  # type: ignore[union-attr]
    fleet.memory.close()


def test_a_store_that_is_not_open_is_opened_once_for_all_questions(fleet: Fleet) -> None:
    two(fleet, Noting(fleet, lasts=3))
    fleet.until(100)
    stranger = Instance(fleet.clock, fleet.memory, "stranger", 200)

    run = stranger.scheduler.trigger("sync")
    assert run.wait(timeout=10) is not None

    assert len(stranger.store.of("open")) == len(stranger.store.of("close")) == 2
    assert len(stranger.store.of("run_state")) > 5


def test_who_asks_often_in_one_moment_gets_as_many_runs(fleet: Fleet) -> None:
    handler = Noting(fleet)
    one = fleet.instance()
    one.every(600, handler, overlap="allow")
    fleet.start()
    fleet.until(100)

    runs = {one.scheduler.trigger("sync") for _ in range(20)}
    fleet.until(110)

    assert len(runs) == 20
    assert len(handler.runs) == 20


def test_a_run_that_was_withdrawn_is_watched_no_longer(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=100)
    one, _other = two(fleet, handler)
    fleet.until(610)
    run = one.scheduler.trigger("sync")
    fleet.until(612)
    assert one.store.inner.withdraw([NewRun("sync", run.slot, one.scheduler.instance)]) == [True]
    fleet.until(640)
    before = len(one.store.checks(run.slot))
    assert before
    fleet.until(690)

    assert len(one.store.checks(run.slot)) == before
