"""An instance that claims jobs of its own as fast as it can, for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.workers import child
from benchmarks.workers.claims import claims_of, now_ms
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.errors import BackendUnavailable
from leasecron.model import Claim
from leasecron.outages import FIRST_DELAY


def main() -> None:
    """Open each store that is told, and claim in it from one moment to another."""
    number = child.arguments()["number"]
    orders = child.told()
    for order in orders:
        backend = SqliteBackend(order["store"])
        backend.open()
        child.say(ready=True)
        child.say(**_claim(backend, next(orders), number))
        backend.close()


def _claim(backend: SqliteBackend, order: dict[str, Any], number: int) -> dict[str, Any]:
    batch, until = order["batch"], order["at"] + order["seconds"]
    slot, instance = now_ms(), f"instance-{number}"
    won, refused, calls = 0, 0, []
    child.wait_until(order["at"])
    began = time.monotonic()
    while time.monotonic() < until:
        names = [f"job-{number}-{n}" for n in range(won, won + batch)]
        claims = claims_of(names, slot, instance)
        called = time.perf_counter()
        refused += _win(backend, claims)
        calls.append(time.perf_counter() - called)
        won += batch
    rate = won / (time.monotonic() - began)
    return {"rate": rate, "refused": refused, "calls": calls}


def _win(backend: SqliteBackend, claims: Sequence[Claim]) -> int:
    """Claim as the store thread does; return how often the store could not be had in time."""
    refused = 0
    while True:
        try:
            answers = backend.claim(claims)
        except BackendUnavailable:
            refused += 1
            time.sleep(FIRST_DELAY)
            continue
        if any(answer.outcome != "won" for answer in answers):
            raise RuntimeError(f"all of the runs should be free, and not {answers}")
        return refused


if __name__ == "__main__":
    main()
