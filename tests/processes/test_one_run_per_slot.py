"""Several instances on one store: each slot is run by exactly one of them."""

from itertools import chain, cycle

import pytest
from support.instances import Instance, Instances, instances_on_every_store
from support.run_log import slots_between

instances = instances_on_every_store

SECOND = 1000

EVERY_SECOND = """
scheduler = new_scheduler()
scheduler.every("tick", "1s", note)
serve(scheduler)
"""

WITH_JITTER = """
scheduler = new_scheduler()
scheduler.every("tick", "1s", note, jitter="900ms")
serve(scheduler)
"""

# What reloaders set. A scheduler that guesses from these does not run at all in production.
RELOADERS: list[dict[str, str]] = [
    {"WERKZEUG_RUN_MAIN": "true", "FLASK_DEBUG": "1"},
    {"WERKZEUG_RUN_MAIN": "false", "FLASK_DEBUG": "1"},
    {"FLASK_DEBUG": "1"},
    {},
]


def outcomes(instance: Instance, slot: int) -> list[tuple[str, str | None]]:
    """Return what one instance made of a slot."""
    said = instance.said("start", "skip", "error", job="tick", slot=slot)
    return [(report["what"], report["reason"]) for report in said]


def window(instances: Instances, count: int) -> list[int]:
    """Wait for ``count`` slots in a row that every instance had to decide on; return them."""
    first_seen = [
        instance.wait_for("start", "skip", job="tick")["slot"] for instance in instances.all
    ]
    first = max(first_seen) + SECOND
    slots = slots_between(first, first + (count - 1) * SECOND, SECOND)
    instances.wait_until(
        lambda: all(outcomes(instance, slots[-1]) for instance in instances.all), 60.0 + count
    )
    # An answer may be late, and come after that of a newer slot.
    instances.wait_until(
        lambda: all(outcomes(instance, slot) for instance in instances.all for slot in slots)
    )
    return slots


def check(instances: Instances, slots: list[int]) -> None:
    """Every slot has one line, one start, and a skip as taken from everybody else."""
    others = len(instances.all) - 1
    right = sorted([("start", None), *[("skip", "taken")] * others])
    for slot in slots:
        found = sorted(chain(*(outcomes(instance, slot) for instance in instances.all)))
        assert found == right, f"slot {slot}"
    for instance in instances.all:
        assert instance.ask("scheduler.stop(10)") is True
        assert instance.end() == 0
        assert instance.stderr() == ""
    logged = instances.log.slots("tick")
    assert [slot for slot in logged if slot in range(slots[0], slots[-1] + 1)] == slots
    assert instances.log.doubles() == []
    assert [line for line in instances.log.lines() if line.wall * 1000 < line.slot] == []


def start_all(instances: Instances, count: int, program: str) -> None:
    for _, environment in zip(range(count), cycle(RELOADERS), strict=False):
        instances.spawn(program, TEST_STORE=instances.durable_url, **environment)
    for instance in instances.all:
        instance.wait_for("up")


def test_each_slot_is_run_once_and_skipped_by_all_others(instances: Instances) -> None:
    start_all(instances, 3, EVERY_SECOND)
    check(instances, window(instances, 2))


@pytest.mark.slow
def test_eight_instances_run_each_of_thirty_slots_once(instances: Instances) -> None:
    start_all(instances, 8, EVERY_SECOND)
    check(instances, window(instances, 30))


@pytest.mark.slow
def test_jitter_never_starts_a_run_before_its_slot_nor_twice(instances: Instances) -> None:
    start_all(instances, 3, WITH_JITTER)
    check(instances, window(instances, 60))
