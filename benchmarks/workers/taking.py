"""A backup that says when it begins the second attempt of a run."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.schedules import OneSlot
from benchmarks.workers import child
from leasecron import RunContext, Scheduler
from leasecron.model import from_ms


def main() -> None:
    """Declare the jobs that are told, of runs that others hold."""
    given = child.arguments()
    scheduler = Scheduler(given["store"])
    scheduler.start()
    child.say(ready=True)
    for order in child.told():
        _stand_by(scheduler, order["slots"], given)
        child.say(standing_by=len(order["slots"]))


def _stand_by(scheduler: Scheduler, slots: dict[str, int], given: dict[str, Any]) -> None:
    for name in scheduler.jobs:
        scheduler.remove(name)
    for name, slot in slots.items():
        scheduler.add(
            name,
            OneSlot(from_ms(slot)),
            _begin,
            lease=given["lease"],
            heartbeat=given["heartbeat"],
            jitter=0,
        )


def _begin(context: RunContext) -> None:
    moment = time.monotonic()  # one clock for all processes of a machine
    child.say(job=context.job, attempt=context.attempt, at=moment)


if __name__ == "__main__":
    main()
