"""The parts of the benchmarks: a module each, with a title and ``measure(settings)``."""

from __future__ import annotations

import importlib
from typing import cast

from benchmarks.measuring import Measured, Settings

PARTS = (
    "claims",
    "runs",
    "slot",
    "lateness",
    "losing",
    "writers",
    "armed",
    "standby",
    "leases",
    "size",
    "lockdir",
    "servers",
    "instances",
    "takeover",
    "footprint",
)
"""The names of the parts, in the order in which they are measured and read."""


def title(part: str) -> str:
    """Return what a part says of itself: the first line of its docstring."""
    words = importlib.import_module(f"{__name__}.{part}").__doc__ or part
    return words.splitlines()[0]


def measure(part: str, settings: Settings) -> Measured:
    """Measure one part."""
    module = importlib.import_module(f"{__name__}.{part}")
    return cast("Measured", module.measure(settings))
