"""Running one job or one handler in a test."""

from __future__ import annotations

import contextlib
import queue
from datetime import UTC, datetime
from typing import Any

from leasecron.backends.memory.backend import MemoryBackend
from leasecron.clock import SystemClock
from leasecron.context import AbortSignal, RunContext
from leasecron.engine import Engine
from leasecron.errors import ConfigurationError
from leasecron.events import Event, EventBus, RunFailed, RunInterrupted, RunSucceeded
from leasecron.jobs import DeclaredJob
from leasecron.logs import EventLog
from leasecron.model import RunResult, from_ms, from_seconds, to_ms
from leasecron.scheduler import Scheduler


def make_context(**fields: Any) -> RunContext:
    """Return a context for calling a handler directly; every field can be given.

    ``ctx.signal.set("stop")`` tells the handler to end.
    """
    defaults: dict[str, Any] = {
        "job": "job",
        "slot": datetime(2026, 1, 1, tzinfo=UTC),
        "attempt": 1,
        "fence": 1,
        "token": "token",
        "instance": "test",
        "trigger": "manual",
        "lateness": 0.0,
    }
    if "signal" not in fields:
        defaults["signal"] = AbortSignal(SystemClock())
    return RunContext(**{**defaults, **fields})


def run_once(scheduler: Scheduler, name: str, slot: datetime | None = None) -> RunResult:
    """Run one declared job here and now, for ``slot`` or for this moment; return its result.

    It goes through the whole path of a run, with its timeout, on a memory store of its own: the
    scheduler's store is not touched, its listeners hear nothing, and it need not be started.
    A handler that raises gives a result with status ``failed``.
    """
    job = scheduler.declared(name)
    clock = scheduler.clock
    if slot is None:
        slot = from_seconds(clock.wall())
    elif not isinstance(slot, datetime) or slot.utcoffset() is None:
        raise ConfigurationError(f"job {name!r}: slot is {slot!r}; right is an aware datetime")
    slot = from_ms(to_ms(slot))
    ended = clock.waker()
    bus = EventBus(clock, lambda: scheduler.instance, EventLog(clock))
    for event in ("success", "failure", "interrupted", "skip", "error"):
        bus.on(event, ended.put)
    engine = Engine(MemoryBackend(), clock, bus, 1, _never)
    engine.start([])
    try:
        engine.timers.post(engine.runner.run, job, slot, "manual")
        return _result(ended.get())
    finally:
        stopped = clock.waker()
        engine.stop(stopped)
        with contextlib.suppress(queue.Empty):
            stopped.get(1.0)  # a handler that ignores its timeout is left alone


def _result(event: Event) -> RunResult:
    if isinstance(event, (RunSucceeded, RunFailed, RunInterrupted)):
        return event.result
    raise AssertionError(f"the run did not come to its end: {event}")


def _never(_job: DeclaredJob, _slot: datetime) -> None:
    """Nothing is armed here."""
