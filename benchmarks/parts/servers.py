"""Servers: claims and whole runs in PostgreSQL and Valkey, beside what their own tools can make.

The server is on this machine and syncs every answer to its disk. Claims have two limits: the same
calls by the server's own tool, pgbench or redis-benchmark (:mod:`benchmarks.limits` says how), and
the same calls over the connection of the backend, made before the clock starts and with answers
that nobody reads. A tool that is missing leaves out its figures.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from benchmarks import fresh, limits, servers
from benchmarks.measuring import Figure, Measured, Settings, rounds
from benchmarks.sides import fresh_claims, job
from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.server.backend import columns_of_claims
from leasecron.backends.urls import backend_for
from leasecron.model import Claim, Declaration, Ending

BATCH, JOBS = 100, 10_000
SECONDS = 2.0
SHARE, RUNS = 60, 5_000
"""What is to be reached: percent of a limit, and with PostgreSQL whole runs a second."""

_Found = dict[tuple[str, str], float]
_TOOLS = {
    "PostgreSQL": ("pgbench", limits.pgbench, "postgresql-contrib"),
    "Valkey": ("redis-benchmark", limits.redis_benchmark, "redis-tools"),
}


def measure(settings: Settings) -> Measured:
    """Measure all servers that are to be had."""
    there = [name for name, (module, _start) in servers.ENGINES.items() if find_spec(module)]
    found = rounds(settings, partial(_round, settings, there))
    figures = [figure for name in there for figure in _figures(found, name, settings)]
    notes = [f"{name} {servers.MISSING}" for name in servers.ENGINES if name not in there]
    for name in there:
        tool, path, package = _TOOLS[name]
        if path() is None:
            notes.append(f"{tool} is not installed (apt install {package}): no limit of {name}")
    return Measured(tuple(figures), notes=tuple(notes))


def _figures(found: list[_Found], name: str, settings: Settings) -> list[Figure]:
    def values(what: str) -> tuple[float, ...]:
        return tuple(each[name, what] for each in found)

    def share(what: str) -> tuple[float, ...]:
        return tuple(100 * each[name, "claims"] / each[name, what] for each in found)

    claims = f"{name}, {BATCH} claims a call"
    tool = _TOOLS[name][0]
    figures = [Figure(claims, "/s", values("claims"))]
    if all((name, "tool") in each for each in found):
        figures += [
            Figure(f"{claims}: by {tool}", "/s", values("tool")),
            Figure(f"{claims}, of {tool}", "%", share("tool"), at_least=SHARE),
        ]
    return [
        *figures,
        Figure(f"{claims}: the calls alone", "/s", values("calls")),
        Figure(f"{claims}, of the calls alone", "%", share("calls"), at_least=SHARE),
        Figure(
            f"{name}, whole runs, {settings.count(JOBS):,} jobs",
            "/s",
            values("runs"),
            at_least=RUNS if name == "PostgreSQL" else None,
        ),
    ]


def _round(settings: Settings, there: Sequence[str]) -> _Found:
    found: _Found = {}
    for name in there:
        with settings.store("servers") as folder, servers.ENGINES[name][1](folder) as url:
            claims = _claims(url, settings.seconds or (0.3 if settings.quick else SECONDS))
            jobs = settings.count(JOBS)
            took = fresh.call("benchmarks.scheduled:ended", url, jobs, 1_000)
        rates = claims | {"runs": jobs / took}
        found |= {(name, what): rate for what, rate in rates.items()}
    return found


def _claims(url: str, seconds: float) -> dict[str, float]:
    """Return claims a second: through the backend and by its calls alone, in turn; by the tool."""
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
    calls = made // 2
    rates = {"claims": calls * BATCH / took[_whole], "calls": calls * BATCH / took[_bare]}
    by_tool = _by_tool(backend, calls, made)
    backend.close()
    return rates if by_tool is None else rates | {"tool": by_tool}


def _by_tool(backend: PostgresBackend | RedisBackend, calls: int, made: int) -> float | None:
    """Let the server's tool make as many calls; return claims a second, None without a tool."""
    if isinstance(backend, PostgresBackend):
        tool = limits.pgbench()
        return None if tool is None else limits.by_pgbench(tool, backend, BATCH, calls, made - 1)
    tool = limits.redis_benchmark()
    return None if tool is None else limits.by_redis_benchmark(tool, backend, BATCH, calls)


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
