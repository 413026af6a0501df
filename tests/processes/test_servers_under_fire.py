"""A server that dies, restarts or hangs in the middle of a thousand runs a second."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from support.instances import TOLERANCE, Instances
from support.postgres_server import own_server
from support.run_log import slots_between
from support.servers import started_redis

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


class Server(Protocol):
    """What a test does to a server."""

    url: str

    def kill(self) -> None:
        """Let it die without a word."""

    def restart(self) -> None:
        """Start it again."""

    def hang(self, seconds: float) -> None:
        """Have it do nothing for a while."""


class Postgres:
    def __init__(self, server: Any) -> None:
        self._server = server
        self.url = f"{server.url}&schema=jobs"
        self.kill = server.kill
        self.restart = server.start

    def hang(self, seconds: float) -> None:
        with self._server.frozen():
            time.sleep(seconds)


class Valkey:
    def __init__(self) -> None:
        self._server = started_redis()
        self.url = str(self._server.connection_url)
        self.restart = self._server.start

    def kill(self) -> None:
        os.kill(self._server._process.pid, signal.SIGKILL)
        self._server.terminate()

    def hang(self, seconds: float) -> None:
        os.kill(self._server._process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self._server._process.pid, signal.SIGCONT)


@contextmanager
def postgres() -> Iterator[Server]:
    with own_server() as server:
        yield Postgres(server)


@contextmanager
def valkey() -> Iterator[Server]:
    server = Valkey()
    yield server
    server.kill()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["killed", "hangs"])
@pytest.mark.parametrize("make", [postgres, valkey], ids=["postgres", "valkey"])
def test_nothing_is_lost_and_nothing_is_run_twice(
    tmp_path: Path, make: Callable[[], Any], fault: str
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
                server.restart()
            else:
                server.hang(HANGS)
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
