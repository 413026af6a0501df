"""Standing by: 20 instances, and 100 live runs that another one holds.

Counted are the calls of the store by which the backups look after the runs, from inside the
schedulers. A check comes at a random moment between one and two heartbeats, so an instance that
needs one call for all its runs makes less than one in a heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.measuring import Figure, Measured, Settings, rounds
from benchmarks.workers.process import Worker

INSTANCES = 20
RUNS = 100
LEASE, HEARTBEAT = 4.0, 1.0
_HEARTBEATS = 20
_OPTIONS = {"lease": LEASE, "heartbeat": HEARTBEAT}


@dataclass(frozen=True, slots=True)
class _Checks:
    """One round: ``calls`` of an instance in a heartbeat, and what each of them answered."""

    calls: float
    runs: float
    processor: float


def measure(settings: Settings) -> Measured:
    """Count over 20 heartbeats in each round, for all runs and for a tenth of them side by side."""
    runs = settings.count(RUNS)
    whole = _HEARTBEATS * HEARTBEAT
    seconds = settings.seconds or (whole / 5 if settings.quick else whole)
    with settings.store("standby") as folder, ExitStack() as stack:
        backups = {
            count: _start(stack, f"{folder}/{count}.db", count)
            for count in (runs, max(1, runs // 10))
        }
        found = rounds(settings, lambda: _round(backups, seconds))
    figures = [
        figure
        for count in backups
        for figure in _figures([each[count] for each in found], count, runs)
    ]
    return Measured(tuple(figures))


def _start(stack: ExitStack, store: str, runs: int) -> Worker:
    """Have the runs held by one instance, and return the process of those that stand by."""
    same = {"store": store, "names": [f"job-{number}" for number in range(runs)], **_OPTIONS}
    holder = stack.enter_context(Worker("holding", **same))
    slot = holder.hear()["slot"]
    backups = stack.enter_context(Worker("standing", slot=slot, instances=INSTANCES, **same))
    backups.hear()
    return backups


def _round(backups: Mapping[int, Worker], seconds: float) -> Mapping[int, _Checks]:
    for worker in backups.values():
        worker.tell(seconds=seconds)
    return {count: _checks(worker.hear()) for count, worker in backups.items()}


def _checks(said: Mapping[str, float]) -> _Checks:
    heartbeats = said["wall"] / HEARTBEAT
    return _Checks(
        calls=said["calls"] / INSTANCES / heartbeats,
        runs=said["items"] / max(1.0, said["calls"]),
        processor=100 * said["processor"] / said["wall"] / INSTANCES,
    )


def _figures(found: Sequence[_Checks], runs: int, most: int) -> list[Figure]:
    what = f"{INSTANCES} instances, {runs} live runs"
    return [
        Figure(
            f"{what}: store calls of an instance in a heartbeat",
            "calls",
            tuple(each.calls for each in found),
            at_most=1.0,
        ),
        Figure(
            f"{what}: runs that a call answers for",
            "runs",
            tuple(each.runs for each in found),
            at_least=runs if runs == most else None,
        ),
        Figure(
            f"{what}: processor time of an instance, of a core",
            "%",
            tuple(each.processor for each in found),
        ),
    ]
