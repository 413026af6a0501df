"""Claims: plain sqlite3, the backend called directly, and through the store thread.

All claims are of runs that are free, of jobs whose earlier runs have ended. Durability is equal: a
write-ahead log and synchronous FULL. What plain sqlite3 does is in :mod:`benchmarks.raw`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.measuring import Curve, Figure, Measured, Settings, rounds
from benchmarks.sides import Direct, Queued, Side, all_closed, rates, raw

BATCHES = (1, 10, 100, 1_000, 5_000)
BATCH = 1_000
SECONDS = 6.0
_MEASUREMENTS = 2 * len(BATCHES) + 2
RAW, INSERTED = "plain sqlite3", "plain sqlite3, no reads"
DIRECT, QUEUED = "SqliteBackend.claim", "StoreQueue and SqliteBackend"

_Rates = dict[tuple[str, int], float]

_AT_EACH_SIZE: dict[str, Callable[[Path, int], Side]] = {RAW: raw, DIRECT: Direct}
_AT_BATCH = _AT_EACH_SIZE | {INSERTED: partial(raw, reads=False), QUEUED: Queued}


def measure(settings: Settings) -> Measured:
    """Measure claims by each way, and by the size of the batch."""
    found = rounds(settings, partial(_round, settings))
    return Measured(_figures(found), tuple(_curve(found, name) for name in _AT_EACH_SIZE))


def _round(settings: Settings) -> _Rates:
    seconds = settings.seconds or (SECONDS / 10 if settings.quick else SECONDS)
    found: _Rates = {}
    for batch in BATCHES:
        ways = _AT_BATCH if batch == BATCH else _AT_EACH_SIZE
        with settings.store("claims") as folder:
            sides = {name: way(folder / f"{name}.db", batch) for name, way in ways.items()}
            with all_closed(sides):
                made = rates(sides, batch, seconds / _MEASUREMENTS)
        found |= {(name, batch): rate for name, rate in made.items()}
    return found


def _figures(found: list[_Rates]) -> tuple[Figure, ...]:
    def rate(name: str) -> tuple[float, ...]:
        return tuple(made[name, BATCH] for made in found)

    def share(name: str) -> tuple[float, ...]:
        return tuple(100 * made[name, BATCH] / made[RAW, BATCH] for made in found)

    return (
        Figure(f"{RAW}, {BATCH:,} claims a transaction", "/s", rate(RAW)),
        Figure(f"{INSERTED}, {BATCH:,} rows a transaction", "/s", rate(INSERTED)),
        Figure(f"{DIRECT}, {BATCH:,} claims a call", "/s", rate(DIRECT)),
        Figure(f"{DIRECT}, of {RAW}", "%", share(DIRECT), at_least=70),
        Figure(f"{QUEUED}, {BATCH:,} due at once", "/s", rate(QUEUED), at_least=60_000),
        Figure(f"{QUEUED}, of {RAW}", "%", share(QUEUED), at_least=50),
    )


def _curve(found: list[_Rates], name: str) -> Curve:
    return Curve(
        plot="claims-by-batch",
        title="Claims by the size of the batch",
        x="claims in one transaction",
        y="claims a second",
        line=name,
        points=tuple(
            (batch, statistics.median(made[name, batch] for made in found)) for batch in BATCHES
        ),
    )
