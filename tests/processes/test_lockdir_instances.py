"""Whole instances on one lock directory: they die, stand still, and have wrong clocks."""

import os
import signal
import time
from collections.abc import Iterator

import pytest
from support.instances import LIMIT, TOLERANCE, Instance, Instances, spawned_instances
from support.lock_directory import LockDirectory
from support.run_log import slots_between
from support.wall_clock import off_by

instances = spawned_instances

HOUR = 3600
PERIOD = 500
MAX_LATE = 1.0

# What hangs says so, and is killed in the middle of its run.
TICKING = """
scheduler = new_scheduler()

def work(ctx):
    note(ctx)
    if gates["hang"].is_set():
        say("hung", slot=round(ctx.slot.timestamp() * 1000))
        gates["end"].wait(60)

scheduler.every("tick", "500ms", work, max_late="1s", catch_up=0)
serve(scheduler)
"""


@pytest.fixture
def store(instances: Instances) -> Iterator[LockDirectory]:
    store = LockDirectory(instances.folder / "store")
    store.make()
    instances.url = store.url
    yield store
    assert instances.log.doubles() == []
    assert set(instances.log.slots("tick")) <= store.claimed()


def started(instance: Instance, after: int = 0) -> list[int]:
    """Return the slots after this one that an instance has run."""
    return [report["slot"] for report in instance.said("start") if report["slot"] > after]


def now_ms() -> int:
    return round(time.time() * 1000)


def test_each_slot_is_run_once_and_skipped_by_all_others(
    instances: Instances, store: LockDirectory
) -> None:
    instances.spawn_all(3, TICKING)
    since = now_ms()
    instances.wait_until(
        lambda: len({slot for slot in instances.log.slots("tick") if slot > since}) >= 4
    )
    for instance in instances.all:
        assert instance.ask("scheduler.stop(10)") is True
        assert instance.end() == 0
        assert instance.stderr() == ""
        assert instance.said("error", "interrupted", "failure") == []
        assert {report["reason"] for report in instance.said("skip")} <= {"taken"}
    slots = sorted({slot for slot in instances.log.slots("tick") if slot > since})
    assert slots == slots_between(slots[0], slots[-1], PERIOD)
    assert store.recorded() == instances.log.slots("tick")


@pytest.mark.slow
def test_a_run_whose_instance_is_killed_is_not_run_again_and_the_next_slots_are(
    instances: Instances, store: LockDirectory
) -> None:
    victim, *_others = instances.spawn_all(3, TICKING)
    victim.ask("gates['hang'].set()")
    hung = victim.wait_for("hung")["slot"]
    victim.kill()
    slots = slots_between(hung, hung + 10 * PERIOD, PERIOD)
    instances.wait_until(lambda: slots[-1] in instances.log.slots("tick"))
    # Each has one line: the one that hung, and all after it by those who live.
    assert [slot for slot in instances.log.slots("tick") if hung <= slot <= slots[-1]] == slots
    after = [line for line in instances.log.lines("tick") if line.slot > hung]
    assert victim.pid not in {line.pid for line in after}
    assert hung not in store.recorded()


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_an_instance_that_stood_still_for_longer_than_max_late_runs_nothing_late(
    instances: Instances, store: LockDirectory, count: int
) -> None:
    frozen, *others = instances.spawn_all(count, TICKING)
    # It is stopped while it waits for a slot: what it has won before, it may begin.
    before = frozen.wait_for("success")["slot"]
    frozen.wait_for("success", "skip", slot=before + PERIOD)
    frozen.signal(signal.SIGSTOP)
    os.waitpid(frozen.pid, os.WUNTRACED)
    stopped = now_ms()
    time.sleep(3 * MAX_LATE)
    woken = now_ms()
    frozen.thaw()
    instances.wait_until(lambda: started(frozen, woken))
    mine = [line for line in instances.log.lines("tick") if line.pid == frozen.pid]
    assert [n for n in mine if stopped < n.slot < woken - MAX_LATE * 1000] == []
    assert [n for n in mine if n.wall * 1000 - n.slot > (MAX_LATE + TOLERANCE) * 1000] == []
    assert frozen.said("error") == []
    if others:
        slots = slots_between(before, before + 12 * PERIOD, PERIOD)
        instances.wait_until(lambda: slots[-1] in instances.log.slots("tick"), LIMIT)
        assert set(slots) <= set(instances.log.slots("tick"))


def warned(instance: Instance, text: str) -> int:
    """Return how often an instance has warned of something."""
    return sum(text in line["text"] for line in instance.said("log", level="WARNING"))


@pytest.mark.slow
def test_hosts_whose_clock_is_an_hour_off_run_nothing_early_and_nothing_late(
    instances: Instances, store: LockDirectory
) -> None:
    ahead = instances.spawn(TICKING, **off_by(HOUR))
    behind = instances.spawn(TICKING, **off_by(-HOUR))
    right = instances.spawn(TICKING)
    for instance in instances.all:
        instance.wait_for("up")
    since = now_ms()
    instances.wait_until(lambda: len(started(right, since)) >= 6)
    behind.wait_for("skip", reason="late")
    for instance in (ahead, behind):
        assert started(instance) == []
        assert instance.said("error") == []
        assert warned(instance, "the clock of this host") == 1  # at the start
    instances.wait_until(lambda: warned(ahead, "ahead of the store's"))
    assert warned(ahead, "ahead of the store's") == 1
    # Everything that was run was run by the one that knows the time.
    assert {line.pid for line in instances.log.lines("tick")} == {right.pid}
