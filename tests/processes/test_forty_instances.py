"""Many instances with many jobs: the calls grow with both, and not with their product."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from support.instances import Instances, instances_on_every_store

pytestmark = pytest.mark.slow

instances = instances_on_every_store

INSTANCES = 40
JOBS = 1000
SLOTS = 3
STEP = 10_000
CLAIMS_AT_A_SLOT = 50
"""Calls that an instance may make for a slot of all jobs, which jitter spreads over five seconds.

It makes some 25; were they not gathered there would be hundreds.
"""

PROGRAM = f"""
import logging
from collections import Counter
from leasecron import JobOptions, Scheduler
from leasecron.backends.urls import backend_for
logging.getLogger("leasecron").addHandler(logging.NullHandler())
backend = backend_for(store)
calls = Counter()

def count(name):
    call = getattr(backend, name)
    def counted(items):
        calls[name] += 1
        return call(items)
    setattr(backend, name, counted)

for name in ("claim", "heartbeat", "finish", "release", "save_results", "unfinished"):
    count(name)
options = JobOptions(lease="30s", heartbeat="15s", max_late="20s", jitter="5s")
scheduler = Scheduler(backend, defaults=options)
for n in range({JOBS}):
    scheduler.every(f"job-{{n}}", "10s", note, overlap="allow")
serve(scheduler)
"""


@pytest.mark.timeout(300)
def test_calls_grow_with_instances_and_runs_but_not_with_their_product(
    instances: Instances,
) -> None:
    for instance in [instances.spawn(PROGRAM) for _ in range(INSTANCES)]:
        instance.wait_for("up", limit=120.0)
    # The slot after the next one: by then each has heard of the others.
    since = (round(time.time() * 1000) // STEP + 2) * STEP
    slots = {since + n * STEP for n in range(SLOTS)}
    instances.wait_until(lambda: time.time() * 1000 > since - STEP / 5)
    before = calls_of(instances)
    instances.wait_until(lambda: runs_of(instances, slots) >= JOBS * SLOTS, limit=120.0)
    instances.wait_until(lambda: time.time() * 1000 > max(slots) + STEP * 4 / 5)
    calls = calls_of(instances)
    calls.subtract(before)
    late = sorted(
        line.wall - line.slot / 1000 for line in instances.log.lines() if line.slot in slots
    )
    print(f"{dict(calls)} for {JOBS * SLOTS} runs of {INSTANCES} instances")
    print(
        f"begun {late[len(late) // 2]:.2f} s after the slot in the median, {late[-1]:.2f} at most"
    )

    assert instances.log.doubles() == []
    assert runs_of(instances, slots) == JOBS * SLOTS
    assert calls["claim"] <= CLAIMS_AT_A_SLOT * INSTANCES * SLOTS
    assert calls.total() <= 2 * CLAIMS_AT_A_SLOT * INSTANCES * SLOTS + JOBS * SLOTS


def calls_of(instances: Instances) -> Counter[str]:
    """Return how often the instances have called their store so far."""
    calls: Counter[str] = Counter()
    for instance in instances.all:
        calls.update(instance.ask("dict(calls)"))
    return calls


def runs_of(instances: Instances, slots: set[int]) -> int:
    return sum(line.slot in slots for line in instances.log.lines())
