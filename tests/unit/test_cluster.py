"""A simulated cluster: what can befall its instances, and that a seed replays."""

from __future__ import annotations

import gc
import math
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from leasecron import (
    BackendUnavailable,
    ConfigurationError,
    JobOptions,
    RunContext,
    Scheduler,
    SchedulerStateError,
)
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.testing import Cluster, EventRecorder

START = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = JobOptions(lease=8, heartbeat=2, jitter=0)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(3, "memory://", 1, start=after(5), defaults=OPTIONS)
    yield cluster
    cluster.close()


def holder(cluster: Cluster) -> int:
    """Return the number of the instance that began the latest attempt."""
    return int(cluster.attempts[-1].instance.partition("-")[2].partition(".")[0])


def others(i: int) -> list[int]:
    return [other for other in range(3) if other != i]


def deaf_sleep(cluster: Cluster, seconds: float) -> None:
    """Sleep in simulated time, whatever the signal says."""
    with suppress(queue.Empty):
        cluster.clock.waker().get(seconds)


def test_each_slot_is_run_by_one_of_the_instances(cluster: Cluster) -> None:
    cluster.every("sync", "10s", lambda: None)
    with cluster:
        cluster.advance(100)
        cluster.check()
    assert [a.slot for a in cluster.attempts] == [after(10 * n) for n in range(1, 11)]
    assert [r.status for r in cluster.history("sync")] == ["success"] * 10
    assert {a.instance for a in cluster.attempts} == {f"instance-{i}" for i in range(3)}


def test_jobs_are_declared_in_every_way_and_with_processes_to_come(cluster: Cluster) -> None:
    seen: list[str] = []

    @cluster.every("every", "1m")
    def every() -> None:
        seen.append("every")

    @cluster.cron("cron", "* * * * *", tz="Europe/Amsterdam")
    def cron() -> None:
        seen.append("cron")

    def setup(scheduler: Scheduler) -> None:
        scheduler.every("own", "1m", lambda: seen.append(f"own {scheduler.instance}"))

    cluster.add("added", cluster.schedulers[0].jobs["cron"].schedule, lambda: seen.append("added"))
    cluster.setup(setup)
    with cluster:
        for i in range(3):
            cluster.restart(i)
        cluster.advance(60)
    assert sorted(seen)[:3] == ["added", "cron", "every"]
    assert sorted(seen)[3].startswith("own instance-")
    assert sorted(seen)[3].endswith(".1")
    assert all(
        list(scheduler.jobs) == ["every", "cron", "added", "own"]
        for scheduler in cluster.schedulers
    )


def test_a_crash_ends_a_handler_in_the_middle_and_another_instance_makes_the_next_attempt(
    cluster: Cluster,
) -> None:
    steps: list[tuple[str, int]] = []

    @cluster.every("sync", "1m")
    def sync(ctx: RunContext) -> None:
        steps.append(("began", ctx.attempt))
        ctx.sleep(5)
        steps.append(("went on", ctx.attempt))

    with cluster:
        cluster.advance(57)
        died = holder(cluster)
        cluster.crash(died)
        cluster.crash(died)
        cluster.advance(8 + 2 * 2 + 5)
        assert steps == [("began", 1), ("began", 2), ("went on", 2)]
        assert holder(cluster) != died
        assert [r.status for r in cluster.history("sync")] == ["success", "lost"]
        assert cluster.attempts[0].ended is None
        cluster.check()
    assert steps == [("began", 1), ("began", 2), ("went on", 2)]


