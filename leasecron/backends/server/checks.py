"""What is asked of every server that has a store: how far its clock is off, and how quick it is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from leasecron.backends.checks import Check

_FAR = 1.0
"""Seconds between the clocks from which on a user should know."""

_ROUND_TRIPS = 20
_SLOW = 0.05
"""Seconds of a round trip from which on runs start noticeably late."""


def check_round_trip(ask: Callable[[], object]) -> Check:
    """Ask a small thing some times."""
    took = []
    for _ in range(_ROUND_TRIPS):
        began = time.perf_counter()
        ask()
        took.append(time.perf_counter() - began)
    median, worst = statistics.median(took), max(took)
    found = f"median {median * 1000:.1f} ms, worst {worst * 1000:.1f} ms of {len(took)}"
    if median < _SLOW:
        return Check("round trip", "good", found, "a batch of any size takes one")
    reason = "each run waits for three of them, and starts and ends later by that"
    return Check("round trip", "warning", found, reason)


def check_clock(offset: float) -> Check:
    """Judge by how many seconds the server's clock is ahead of this host's."""
    found = f"the server's is {abs(offset):.1f} s {'ahead' if offset > 0 else 'behind'}"
    if abs(offset) < _FAR:
        return Check("clock", "good", "as the server's", "leases and slots are judged alike")
    reason = (
        "handlers start by this host's clock, and whether that is too early or too late is judged"
        f" by the server's, which differs by {abs(offset):.1f} s: keep both right (NTP)"
    )
    return Check("clock", "warning", found, reason)
