"""How long the disk takes to keep something for good."""

from __future__ import annotations

import os
import statistics
import time

from leasecron.backends.checks import Check

SLOW = 0.05
STALLED = 1.0
"""Seconds from which the median, and from which the worst of some writes is warned of."""

_TIMES = 50
_ENOUGH = 1.0
_BLOCK = bytes(4096)


def check_latency(folder: str) -> Check:
    """Write and ``fsync`` for up to a second."""
    took = measure(f"{folder}/fsync")
    median, worst = statistics.median(took), max(took)
    found = f"median {_ms(median)}, worst {_ms(worst)} of {len(took)}"
    if median >= SLOW:
        reason = f"every batch of claims waits for it: at most {1 / median:.0f} a second"
        return Check("fsync", "warning", found, reason)
    if worst >= STALLED:
        reason = "runs start late, and leases come close to their end, when the disk stalls so long"
        return Check("fsync", "warning", found, reason)
    return Check("fsync", "good", found, "every batch of claims waits for one or two of these")


def measure(path: str) -> list[float]:
    """Return the seconds that each of some writes took."""
    took: list[float] = []
    with open(path, "wb", buffering=0) as file:
        while len(took) < _TIMES and sum(took) < _ENOUGH:
            begun = time.perf_counter()
            file.write(_BLOCK)
            os.fsync(file.fileno())
            took.append(time.perf_counter() - begun)
    return took


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2g} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
