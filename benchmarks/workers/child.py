"""What a worker process does to talk to the part that started it."""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

_saying = threading.Lock()


def arguments() -> dict[str, Any]:
    """Return what the worker was started with."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def say(**facts: object) -> None:
    """Say something, from any thread."""
    with _saying:
        print(json.dumps(facts), flush=True)


def told() -> Iterator[dict[str, Any]]:
    """Return what the worker is told, one thing after the other, until it shall end."""
    for line in sys.stdin:
        yield json.loads(line)


def wait_until(moment: float) -> None:
    """Wait until a monotonic time."""
    time.sleep(max(0.0, moment - time.monotonic()))


def wait_and_count(seconds: float) -> dict[str, float]:
    """Wait, and return the processor time of all threads of this process in the meantime."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    wait_until(began + seconds)
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - began
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor": spent, "wall": wall}
