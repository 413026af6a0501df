"""A holder that dies or freezes: when the next attempt begins, and what the first one learns."""

import time
from typing import Any

import pytest
from support.held_run import HEARTBEAT, LEASE, begin, check_second_attempt_won
from support.instances import TOLERANCE, Instance, Instances, instances_on_every_store

instances = instances_on_every_store

# Attempt 1 says when it is told to end; each attempt ends when the test opens its gate.
GATED = """
import os
scheduler = new_scheduler()

def work(ctx):
    note(ctx)
    if ctx.attempt == 1:
        ctx.signal.wait(60)
        say("told", reason=ctx.signal.reason)
    gates["job"].wait(60)
    if os.environ.get("RAISES"):
        ctx.signal.raise_if_set()

def due(slot):
    scheduler.add("job", Once(slot), work, catch_up="1m")

serve(scheduler)
"""


def check_takeover(backup: Instance, since: float) -> None:
    """Wait for attempt 2, which begins within the promised time."""
    taken = backup.wait_for("start", attempt=2, trigger="takeover")["monotonic"] - since
    print(f"taken over after {taken:.2f} s")
    assert taken <= LEASE + 2 * HEARTBEAT + TOLERANCE


def what_is_stored(instances: Instances) -> list[dict[str, Any]]:
    """Return all that the store says of the job, but for how long its lease is good."""
    runs = instances.store.runs("job")
    for run in runs:
        run.pop("lease_mono", None)
        del run["lease_until"]
    return runs + instances.store.results("job")


def test_a_killed_holder_is_replaced_in_time(instances: Instances) -> None:
    instances.spawn_all(2, GATED)
    holder, backup = begin(instances)
    check_takeover(backup, holder.kill())
    backup.ask("gates['job'].set()")
    backup.wait_for("success", attempt=2)
    check_second_attempt_won(instances)


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(4))
def test_a_killed_holder_is_replaced_within_lease_and_two_heartbeats(
    instances: Instances, moment: int
) -> None:
    instances.spawn_all(2, GATED)
    holder, backup = begin(instances)
    time.sleep(moment * HEARTBEAT / 4)  # between two heartbeats
    check_takeover(backup, holder.kill())


@pytest.mark.slow
@pytest.mark.parametrize("raises", ["", "1"])
def test_a_frozen_holder_that_wakes_after_the_end_changes_nothing(
    instances: Instances, raises: str
) -> None:
    instances.spawn_all(2, GATED, RAISES=raises)
    holder, backup = begin(instances)
    holder.freeze(instances.store)
    check_takeover(backup, time.monotonic())
    backup.ask("gates['job'].set()")
    backup.wait_for("success", attempt=2)

    before = what_is_stored(instances)
    wake_and_end(holder)
    assert what_is_stored(instances) == before
    check_second_attempt_won(instances)


@pytest.mark.slow
@pytest.mark.parametrize("raises", ["", "1"])
def test_a_frozen_holder_that_wakes_during_the_takeover_changes_nothing(
    instances: Instances, raises: str
) -> None:
    instances.spawn_all(2, GATED, RAISES=raises)
    holder, backup = begin(instances)
    holder.freeze(instances.store)
    check_takeover(backup, time.monotonic())

    before = what_is_stored(instances)
    wake_and_end(holder)
    assert what_is_stored(instances) == before
    backup.ask("gates['job'].set()")
    backup.wait_for("success", attempt=2)
    check_second_attempt_won(instances)


def wake_and_end(holder: Instance) -> None:
    """Let a holder that has lost its lease go on; it learns of the loss and tells of it."""
    woken = time.monotonic()
    holder.thaw()
    told = holder.wait_for("told")
    assert told["reason"] in ("takeover", "lease-lost")
    assert told["monotonic"] - woken <= HEARTBEAT + TOLERANCE
    holder.ask("gates['job'].set()")
    ended = holder.wait_for("interrupted")
    assert ended["reason"] in ("takeover", "lease-lost")
    assert holder.said("success", "failure", "error") == []


ONE_ATTEMPT = """
import time
scheduler = new_scheduler()

def work(ctx):
    note(ctx)
    if gates["hang"].is_set():
        say("hung", slot=ctx.slot.timestamp() * 1000)
        time.sleep(60)

scheduler.every("tick", "1s", work, max_attempts=1)
serve(scheduler)
"""


@pytest.mark.slow
def test_a_run_with_a_single_attempt_is_not_repeated_and_blocks_nothing(
    instances: Instances,
) -> None:
    instances.spawn_all(2, ONE_ATTEMPT)
    for instance in instances.all:
        instance.ask("gates['hang'].set()")
    (holder,) = instances.wait_until(lambda: [i for i in instances.all if i.said("hung")])
    (survivor,) = [instance for instance in instances.all if instance is not holder]
    survivor.ask("gates['hang'].clear()")
    hung = holder.said("hung")[0]["slot"]
    survivor.wait_for("skip", reason="overlap")
    holder.kill()
    over = (time.time() + LEASE + TOLERANCE) * 1000

    def later() -> list[int]:
        return [report["slot"] for report in survivor.said("start") if report["slot"] > over]

    instances.wait_until(lambda: len(later()) >= 3)
    started = later()
    assert started[:3] == [started[0] + 1000 * n for n in range(3)]
    assert started[0] < over + 2000
    assert [r for r in survivor.said("skip", reason="overlap") if r["slot"] > over] == []
    assert instances.log.doubles() == []
    run = next(run for run in instances.store.runs("tick") if run["slot"] == hung)
    assert run["state"] in ("abandoned", "replaced")
    results = [row for row in instances.store.results("tick") if row["slot"] == hung]
    assert [(row["attempt"], row["status"]) for row in results] == [(1, "lost")]
