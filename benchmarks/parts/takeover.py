"""Takeover: from the SIGKILL of a holder to the start of the next attempt.

Five holders at a time, each a process with one run, and one backup for all of them. Each is killed
at a random moment between two of its heartbeats. The time is taken by the clock that all processes
of the machine share: in the parent just before the kill, and in the backup's handler. One kill is
one value: the lowest, the median and the highest are those of all kills.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks.measuring import Figure, Measured, Settings
from benchmarks.workers.process import Worker

LEASE, HEARTBEAT = 2.0, 0.5
SIDE_BY_SIDE = 5
KILLS = 50
_TOLERANCE = 0.3
_SETTLED = 3 * HEARTBEAT
_OPTIONS = {"lease": LEASE, "heartbeat": HEARTBEAT}


def measure(settings: Settings) -> Measured:
    """Kill, after a first batch for warm-up."""
    batches = max(1, settings.count(KILLS) // SIDE_BY_SIDE)
    took: list[float] = []
    early = 0
    with settings.store("takeover") as folder:
        store = f"{folder}/takeover.db"
        with Worker("taking", store=store, **_OPTIONS) as backup:
            backup.hear()
            for number in range(batches + 1):
                settings.progress(f"kills {number * SIDE_BY_SIDE} of {batches * SIDE_BY_SIDE}")
                seconds = _batch(store, number, backup)
                if number:
                    took += [each for each in seconds if each > 0]
                    early += sum(each <= 0 for each in seconds)
    return Measured(tuple(_figures(took)), notes=_notes(early))


def _batch(store: str, number: int, backup: Worker) -> list[float]:
    """Return the seconds of each kill; below 0 for a run that was taken over before it."""
    with ExitStack() as stack:
        holders: dict[str, Worker] = {}
        for place in range(SIDE_BY_SIDE):
            name = f"job-{number}-{place}"
            holder = Worker("holding", store=store, names=[name], **_OPTIONS)
            holders[name] = stack.enter_context(holder)
        slots = {name: holder.hear()["slot"] for name, holder in holders.items()}
        backup.ask(slots=slots)
        time.sleep(_SETTLED)
        killed = {name: _kill(holder) for name, holder in holders.items()}
        begun = [backup.hear() for _ in holders]
    return [said["at"] - killed[said["job"]] for said in begun]


def _kill(holder: Worker) -> float:
    time.sleep(random.uniform(0, HEARTBEAT))
    return holder.kill()


def _figures(took: Sequence[float]) -> Iterator[Figure]:
    what = f"lease {LEASE:g} s, heartbeat {HEARTBEAT:g} s, {len(took)} kills"
    if took:
        most, longest = LEASE + 1.5 * HEARTBEAT, LEASE + 2 * HEARTBEAT + _TOLERANCE
        yield Figure(f"{what}: next attempt after", "s", tuple(took), at_most=most)
        yield Figure(f"{what}: the longest", "s", (max(took),), at_most=longest)


def _notes(early: int) -> tuple[str, ...]:
    if not early:
        return ()
    return (f"{early} more runs were taken over before their kill: the store stalled for a lease",)
