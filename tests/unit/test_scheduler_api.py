"""The public face: declaring, looking, removing, and reading the history."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from runs_support import OPTIONS, SEEDS, Fleet, at

from leasecron import Cron, Every, Job, JobOptions, RunContext, Scheduler
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.testing import FakeClock


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler("memory://", clock=FakeClock(at(4.5)))


def handler() -> None: ...


def test_declaring_returns_the_handler(scheduler: Scheduler) -> None:
    assert scheduler.every("a", "10s", handler) is handler
    assert scheduler.cron("b", "0 3 * * *", handler) is handler
    assert scheduler.add("c", Every("1h"), handler) is handler


def test_declaring_without_a_handler_is_a_decorator(scheduler: Scheduler) -> None:
    assert scheduler.every("a", "10s", timeout="5m")(handler) is handler
    assert scheduler.cron("b", "0 3 * * *", tz="Europe/Amsterdam")(handler) is handler
    assert scheduler.add("c", Every("1h"), lease=60)(handler) is handler
    jobs = scheduler.jobs
    assert [*jobs] == ["a", "b", "c"]
    assert (jobs["a"].options.timeout, jobs["c"].options.lease) == (300.0, 60.0)


def test_a_decorator_that_is_not_used_declares_nothing(scheduler: Scheduler) -> None:
    scheduler.every("a", "10s")
    assert dict(scheduler.jobs) == {}


def test_jobs_are_read_only_values(scheduler: Scheduler) -> None:
    scheduler.every("a", "10s", handler, lease=7)
    jobs: Mapping[str, Any] = scheduler.jobs
    assert jobs["a"] == Job("a", Every("10s"), JobOptions(lease=7), at(10))
    with pytest.raises(TypeError):
        jobs["b"] = jobs["a"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        jobs["a"].name = "b"
    assert "b" not in jobs
    assert len(jobs) == 1


def test_jobs_show_the_slot_that_comes_next(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, handler, jitter=4)
    one.scheduler.cron("report", "0 3 * * *", handler, tz="Europe/Amsterdam")

    def next_slots() -> list[datetime | None]:
        return [job.next_slot for job in one.scheduler.jobs.values()]

    report = datetime(2026, 1, 1, 2, tzinfo=UTC)
    assert next_slots() == [at(10), report]
    fleet.start()
    assert next_slots() == [at(10), report]
    fleet.until(14.5)
    assert next_slots() == [at(20), report]
    one.scheduler.stop()
    fleet.until(45)
    assert next_slots() == [at(50), report]


class Never:
    def next_after(self, t: datetime, /) -> datetime | None:
        return None

    def latest_at(self, t: datetime, /) -> datetime | None:
        return None


class Broken:
    def next_after(self, t: datetime, /) -> datetime | None:
        raise ValueError("no")

    latest_at = next_after


@pytest.mark.parametrize("schedule", [Never(), Broken()])
def test_a_job_without_a_slot_to_come_shows_none(fleet: Fleet, schedule: Any) -> None:
    one = fleet.instance()
    one.scheduler.add("odd", schedule, handler)
    assert one.scheduler.jobs["odd"].next_slot is None
    fleet.start()
    assert one.scheduler.jobs["odd"].next_slot is None


def test_options_are_laid_over_the_schedulers_defaults() -> None:
    scheduler = Scheduler("memory://", defaults=JobOptions(lease=60, keep="7d", timeout=9))
    scheduler.every("a", "1h", handler, heartbeat=30, timeout=None)
    options = scheduler.jobs["a"].options
    assert (options.lease, options.heartbeat, options.timeout) == (60, 30, None)
    assert options.keep == 7 * 86_400


@pytest.mark.parametrize("tz", ["Europe/Amsterdam", ZoneInfo("Europe/Amsterdam")])
def test_the_time_zone_of_the_scheduler_is_that_of_its_cron_jobs(tz: Any) -> None:
    scheduler = Scheduler("memory://", tz=tz)
    scheduler.cron("a", "0 3 * * *", handler)
    scheduler.cron("b", "0 3 * * *", handler, tz="UTC")
    summer = datetime(2026, 7, 1, tzinfo=UTC)
    assert scheduler.jobs["a"].schedule.next_after(summer) == summer + timedelta(hours=1)
    assert scheduler.jobs["b"].schedule.next_after(summer) == summer + timedelta(hours=3)
    assert scheduler.jobs["a"].schedule == Cron("0 3 * * *", "Europe/Amsterdam")


def test_an_instance_has_a_name_of_its_own_or_the_one_it_is_given(fleet: Fleet) -> None:
    names = {Scheduler("memory://").instance for _ in range(10)}
    assert len(names) == 10
    assert Scheduler("memory://", instance="web-1").instance == "web-1"
    one = fleet.instance("web-1")
    one.every(10, handler)
    fleet.start()
    fleet.until(11)
    assert {event.instance for event in one.events} == {"web-1"}
    assert fleet.history()[0].instance == "web-1"


@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_may_be_added_and_removed_while_it_runs(fleet: Fleet) -> None:
    bodies: list[tuple[str, datetime]] = []

    def note(ctx: RunContext) -> None:
        bodies.append((ctx.job, ctx.slot))

    one = fleet.instance()
    one.every(10, note, name="a")
    fleet.start()
    fleet.until(11)
    one.every(10, note, name="b")
    fleet.until(25)
    one.scheduler.remove("a")
    assert [*one.scheduler.jobs] == ["b"]
    fleet.until(35)
    assert sorted(bodies) == [("a", at(10)), ("a", at(20)), ("b", at(20)), ("b", at(30))]


def test_a_job_that_was_in_the_store_before_is_caught_up_when_it_is_added(fleet: Fleet) -> None:
    bodies: list[tuple[str, datetime]] = []

    def note(ctx: RunContext) -> None:
        bodies.append((ctx.trigger, ctx.slot))

    one = fleet.instance()
    one.every(100, note)
    fleet.start()
    one.scheduler.remove("sync")
    fleet.until(150)
    assert bodies == []
    one.every(100, note)
    fleet.until(151)
    assert bodies == [("catch-up", at(100))]


def test_removing_a_job_lets_its_live_run_end(fleet: Fleet) -> None:
    one = fleet.instance()
    signals: list[object] = []

    def long(ctx: RunContext) -> None:
        fleet.nap(30)
        signals.append(ctx.signal.reason)

    one.every(10, long)
    fleet.start()
    fleet.until(11)
    one.scheduler.remove("sync")
    fleet.until(60)
    assert signals == [None]
    assert one.told == ["start", "success"]
    assert [call.at for call in one.store.of("heartbeat")][-1] in {38, 40}
    assert [result.status for result in fleet.history()] == ["success"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_may_be_added_again_while_a_run_of_its_former_self_is_live(fleet: Fleet) -> None:
    live: list[str] = []
    bodies: list[tuple[str, datetime]] = []

    def run(name: str, length: float) -> Any:
        def body(ctx: RunContext) -> None:
            assert live == []
            live.append(name)
            bodies.append((name, ctx.slot))
            fleet.nap(length)
            live.pop()

        return body

    one = fleet.instance()
    one.every(10, run("old", 25))
    fleet.start()
    fleet.until(11)
    one.scheduler.remove("sync")
    one.every(10, run("new", 1))
    fleet.until(52)
    assert bodies == [("old", at(10)), ("new", at(40)), ("new", at(50))]
    assert [(skip.slot, skip.reason) for skip in one.of("skip")] == [
        (at(20), "overlap"),
        (at(30), "overlap"),
    ]
    assert one.store.checks(at(10)) == []
    assert {result.status for result in fleet.history()} == {"success"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_that_is_added_again_while_its_claim_is_on_its_way_keeps_the_slot(
    fleet: Fleet,
) -> None:
    bodies: list[str] = []
    one = fleet.instance()
    one.every(600, lambda: bodies.append("old"))
    fleet.start()
    fleet.until(599)
    one.store.scripts["claim"] = lambda _claims: fleet.nap(2)
    fleet.until(601)
    one.store.scripts.clear()
    one.scheduler.remove("sync")
    one.every(600, lambda: bodies.append("new"))
    fleet.until(610)
    assert bodies == ["new"]
    assert [result.slot for result in fleet.history()] == [at(600)]


def test_one_backend_object_may_serve_several_schedulers() -> None:
    clock, backend = FakeClock(at(4.5)), MemoryBackend()
    bodies: list[str] = []
    schedulers = [
        Scheduler(backend, clock=clock, instance=name, defaults=OPTIONS) for name in "abc"
    ]
    for scheduler in schedulers:
        scheduler.every("sync", "10s", lambda ctx: bodies.append(ctx.instance))
        scheduler.start()
    clock.advance(6)
    assert len(bodies) == 1
    assert schedulers[0].stop()
    clock.advance(10)
    assert len(bodies) == 2
    assert all(scheduler.stop() for scheduler in schedulers)
    assert len(schedulers[0].history()) == 2


def test_a_memory_url_is_private_to_its_scheduler() -> None:
    clock = FakeClock(at(4.5))
    bodies: list[str] = []
    schedulers = [Scheduler("memory://", clock=clock, instance=name) for name in "ab"]
    for scheduler in schedulers:
        scheduler.every("sync", "10s", lambda ctx: bodies.append(ctx.instance), lease=5)
        scheduler.start()
    clock.advance(7)
    assert sorted(bodies) == ["a", "b"]
    assert all(scheduler.stop() for scheduler in schedulers)


def test_history_is_newest_first_of_one_job_or_of_all_up_to_a_limit(fleet: Fleet) -> None:
    one = fleet.instance()
    for name in ("a", "b"):
        one.every(10, handler, name=name)
    fleet.start()
    fleet.until(61)
    everything = one.scheduler.history()
    assert len(everything) == 12
    fences = [result.fence or 0 for result in everything]
    assert fences == sorted(fences, reverse=True)
    assert [result.slot for result in one.scheduler.history("a")] == [
        at(n) for n in range(60, 9, -10)
    ]
    assert one.scheduler.history("a", limit=2) == one.scheduler.history("a")[:2]
    assert one.scheduler.history(limit=5) == everything[:5]
    assert one.scheduler.history(limit=10**30) == everything
    assert one.scheduler.history("nobody knows") == []


def test_history_can_be_read_while_nothing_runs(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, handler)
    assert one.scheduler.history() == []
    fleet.start()
    fleet.until(11)
    running = one.scheduler.history()
    one.scheduler.stop()
    assert one.scheduler.history() == running
    assert len(running) == 1
    assert not one.scheduler.running
    fleet.clock.settle()
    assert [s.thread.name for s in fleet.clock._turns._seats if s.service] == []


def test_history_in_a_handler_shows_what_is_recorded(fleet: Fleet) -> None:
    seen: list[list[datetime]] = []
    one = fleet.instance()
    one.every(10, lambda: seen.append([result.slot for result in one.scheduler.history()]))
    fleet.start()
    fleet.until(31)
    assert seen == [[], [at(10)], [at(20), at(10)]]


def test_a_scheduler_may_be_built_started_and_stopped_in_different_threads() -> None:
    made: list[Scheduler] = []
    bodies: list[int] = []

    def build() -> None:
        scheduler = Scheduler("memory://")
        scheduler.every("sync", "50ms", lambda: bodies.append(1), jitter=0, lease=1)
        made.append(scheduler)

    steps = [build, lambda: made[0].start(), lambda: made.append(made[0])]
    for step in steps:
        thread = threading.Thread(target=step)
        thread.start()
        thread.join(10)
    ran = threading.Event()
    made[0].on("success", lambda _: ran.set())
    assert ran.wait(10)
    stopped: list[bool] = []
    thread = threading.Thread(target=lambda: stopped.append(made[0].stop()))
    thread.start()
    thread.join(10)
    assert stopped == [True]
