"""One run, two instances: who holds it, who stands by, and how it ended."""

import time

from support.instances import Instance, Instances

LEASE, HEARTBEAT = 2.0, 0.5
"""Seconds, as every spawned instance has them unless its job says otherwise."""


def begin(instances: Instances) -> tuple[Instance, Instance]:
    """Make the job due now in two instances; return who holds it and who stands by.

    Their programs have a function ``due(slot)`` that adds it.
    """
    slot = round(time.time() * 1000) + 300
    for instance in instances.all:
        instance.ask(f"due({slot})")
    first, second = instances.all
    instances.wait_until(lambda: first.said("start") or second.said("start"))
    holder, backup = (first, second) if first.said("start") else (second, first)
    backup.ask("len(scheduler.history())")  # by then it has asked the store for what is unfinished
    return holder, backup


def statuses(instances: Instances, job: str = "job") -> list[tuple[int, str]]:
    """Return attempt and status of all that the history holds of a job."""
    return [(row["attempt"], row["status"]) for row in instances.store.results(job)]


def check_second_attempt_won(instances: Instances, job: str = "job") -> None:
    """Two attempts were made, and the second one's success is what the store keeps."""
    assert [line.attempt for line in instances.log.lines(job)] == [1, 2]
    assert statuses(instances, job) == [(1, "lost"), (2, "success")]
    (run,) = instances.store.runs(job)
    assert (run["attempt"], run["state"]) == (2, "success")
