"""An instance that holds live runs, whose handlers wait until they are told to end."""

from __future__ import annotations

from benchmarks.schedules import OneSlot
from benchmarks.workers import child
from benchmarks.workers.claims import now_ms
from leasecron import RunContext, Scheduler
from leasecron.clock import SystemClock, Waker
from leasecron.model import from_ms

_AHEAD = 500
_LIMIT = 120.0


def main() -> None:
    """Start the runs, and say what holding them costs for as long as it is asked."""
    given = child.arguments()
    names: list[str] = given["names"]
    clock = SystemClock()
    begun = clock.waker()
    ended: list[str] = []

    def hold(context: RunContext) -> None:
        begun.put(context.job)
        context.signal.wait()
        ended.append(context.job)

    scheduler = Scheduler(given["store"], max_running=len(names), clock=clock)
    slot = now_ms() + _AHEAD + len(names)
    for name in names:
        scheduler.add(
            name,
            OneSlot(from_ms(slot)),
            hold,
            lease=given["lease"],
            heartbeat=given["heartbeat"],
            jitter=0,
            catch_up=_LIMIT,  # on a busy machine the slot may pass before the store knows the job
        )
    scheduler.start()
    _wait_for_all(begun, len(names))
    child.say(slot=slot)
    for order in child.told():
        child.say(ended=len(ended), **child.wait_and_count(order["seconds"]))


def _wait_for_all(begun: Waker, count: int) -> None:
    for _ in range(count):
        begun.get(_LIMIT)


if __name__ == "__main__":
    main()
