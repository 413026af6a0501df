"""Instances: what one more costs its server, in processor time and in memory.

The jobs are a hundred, all of them held by one instance with a live lease, and another one asks: it
claims what is held, which is also what a backup's check comes to, and starts, and stands idle. The
holder renews its leases. What counts is the time that the processes of the server were at work, and
neither the way to it nor the wait for its disk; only Linux tells it to less than a tick.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from benchmarks import servers
from benchmarks.measuring import Figure, Measured, Settings, rounds
from benchmarks.sides import fresh_claims, job
from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.urls import backend_for
from leasecron.model import Declaration, LeaseRef
from leasecron.options import JobOptions

JOBS, INSTANCES = 100, 20
SECONDS = 1.0
_LEASE = 3600.0

_Found = dict[tuple[str, str], float]
_WHAT = {
    "start": (f"an instance that starts, {JOBS} jobs", "ms"),
    "idle": ("an instance that is idle", "KB"),
    "lost 1": ("a claim of 1 run that another has", "ms"),
    "lost all": (f"a claim of {JOBS} runs that another has", "ms"),
    "beat 1": ("a heartbeat of 1 run", "ms"),
    "beat all": (f"a heartbeat of {JOBS} runs", "ms"),
    "prune": (f"a pass over {JOBS} jobs that finds nothing to prune", "ms"),
}


def measure(settings: Settings) -> Measured:
    """Measure all servers that are to be had."""
    there = [name for name, (module, _start) in servers.ENGINES.items() if find_spec(module)]
    found = rounds(settings, partial(_round, settings, there))
    figures = [
        Figure(f"{name}: {text}", unit, tuple(each[name, what] for each in found))
        for name in there
        for what, (text, unit) in _WHAT.items()
    ]
    notes = tuple(f"{name} {servers.MISSING}" for name in servers.ENGINES if name not in there)
    return Measured(tuple(figures), notes=notes)


def _round(settings: Settings, there: Sequence[str]) -> _Found:
    found: _Found = {}
    seconds = settings.seconds or (0.2 if settings.quick else SECONDS)
    for name in there:
        with settings.store("instances") as folder, servers.ENGINES[name][1](folder) as url:
            found |= {(name, what): value for what, value in _costs(url, seconds).items()}
    return found


def _costs(url: str, seconds: float) -> dict[str, float]:
    """Return milliseconds of the server's processors, and of an idle instance its kilobytes."""
    holder = _started(url)
    claims = [replace(claim, lease=_LEASE) for claim in fresh_claims(JOBS, 0)]
    holder.claim(claims)
    refs = [LeaseRef(each.job, each.slot, each.token, _LEASE) for each in claims]
    lost = [replace(claim, token="of another") for claim in claims]
    server = _Server(holder)
    worked, kept = server.worked(), server.kept()
    others = [_started(url) for _ in range(INSTANCES)]
    found = {
        "start": (server.worked() - worked) * 1000 / INSTANCES,
        "idle": (server.kept() - kept) / 1000 / INSTANCES,
    }
    calls: dict[str, Callable[[], object]] = {
        "lost 1": partial(others[0].claim, lost[:1]),
        "lost all": partial(others[0].claim, lost),
        "beat 1": partial(holder.heartbeat, refs[:1]),
        "beat all": partial(holder.heartbeat, refs),
        "prune": partial(holder.prune, [JobOptions().retention(each.job) for each in claims]),
    }
    for what, call in calls.items():
        found[what] = _cost(server, call, seconds) * 1000
    for backend in (holder, *others):
        backend.close()
    return found


def _started(url: str) -> Any:
    """Do what ``start()`` does in a store."""
    backend: Any = backend_for(url)
    backend.open()
    backend.declare([Declaration(job(place), "every 1s") for place in range(JOBS)])
    backend.unfinished([job(place) for place in range(JOBS)])
    return backend


def _cost(server: _Server, call: Callable[[], object], seconds: float) -> float:
    made, worked, end = 0, server.worked(), time.monotonic() + seconds
    while time.monotonic() < end:
        call()
        made += 1
    return (server.worked() - worked) / made


class _Server:
    """The server of a backend that is open, seen from outside."""

    def __init__(self, backend: Any) -> None:
        self._connection = backend._server
        self._is_postgres = isinstance(backend, PostgresBackend)
        with self._connection.usable() as wire:
            if self._is_postgres:
                found = psutil.Process(wire.process).parent()
                assert found is not None
                self._process = found
            else:
                self._process = psutil.Process(int(wire.info()["process_id"]))

    def worked(self) -> float:
        """Return for how many seconds its processes were at work so far."""
        threads = (
            thread
            for process in self._processes()
            for thread in Path(f"/proc/{process.pid}/task").iterdir()
        )
        return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9

    def kept(self) -> float:
        """Return how many bytes it has for itself: what nobody shares, or what it says."""
        if self._is_postgres:
            return float(sum(each.memory_full_info().uss for each in self._processes()))
        with self._connection.usable() as wire:
            return float(wire.info()["used_memory"])

    def _processes(self) -> list[psutil.Process]:
        return [self._process, *self._process.children(recursive=True)]
