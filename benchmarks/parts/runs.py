"""Runs: whole ones a second, all due at one slot, beside what the peers make of them.

A run is the claim, a thread that the handler has alone, an empty handler, the end and the history,
all of it stored with synchronous FULL in one SQLite file. The peers store as durably, and what they
store for a run is said in :mod:`benchmarks.peers`. Each works in a fresh process.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module

from benchmarks import fresh
from benchmarks.machine import NOT_INSTALLED, installed
from benchmarks.measuring import Figure, Measured, Settings, rounds

JOBS = 10_000
ROOM, DEFAULT_ROOM = 1_000, 200
OWN = "leasecron, max_running={:,}"


@dataclass(frozen=True, slots=True)
class Peer:
    """Another scheduler: its name, the function that drives it, how much faster we want to be.

    With ``jobs`` it is given fewer of them, where a round would take too long.
    """

    name: str
    distribution: str
    function: str
    jobs: int
    at_least: float | None = None
    journal: str = "wal"


APSCHEDULER = "apscheduler_peer:recurring"
PEERS = (
    Peer("APScheduler", "APScheduler", APSCHEDULER, 2_000, 10, "delete"),
    Peer("APScheduler, write-ahead log", "APScheduler", APSCHEDULER, JOBS),
    Peer("APScheduler, one run a job", "APScheduler", "apscheduler_peer:single", JOBS),
    Peer("huey", "huey", "huey_peer:runs_per_second", JOBS, 2.5),
    Peer("pyncette", "pyncette", "pyncette_peer:runs_per_second", 1_000, 15),
)
NOTES = (
    "APScheduler: jobs that recur, ten threads, the rollback journal that SQLAlchemy leaves it",
    "huey: tasks are enqueued, then executed by one worker thread; more of them make it slower",
    "pyncette: instances of one dynamic task, which one query finds, in one event loop",
    "only leasecron keeps a history; APScheduler and huey do not repeat a run that a crash cut off",
)


def measure(settings: Settings) -> Measured:
    """Measure runs a second, and the ratios to those of the peers in the same round."""
    peers = [peer for peer in PEERS if installed(peer.distribution) and _imports(peer)]
    missing = {peer.distribution for peer in PEERS if peer not in peers}
    found = rounds(settings, partial(_round, settings, peers))
    beside = (figure for peer in peers for figure in _beside(found, peer, settings))
    figures = (*_own(found, settings), *beside)
    absent = tuple(
        f"{name} is {NOT_INSTALLED}, or broken: pip install -e '.[bench]'" for name in missing
    )
    return Measured(figures, notes=(*NOTES, *absent))


def _imports(peer: Peer) -> bool:
    try:
        import_module(f"benchmarks.peers.{peer.function.partition(':')[0]}")
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the others can be measured
        return False
    return True


def _round(settings: Settings, peers: list[Peer]) -> dict[str, float]:
    jobs = settings.count(JOBS)
    found = {}
    for room in (ROOM, DEFAULT_ROOM):
        with settings.store("runs") as folder:
            took = fresh.call("benchmarks.scheduled:ended", str(folder), jobs, room)
            found[OWN.format(room)] = jobs / took
    for peer in peers:
        function = f"benchmarks.peers.{peer.function}"
        with settings.store("runs") as folder:
            arguments = (str(folder), settings.count(peer.jobs), peer.journal)
            found[peer.name] = fresh.call(function, *arguments)
    return found


def _own(found: list[dict[str, float]], settings: Settings) -> list[Figure]:
    jobs = settings.count(JOBS)
    return [
        Figure(f"{name}, {jobs:,} jobs", "/s", _values(found, name), at_least=12_000)
        for name in (OWN.format(room) for room in (ROOM, DEFAULT_ROOM))
    ]


def _beside(found: list[dict[str, float]], peer: Peer, settings: Settings) -> tuple[Figure, Figure]:
    ours, theirs = _values(found, OWN.format(ROOM)), _values(found, peer.name)
    ratios = tuple(own / other for own, other in zip(ours, theirs, strict=True))
    return (
        Figure(f"{peer.name}, {settings.count(peer.jobs):,} jobs", "/s", theirs),
        Figure(f"leasecron beside {peer.name}", "x", ratios, at_least=peer.at_least),
    )


def _values(found: list[dict[str, float]], name: str) -> tuple[float, ...]:
    return tuple(made[name] for made in found)
