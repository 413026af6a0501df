"""Leases: an instance that keeps 1,000 live ones while nothing else happens.

The handlers wait for their signal, so what the process spends is the heartbeats, and what 1,000
sleeping threads cost. Lease and heartbeat are the defaults.
"""

from __future__ import annotations

from benchmarks.measuring import Figure, Measured, Settings, rounds
from benchmarks.workers.process import Worker

LEASES = 1000
LEASE, HEARTBEAT = 20.0, 5.0
_SECONDS = 20.0


def measure(settings: Settings) -> Measured:
    """Measure the processor time of one process over 20 seconds in each round."""
    count = settings.count(LEASES)
    seconds = settings.seconds or (_SECONDS / 4 if settings.quick else _SECONDS)
    names = [f"job-{number}" for number in range(count)]
    with (
        settings.store("leases") as folder,
        Worker(
            "holding", store=f"{folder}/leases.db", names=names, lease=LEASE, heartbeat=HEARTBEAT
        ) as holder,
    ):
        holder.hear()
        found = rounds(settings, lambda: holder.ask(seconds=seconds))
    ended = found[-1]["ended"]
    share = tuple(100 * each["processor"] / each["wall"] for each in found)
    return Measured(
        (Figure(f"{count:,} live leases: processor time, of a core", "%", share, at_most=2),),
        notes=(f"{ended} of the leases were lost while it was measured",) if ended else (),
    )
