"""One instance of the demo, in a process of its own: a real scheduler on the shared store.

Started as ``python -m leasecron.cli.demo_instance STORE NAME``. Its standard output carries
messages, its standard input the cron expression of the long job; the end of its input means that
the process that started it is gone, and ends it too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.cli import demo_plan as plan
from leasecron.cli.demo_messages import Message, encode
from leasecron.context import RunContext
from leasecron.events import (
    Event,
    RunFailed,
    RunInterrupted,
    RunSkipped,
    RunStarted,
    RunSucceeded,
    StoreFailed,
)
from leasecron.model import HeartbeatAnswer, LeaseRef, to_ms
from leasecron.options import JobOptions
from leasecron.scheduler import Scheduler

_INPUT, _OUTPUT = 0, 1


class Reporter:
    """Writes messages to standard output, each in one call: lines of two threads never mix."""

    def __init__(self, name: str) -> None:
        self._name = name

    def ready(self) -> None:
        """Tell that the scheduler has started."""
        self._send(Message(instance=self._name, kind="ready", detail=f"pid {os.getpid()}"))

    def called(self, ctx: RunContext) -> None:
        """Tell that a handler is called."""
        slot_ms = to_ms(ctx.slot)
        self._send(
            Message(
                instance=self._name, kind="call", job=ctx.job, slot_ms=slot_ms, attempt=ctx.attempt
            )
        )

    def heartbeat(self, lease: LeaseRef, answer: HeartbeatAnswer) -> None:
        """Tell what the store said to a heartbeat."""
        slot_ms = to_ms(lease.slot)
        self._send(
            Message(
                instance=self._name,
                kind="heartbeat",
                job=lease.job,
                slot_ms=slot_ms,
                detail=answer,
            )
        )

    def event(self, event: Event) -> None:
        """Tell of an event of the scheduler."""
        attempt, holder, detail = _facts(event)
        self._send(
            Message(
                instance=self._name,
                kind=event.name,
                job=event.job or "",
                slot_ms=to_ms(event.slot) if event.slot is not None else 0,
                attempt=attempt,
                holder=holder,
                detail=detail,
            )
        )

    @staticmethod
    def _send(message: Message) -> None:
        os.write(_OUTPUT, encode(message))


class ReportingBackend(SqliteBackend):
    """The SQLite store, telling of each heartbeat: those are no events of a scheduler."""

    def __init__(self, path: Path, reporter: Reporter) -> None:
        super().__init__(path)
        self._reporter = reporter

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        """Renew leases, and tell."""
        answers = super().heartbeat(leases)
        for lease, answer in zip(leases, answers, strict=True):
            self._reporter.heartbeat(lease, answer)
        return answers


def _facts(event: Event) -> tuple[int, str, str]:
    """Return the attempt, the holder and the detail of an event, as far as it has them."""
    match event:
        case RunStarted():
            return event.attempt, "", event.trigger
        case RunSucceeded():
            return event.result.attempt, "", f"{event.result.duration:.2f} s"
        case RunFailed():
            return event.result.attempt, "", event.result.error or ""
        case RunInterrupted():
            return event.result.attempt, "", event.reason
        case RunSkipped():
            return 0, event.holder or "", event.reason
        case StoreFailed():
            return 0, "", f"{event.operation}: {event.exception}"


def build(store: Path, name: str, reporter: Reporter) -> Scheduler:
    """Return the scheduler of an instance with the jobs that it has from the start."""
    scheduler = Scheduler(
        ReportingBackend(store, reporter), instance=name, defaults=JobOptions(lease=plan.LEASE)
    )

    @scheduler.every(plan.TICK, plan.TICK_INTERVAL)
    def tick(ctx: RunContext) -> None:
        reporter.called(ctx)
        ctx.sleep(plan.TICK_WORK)

    @scheduler.cron(plan.REPORT, plan.REPORT_EXPRESSION)
    def report(ctx: RunContext) -> None:
        reporter.called(ctx)
        ctx.sleep(plan.REPORT_WORK)

    scheduler.on("*", reporter.event)
    return scheduler


def add_export(scheduler: Scheduler, expression: str, reporter: Reporter) -> None:
    """Declare the long job."""

    @scheduler.cron(plan.EXPORT, expression)
    def export(ctx: RunContext) -> None:
        reporter.called(ctx)
        ctx.sleep(plan.EXPORT_WORK)


def follow_parent(scheduler: Scheduler, reporter: Reporter) -> None:
    """Take orders from standard input, and end the process when there is nobody to give any."""
    # Unbuffered, because a thread that waits inside sys.stdin holds its lock, and the interpreter
    # cannot end without that.
    with open(_INPUT, "rb", buffering=0, closefd=False) as orders:
        for line in orders:
            add_export(scheduler, line.decode().strip(), reporter)
    os.kill(os.getpid(), signal.SIGTERM)


def main(store: str, name: str) -> int:
    """Run until told to stop; 0 when everything had ended by then."""
    reporter = Reporter(name)
    scheduler = build(Path(store), name, reporter)
    scheduler.start()
    reporter.ready()
    threading.Thread(
        target=follow_parent, args=(scheduler, reporter), name="demo-orders", daemon=True
    ).start()
    return 0 if scheduler.run(timeout=5.0) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