def test_a_handler_can_crash_its_own_instance(cluster: Cluster) -> None:
    steps: list[str] = []

    @cluster.every("sync", "1m")
    def sync(ctx: RunContext) -> None:
        steps.append(f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            cluster.crash(holder(cluster))
            steps.append("survived")

    with cluster:
        cluster.advance(75)
        assert steps == ["attempt 1", "attempt 2"]
        cluster.check()


def test_a_crashed_instance_comes_back_as_a_new_process(cluster: Cluster) -> None:
    cluster.every("sync", "10s", lambda: None)
    with cluster:
        cluster.crash(0)
        assert not cluster.schedulers[0].running
        cluster.restart(0)
        for i in others(0):
            cluster.crash(i)
        cluster.advance(30)
        assert {a.instance for a in cluster.attempts} == {"instance-0.1"}
        cluster.check()


def test_a_restart_hands_the_run_over_at_once(cluster: Cluster) -> None:
    @cluster.every("sync", "1m")
    def sync(ctx: RunContext) -> None:
        ctx.sleep(5)

    with cluster:
        cluster.advance(57)
        first = cluster.attempts[0].instance
        cluster.restart(holder(cluster))
        cluster.advance(4)
        assert [a.attempt for a in cluster.attempts] == [1, 2]
        assert cluster.attempts[1].instance != first
        assert [r.status for r in cluster.history("sync")] == ["interrupted"]
        cluster.check()


def test_a_restart_kills_a_process_whose_handler_does_not_end(cluster: Cluster) -> None:
    @cluster.every("sync", "1m")
    def sync(ctx: RunContext) -> None:
        if ctx.attempt == 1:
            deaf_sleep(cluster, 1000)

    with cluster:
        cluster.advance(57)
        cluster.restart(holder(cluster))
        cluster.advance(15)
        assert cluster.attempts[0].ended is None
        assert [r.status for r in cluster.history("sync")] == ["success", "lost"]
        cluster.check()


@pytest.mark.parametrize(("seconds", "attempts"), [(4, 1), (20, 2)])
def test_a_frozen_instance_keeps_its_run_unless_it_sleeps_longer_than_the_lease(
    cluster: Cluster, seconds: float, attempts: int
) -> None:
    @cluster.every("sync", "1m")
    def sync(ctx: RunContext) -> None:
        ctx.sleep(10)

    with cluster:
        cluster.advance(57)
        cluster.freeze(holder(cluster), seconds)
        cluster.advance(40)
        assert [a.attempt for a in cluster.attempts] == list(range(1, attempts + 1))
        statuses = {r.attempt: r.status for r in cluster.history("sync")}
        assert statuses == ({1: "success"} if attempts == 1 else {1: "lost", 2: "success"})
        if attempts == 2:
            assert cluster.attempts[0].context.signal.is_set()
            assert cluster.attempts[0].ended == after(62 + seconds)
        cluster.check()


def test_a_handler_that_freezes_its_own_instance_goes_on_later(cluster: Cluster) -> None:
    times: list[datetime] = []

    @cluster.every("sync", "1m")
    def sync() -> None:
        cluster.freeze(holder(cluster), 5)
        times.append(cluster.clock.now())

    with cluster:
        cluster.advance(58)
        assert times == []
        cluster.advance(3)
        assert times == [after(65)]


def test_an_instance_without_its_store_loses_its_run_and_learns_of_it(cluster: Cluster) -> None:
    @cluster.every("sync", "1m")
    def sync(ctx: RunContext) -> None:
        ctx.sleep(30)

    with cluster:
        cluster.advance(57)
        cut_off = holder(cluster)
        cluster.partition(cut_off)
        cluster.advance(20)
        assert [a.attempt for a in cluster.attempts] == [1, 2]
        assert cluster.attempts[0].context.signal.reason == "lease-lost"
        assert holder(cluster) != cut_off
        cluster.heal(cut_off)
        cluster.advance(40)
        assert [r.status for r in cluster.history("sync")] == ["success", "lost"]
        cluster.check()


def test_an_instance_cannot_start_without_its_store(cluster: Cluster) -> None:
    with cluster:
        cluster.crash(0)
        cluster.partition(0)
        with pytest.raises(BackendUnavailable, match="memory:// cannot be reached"):
            cluster.restart(0)
        cluster.heal(0)
        cluster.restart(0)
        assert cluster.schedulers[0].running


def test_an_answer_that_is_lost_on_its_way_does_not_win_twice(cluster: Cluster) -> None:
    cluster.every("sync", "1m", lambda: None)
    with cluster:
        cluster.slow_store(2)
        cluster.advance(56.5)  # all have asked, the store has answered
        for i in range(3):
            cluster.partition(i)
        cluster.advance(1)
        cluster.slow_store(0)
        for i in range(3):
            cluster.heal(i)
        cluster.advance(30)
        assert [a.slot for a in cluster.attempts] == [after(60)]
        cluster.check()


def test_a_slow_store_delays_the_start_of_runs(cluster: Cluster) -> None:
    cluster.every("sync", "1m", lambda: None)
    with cluster:
        cluster.slow_store(3)
        cluster.advance(60)
        assert [a.began for a in cluster.attempts] == [after(63)]


def test_a_skewed_clock_is_that_instances_alone(cluster: Cluster) -> None:
    cluster.every("sync", "1m", lambda: None)
    cluster.skew(0, 30)
    with cluster:
        for i in others(0):
            cluster.crash(i)
        cluster.advance(30)
        assert [(a.slot, a.began) for a in cluster.attempts] == [(after(60), after(30))]
        assert cluster.clock.now() == after(35)
        cluster.skew(0, 0)
        cluster.advance(90)
        assert [a.slot for a in cluster.attempts] == [after(60), after(120)]


def test_what_all_instances_do_is_heard(cluster: Cluster) -> None:
    successes: list[object] = []
    off = cluster.on("success", successes.append)
    starts: list[object] = []

    @cluster.on("start")
    def started(event: object) -> None:
        starts.append(event)

    recorder = EventRecorder(cluster)
    cluster.every("sync", "1m", lambda: None)
    with cluster:
        recorder.wait_for("success", timeout=60)
        assert len(successes) == 1
        off()
        cluster.advance(60)
    assert (len(successes), len(starts)) == (1, 2)
    assert cluster.events.events == recorder.events
    assert [event.name for event in cluster.events.events].count("skip") == 4


@pytest.fixture(params=["memory", "object", "sqlite", "lock directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    match request.param:
        case "memory":
            return "memory://"
        case "object":
            return MemoryBackend()
        case "sqlite":
            return f"sqlite:///{tmp_path}/cluster.db"
    LockDirBackend(tmp_path, create=True).open()
    return f"lockdir:///{tmp_path}"


def test_any_store_will_do(store: object) -> None:
    with Cluster(3, store, 5, start=after(5)) as cluster:
        cluster.every("sync", "1m", lambda: None)
        cluster.crash(0)
        cluster.restart(0)
        cluster.skew(1, 40)
        cluster.advance(600)
        slots = sorted(a.slot for a in cluster.attempts)
        assert slots == [after(60 * n) for n in range(1, 11)]
        assert len(cluster.history("sync")) == 10
        cluster.check()


def trace(seed: int) -> list[str]:
    with Cluster(3, "memory://", seed, defaults=OPTIONS) as cluster:

        @cluster.every("sync", "30s")
        def sync(ctx: RunContext) -> None:
            ctx.sleep(7)

        cluster.trouble(900, every=20, longest=60)
        attempts = [
            f"{a.instance} {a.slot} {a.attempt} {a.began} {a.ended}" for a in cluster.attempts
        ]
        events = [f"{e.at} {e.instance} {e.name} {e.job} {e.slot}" for e in cluster.events.events]
        return attempts + events


def test_a_seed_replays_step_by_step_and_another_one_does_not() -> None:
    first = trace(11)
    assert trace(11) == first
    assert trace(12) != first


def test_no_thread_is_left_when_it_is_closed() -> None:
    with Cluster(2, "memory://") as cluster:
        cluster.every("sync", "1s", lambda ctx: ctx.sleep(100))
        cluster.advance(5)
        cluster.crash(holder(cluster))
        cluster.advance(30)
    assert [s.thread.name for s in cluster.clock._turns._seats if s.service] == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"instances": 0}, r"instances is 0; right is an int from 1"),
        ({"instances": True}, r"instances is True"),
        ({"seed": "x"}, r"seed is 'x'; right is an int"),
        ({"start": "2026-01-01"}, r"start is '2026-01-01'; right is an aware datetime"),
        ({"store": 7}, r"store 7 is not a store"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Cluster(**wrong)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda c: c.crash(3), r"instance 3 is wrong; right is an int from 0 to 2"),
        (lambda c: c.restart(-1), r"instance -1 is wrong"),
        (lambda c: c.freeze("0", 1), r"instance '0' is wrong"),
        (lambda c: c.freeze(0, -1), r"freeze is -1"),
        (lambda c: c.skew(0, "1h"), r"skew is '1h'; right are seconds"),
        (lambda c: c.skew(0, math.nan), r"skew is nan"),
        (lambda c: c.slow_store(math.inf), r"slow_store is inf"),
        (lambda c: c.advance(-1), r"advance is -1"),
        (lambda c: c.trouble(10, every=0), r"trouble: every is 0"),
        (lambda c: c.trouble(10, longest=0), r"trouble: longest is 0"),
        (
            lambda c: c.setup(c.schedulers[0]),
            r"setup: .* right is a function that takes a scheduler",
        ),
    ],
)
def test_what_cannot_befall_a_cluster_is_refused(
    cluster: Cluster, act: Callable[[Cluster], object], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        act(cluster)


def test_a_declaration_that_is_refused_is_not_made_again(cluster: Cluster) -> None:
    cluster.every("sync", "1m", lambda: None)
    with pytest.raises(ConfigurationError, match="declared already"):
        cluster.every("sync", "1m", lambda: None)
    cluster.restart(0)
    assert list(cluster.schedulers[0].jobs) == ["sync"]


def test_time_that_passes_starts_what_is_not_started_and_nothing_goes_on_after_the_end(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASECRON_OFF", "1")  # an application's tests may have it
    cluster.every("sync", "1m", lambda: None)
    cluster.advance(timedelta(minutes=2))
    assert len(cluster.attempts) == 2
    cluster.close()
    cluster.close()
    with pytest.raises(SchedulerStateError, match="the cluster is closed"):
        cluster.advance("1m")


def test_a_handler_that_waits_in_real_time_is_warned_of() -> None:
    cluster, end = Cluster(1), threading.Event()
    cluster.every("sync", "1m", end.wait)
    cluster.advance(60)
    with pytest.warns(RuntimeWarning, match="a handler waits in real time: .*'sync'"):
        cluster.close()
    end.set()


def test_a_broken_promise_is_told_with_what_was_done_before(cluster: Cluster) -> None:
    cluster.every("sync", "1m", lambda: None)
    cluster.freeze(1, "2s")
    cluster.advance("10m")
    cluster.clock.jump(wall=3600)  # passes over slots
    cluster.advance("10m")
    with pytest.raises(AssertionError) as caught:
        cluster.check()
    said = str(caught.value).splitlines()
    assert said[0].startswith("Cluster(3, 'memory://', seed=1) at 2026-01-01T01:20:")
    assert said[-1] == "2026-01-01T00:00:05+00:00 freeze(1, 2s)"
    assert len(said) < 30


def test_nothing_keeps_a_cluster_alive_that_is_closed() -> None:
    cluster = Cluster(2, "memory://")
    cluster.every("sync", "1s", lambda: None)
    with cluster:
        cluster.crash(0)
        cluster.partition(0)
        with pytest.raises(BackendUnavailable):
            cluster.restart(0)
        cluster.advance(10)
    gone = weakref.ref(cluster)
    del cluster
    gc.collect()
    assert gone() is None
