"""A server that dies, restarts or hangs in the middle of a thousand runs a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from support.instances import TOLERANCE, Instances
from support.own_servers import AnyServer
from support.postgres_server import own_server
from support.run_log import slots_between
from support.valkey_server import own_valkey

pytestmark = pytest.mark.slow

JOBS = 1000
SECOND = 1000
HANGS = 3.0
BACK = 5.0
"""Seconds after which the rate is what it was."""

PROGRAM = f"""
import logging
from leasecron import JobOptions, Scheduler
logging.getLogger("leasecron").addHandler(logging.NullHandler())
options = JobOptions(lease="10s", heartbeat="2s", jitter=0, max_late="20s")
scheduler = Scheduler(store, defaults=options)
for n in range({JOBS}):
    scheduler.every(f"job-{{n}}", "1s", note, overlap="allow")
serve(scheduler)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["killed", "hangs"])
@pytest.mark.parametrize("make", [own_server, own_valkey], ids=["postgres", "valkey"])
def test_nothing_is_lost_and_nothing_is_run_twice(
    tmp_path: Path, make: Callable[[], AbstractContextManager[AnyServer]], fault: str
) -> None:
    with make() as server:
        instances = Instances(tmp_path)
        instances.url = server.url
        try:
            instances.spawn_all(2, PROGRAM)
            began = newest_slot(instances, after=0)
            newest_slot(instances, after=began + 3 * SECOND)
            if fault == "killed":
                server.kill()
                server.start()
            else:
                with server.frozen():
                    time.sleep(HANGS)
            back = time.time()
            last = round(back + BACK + 5) * SECOND
            instances.wait_until(lambda: len(slots_of_all(instances, last)) == JOBS)
            check(instances, began + SECOND, last, back)
        finally:
            instances.reap()


def newest_slot(instances: Instances, *, after: int) -> int:
    """Wait for a slot after a moment; return it."""

    def newest() -> int | None:
        lines = instances.log.lines()
        latest = max((line.slot for line in lines), default=0)
        return latest if latest > after else None

    found = instances.wait_until(newest)
    assert found is not None
    return found


def slots_of_all(instances: Instances, slot: int) -> set[str]:
    return {line.job for line in instances.log.lines() if line.slot == slot}


def check(instances: Instances, first: int, last: int, back: float) -> None:
    assert instances.log.doubles() == []
    slots: dict[str, list[int]] = {f"job-{n}": [] for n in range(JOBS)}
    lines = instances.log.lines()
    for line in lines:
        if first <= line.slot <= last:
            slots[line.job].append(line.slot)
    expected = slots_between(first, last, SECOND)
    assert [job for job, its in slots.items() if sorted(its) != expected] == []
    late = max(line.wall - line.slot / SECOND for line in lines)
    after = [line for line in lines if line.slot >= (back + BACK) * SECOND and line.slot <= last]
    late_after = max(line.wall - line.slot / SECOND for line in after)
    print(f"{late:.2f} s late at most, {late_after:.2f} s after it was back for {BACK:g} s")
    assert late_after <= TOLERANCE
