"""Many jobs: due at once in several instances, and armed in one."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.instances import Instances, instances_on_every_store, spawned_instances
from support.requirements import require
from support.run_log import slots_between

instances = spawned_instances
everywhere = instances_on_every_store

SECOND = 1000
MAX_LATE = 5.0

DUE_AT_ONCE = """
scheduler = new_scheduler()
scheduler.every("tick", "1s", note)

def due(slot, count):
    for n in range(count):
        scheduler.add(f"job-{n}", Once(slot), note, catch_up="1m")
    return len(scheduler.history())  # by then the store has answered for all of them

serve(scheduler)
"""


@pytest.mark.parametrize(
    ("processes", "jobs", "lead"),
    [(2, 200, 1), (4, 1000, 8)],
)
@pytest.mark.slow
def test_jobs_due_at_the_same_second_run_once_each_and_in_time(
    everywhere: Instances, processes: int, jobs: int, lead: int
) -> None:
    for _ in range(processes):
        everywhere.spawn(DUE_AT_ONCE, TEST_STORE=everywhere.durable_url)
    for instance in everywhere.all:
        instance.wait_for("up")
    slot = (round(time.time()) + lead) * SECOND
    for instance in everywhere.all:
        instance.tell(f"due({slot}, {jobs})")
    everywhere.wait_until(
        lambda: len(everywhere.log.lines()) - len(everywhere.log.lines("tick")) >= jobs
    )
    everywhere.wait_until(lambda: everywhere.log.slots("tick")[-1] > slot)

    done = [line for line in everywhere.log.lines() if line.job != "tick"]
    assert len(done) == len({line.job for line in done}) == jobs
    lateness = max(line.wall - line.slot / SECOND for line in done)
    print(f"the last of {jobs} began {lateness:.2f} s after the slot, by {processes} processes")
    assert lateness <= MAX_LATE
    assert everywhere.log.doubles() == []
    ticks = everywhere.log.slots("tick")
    assert ticks == slots_between(ticks[0], ticks[-1], SECOND)
    for instance in everywhere.all:
        assert instance.said("error", "failure", "interrupted") == []
        assert instance.said("skip", reason="late") == []


ARMED = """
import os, threading
scheduler = new_scheduler()

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def threads():
    return sum(thread.name.startswith("leasecron") for thread in threading.enumerate())

def arm(count, day, month):
    for n in range(count):
        scheduler.cron(f"job-{n}", f"{n % 60} {n % 24} {day} {month} *", note)
    return len(scheduler.history())  # by then the store has answered for all of them

def disarm(count):
    for n in range(count):
        scheduler.remove(f"job-{n}")

def arm_and_disarm(rounds, count, day, month):
    for _ in range(rounds):
        arm(count, day, month)
        disarm(count)

serve(scheduler)
"""


def tomorrow() -> str:
    """Return the day and the month, as arguments."""
    date = datetime.now(UTC) + timedelta(days=1)
    return f"{date.day}, {date.month}"


def require_proc() -> None:
    require(Path("/proc/self/statm").exists(), "the memory of a process is read from /proc")


def test_two_thousand_armed_jobs_cost_no_thread_and_little_memory(instances: Instances) -> None:
    require_proc()
    (instance,) = instances.spawn_all(1, ARMED)
    instance.ask(f"arm(10, {tomorrow()})")
    instance.ask("disarm(10)")
    before = instance.ask("resident()")
    instance.ask(f"arm(2000, {tomorrow()})")
    grown = instance.ask("resident()") - before
    print(f"grown by {grown:.1f} MB, {instance.ask('threads()')} threads")
    assert grown < 30
    assert instance.ask("threads()") <= 5


@pytest.mark.slow
def test_a_hundred_thousand_jobs_come_and_go_without_a_trace(instances: Instances) -> None:
    require_proc()
    (instance,) = instances.spawn_all(1, ARMED)
    instance.ask(f"arm_and_disarm(20, 500, {tomorrow()})")
    before = instance.ask("resident()")
    instance.ask(f"arm_and_disarm(200, 500, {tomorrow()})", limit=110.0)
    grown = instance.ask("resident()") - before
    print(f"grown by {grown:.1f} MB")
    assert grown <= 5
    assert instance.ask("threads()") <= 5
