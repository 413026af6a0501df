"""Timeouts, leases and waits that are longer than any machine is up."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from fake_instances import Instances

from leasecron import RunContext, Scheduler
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.testing import EventRecorder

DAY = timedelta(days=1)


def test_a_timeout_of_100_days_passes_after_100_days(instances: Instances) -> None:
    scheduler = instances.new()
    scheduler.every("job", "300d", instances.handler(busy=1e10), timeout="100d", lease="250d")
    scheduler.start()
    instances.clock.settle()
    slot = scheduler.jobs["job"].next_slot
    assert slot is not None
    passed = slot - instances.clock.now()
    instances.clock.jump(wall=passed, monotonic=passed)
    instances.clock.advance(1)
    assert instances.slots() == [slot]
    instances.clock.jump(wall=99.9 * DAY, monotonic=99.9 * DAY)
    instances.clock.advance(61)
    assert instances.events("failure") == []
    instances.clock.jump(wall=0.2 * DAY, monotonic=0.2 * DAY)
    instances.clock.advance(61)
    (failure,) = instances.events("failure")
    assert isinstance(failure.exception, TimeoutError)


@pytest.mark.parametrize("lease", ["60d", "365d", "3650d"])
def test_a_lease_of_months_is_kept_over_months(instances: Instances, lease: str) -> None:
    for _ in range(2):
        scheduler = instances.new()
        scheduler.every("job", "10m", instances.handler(busy=3600 * 24 * 40), lease=lease)
        scheduler.start()
    instances.clock.advance(601)
    for _ in range(4):
        instances.clock.jump(wall=9 * DAY, monotonic=9 * DAY)
        instances.clock.advance(61)
    assert len(instances.calls) == 1
    assert instances.events("success") == []
    instances.clock.jump(wall=9 * DAY, monotonic=9 * DAY)
    instances.clock.advance(61)
    assert len(instances.events("success")) == 1


def naps(ctx: RunContext) -> None:
    ctx.sleep(1e10)


def sleeps_for_ever(ctx: RunContext) -> None:
    ctx.sleep(math.inf)


def waits(ctx: RunContext) -> None:
    ctx.signal.wait(1e300)


def waits_for_ever(ctx: RunContext) -> None:
    ctx.signal.wait()


@pytest.mark.parametrize("timeout", [1e10, 1e300, math.inf, None])
@pytest.mark.parametrize("handler", [naps, sleeps_for_ever, waits, waits_for_ever])
def test_a_stop_may_wait_for_ever_and_ends_when_the_handlers_do(
    timeout: float | None, handler: Callable[[RunContext], None]
) -> None:
    before = set(threading.enumerate())
    scheduler = Scheduler(MemoryBackend())
    scheduler.every("job", "20ms", handler, timeout="100d", lease="60d", jitter=0)
    recorder = EventRecorder(scheduler)
    scheduler.start()
    recorder.wait_for("start")
    assert scheduler.stop(timeout)
    assert [event.name for event in recorder.of("error")] == []
    assert recorder.of("failure") == []
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()
