"""Heartbeats under load: of stubborn, busy, many and very short runs."""

import signal
import time

import pytest
from support.held_run import begin, check_second_attempt_won, statuses
from support.instances import Instances, instances_on_every_store

instances = instances_on_every_store


def program(body: str, more: str = "") -> str:
    """Return a program with one job, which is added with ``due(slot)``, and its handler's body."""
    return f"""
import ctypes, signal, threading, time
scheduler = new_scheduler()

def work(ctx):
    note(ctx)
    {body}

def due(slot):
    scheduler.add("job", Once(slot), work, catch_up="1m")
{more}
serve(scheduler)
"""


STOP_ON_SIGTERM = """
signal.signal(signal.SIGTERM, lambda *_: say("stopped", clean=scheduler.stop(timeout=10)))
"""


@pytest.mark.slow
def test_heartbeats_go_on_while_a_stop_waits_for_a_handler_that_ignores_it(
    instances: Instances,
) -> None:
    instances.spawn_all(2, program("time.sleep(6)", STOP_ON_SIGTERM))
    holder, backup = begin(instances)
    holder.signal(signal.SIGTERM)
    assert holder.wait_for("stopped")["clean"] is True
    holder.wait_for("success", attempt=1)
    assert [line.pid for line in instances.log.lines()] == [holder.pid]
    assert statuses(instances) == [(1, "success")]
    assert backup.said("start") == []


BUSY = """
    end = time.monotonic() + 10
    while time.monotonic() < end:
        pass
"""


@pytest.mark.slow
def test_a_busy_handler_does_not_starve_its_heartbeats(instances: Instances) -> None:
    instances.spawn_all(2, program(BUSY.strip()))
    holder, backup = begin(instances)
    holder.wait_for("success", attempt=1)
    assert [line.attempt for line in instances.log.lines()] == [1]
    assert statuses(instances) == [(1, "success")]
    assert backup.said("start") == []


@pytest.mark.slow
def test_a_handler_that_stops_the_interpreter_for_longer_than_its_lease_loses_its_run(
    instances: Instances,
) -> None:
    # C code that keeps the interpreter's lock: no thread of the process can send a heartbeat.
    keeps_the_lock = "ctx.attempt == 1 and ctypes.PyDLL(None).sleep(6)"
    first, second = instances.spawn_all(2, program(keeps_the_lock))
    slot = round(time.time() * 1000) + 300
    for instance in (first, second):
        instance.tell(f"due({slot})")
    instances.wait_until(lambda: any(i.said("success", attempt=2) for i in instances.all))
    loser = instances.wait_until(
        lambda: [i for i in (first, second) if i.said("interrupted", attempt=1)]
    )[0]
    assert loser.said("success") == []
    check_second_attempt_won(instances)


MANY_AT_ONCE = """
import threading
scheduler = new_scheduler()

def work(ctx):
    note(ctx)
    ctx.sleep(20)

def due(slot, count):
    for n in range(count):
        scheduler.add(f"job-{n}", Once(slot), work, catch_up="1m")

def threads():
    return sum(thread.name.startswith("leasecron") for thread in threading.enumerate())

serve(scheduler)
"""


@pytest.mark.slow
def test_a_hundred_runs_at_once_keep_their_leases(instances: Instances) -> None:
    # Each lasts ten times its lease.
    (holder,) = instances.spawn_all(1, MANY_AT_ONCE)
    slot = round(time.time() * 1000) + 300
    holder.ask(f"due({slot}, 100)")
    instances.wait_until(lambda: len(holder.said("start")) == 100)
    (backup,) = instances.spawn_all(1, MANY_AT_ONCE)
    backup.ask(f"due({slot}, 100)")
    assert holder.ask("threads()") <= 110
    instances.wait_until(lambda: len(holder.said("success")) == 100)
    assert backup.said("start", "error") == []
    assert holder.said("interrupted", "failure", "error") == []
    assert len(instances.log.lines()) == 100


SHORT_RUNS = """
import time
scheduler = new_scheduler()

def work(ctx):
    note(ctx)
    time.sleep(0.001)

for n in range(20):
    scheduler.every(
        f"job-{n}", "50ms", work, lease="1s", heartbeat="5ms", max_late="1m", overlap="allow"
    )
serve(scheduler)
"""


@pytest.mark.slow
def test_ten_thousand_short_runs_lose_no_lease_and_warn_of_nothing(instances: Instances) -> None:
    both = instances.spawn_all(2, SHORT_RUNS)
    instances.wait_until(lambda: sum(len(i.said("success")) for i in both) >= 10_000, 110.0)
    for instance in both:
        assert instance.ask("scheduler.stop(30)") is True
        assert instance.end() == 0
        assert len(instance.said("start")) == len(instance.said("success"))
        assert instance.said("interrupted", "failure", "error", "log") == []
        assert instance.said("skip", reason="late") == []
    assert instances.log.doubles() == []
