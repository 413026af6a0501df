"""Many instances in one process that stand by for the live runs of another one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from benchmarks.schedules import OneSlot
from benchmarks.workers import child
from benchmarks.workers.watched import Watched
from leasecron import Scheduler
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.model import from_ms

_CHECKS = ("claim", "unfinished")
"""The calls of the store by which a backup looks after a run."""

_SETTLED = 3.0
"""Heartbeats after which every instance has checked at least once."""


def main() -> None:
    """Stand by, and say how often the store was called for that as long as it is asked."""
    given = child.arguments()
    stores = [Watched(SqliteBackend(given["store"])) for _ in range(given["instances"])]
    schedulers = [_scheduler(store, given) for store in stores]
    for scheduler in schedulers:
        scheduler.start()
    child.wait_until(time.monotonic() + _SETTLED * given["heartbeat"])
    child.say(ready=True)
    for order in child.told():
        child.say(**_look(stores, order["seconds"]))


def _scheduler(store: Watched, given: dict[str, Any]) -> Scheduler:
    scheduler = Scheduler(store, max_running=len(given["names"]))
    for name in given["names"]:
        scheduler.add(
            name,
            OneSlot(from_ms(given["slot"])),
            _nothing,
            lease=given["lease"],
            heartbeat=given["heartbeat"],
        )
    return scheduler


def _look(stores: Iterable[Watched], seconds: float) -> dict[str, float]:
    before = _checks(stores)
    spent = child.wait_and_count(seconds)
    after = _checks(stores)
    return {"calls": after[0] - before[0], "items": after[1] - before[1], **spent}


def _checks(stores: Iterable[Watched]) -> tuple[int, int]:
    spent = [store.spent[name] for store in stores for name in _CHECKS]
    return sum(each.calls for each in spent), sum(each.items for each in spent)


def _nothing() -> None:
    """An empty handler, for runs that nobody takes over here."""


if __name__ == "__main__":
    main()
