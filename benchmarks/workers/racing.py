"""An instance with a scheduler, whose jobs are due at the same slot as everybody else's."""

from __future__ import annotations

from benchmarks.schedules import OneSlot
from benchmarks.workers import child
from benchmarks.workers.watched import Watched
from leasecron import Event, Scheduler
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.clock import SystemClock
from leasecron.model import from_ms

_LIMIT = 60.0


def main() -> None:
    """Race at each slot that is told, with a scheduler of its own each time."""
    given = child.arguments()
    child.say(ready=True)
    for order in child.told():
        _race(given["store"], given["jobs"], order["slot"])


def _race(store: str, jobs: int, slot: int) -> None:
    clock = SystemClock()
    ended = clock.waker()
    watched = Watched(SqliteBackend(store))
    scheduler = Scheduler(watched, max_running=jobs, clock=clock)

    def note(event: Event) -> None:
        if event.name in {"success", "skip"}:  # each job ends in one of the two, in each instance
            ended.put(event.name)

    scheduler.on("*", note)
    for number in range(jobs):
        scheduler.add(
            f"job-{slot}-{number}", OneSlot(from_ms(slot)), _nothing, jitter=0, catch_up="1m"
        )
    scheduler.start()
    child.say(armed=True)
    won = sum(ended.get(_LIMIT) == "success" for _ in range(jobs))
    scheduler.stop()
    spent = {name: each.processor for name, each in watched.spent.items()}
    child.say(won=won, claim=spent["claim"], store=sum(spent.values()))


def _nothing() -> None:
    """An empty handler."""


if __name__ == "__main__":
    main()
