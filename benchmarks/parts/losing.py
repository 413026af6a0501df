"""Losing: what a slot costs an instance that does not win it.

Eight processes, the same 1,000 jobs due at one slot. First one after the other: each loser claims
all of them when the winner is through and its runs are live. So the ratio is the least that losing
costs, without the noise of eight processes that share a few cores. What the winner spends is all
that the slot costs it in the store: its claims, the ends of its runs and their history. Of its
claims alone the ratio is shown too, without a target. Then all at once through real schedulers, for
orientation: there it also matters who comes how late.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figure, Measured, Settings, rounds
from benchmarks.workers.claims import now_ms
from benchmarks.workers.process import Worker, crew

PROCESSES = 8
MOST = 15.0
"""Percent of the winner's work that a loser may have."""

_AHEAD_MS = 4000

_Said = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Slot:
    """What the processes said of their claims at one slot, and the winner of the runs' ends."""

    winner: _Said
    losers: Sequence[_Said]
    ends: _Said


@dataclass(frozen=True, slots=True)
class _AtOnce:
    """One round, in percent of what the winner of most runs spent; ``won`` of all runs."""

    claiming: float
    store: float
    won: float


def measure(settings: Settings) -> Measured:
    """Measure both ways."""
    jobs = settings.count(1000)
    with settings.store("losing") as folder:
        with crew("claiming", PROCESSES, store=f"{folder}/in-turn.db", jobs=jobs) as workers:
            _hear_all(workers)
            in_turn = rounds(settings, lambda: _in_turn(workers))
        at_once = _race(settings, folder, jobs)
    figures = [*_figures(in_turn, f"{jobs:,} jobs at one slot"), *_figures_at_once(at_once)]
    return Measured(tuple(figures))


def _in_turn(workers: Sequence[Worker]) -> Sequence[_Slot]:
    """Let each win once, and then one more slot, the last, in which transactions are counted."""
    slots = [_slot(workers, first, counted=False) for first in range(len(workers))]
    return [*slots, _slot(workers, 0, counted=True)]


def _slot(workers: Sequence[Worker], first: int, *, counted: bool) -> _Slot:
    order = [*workers[first:], *workers[:first]]
    slot = now_ms()
    said = [worker.ask(slot=slot, counted=counted) for worker in order]
    if set(said[0]["outcomes"]) != {"won"} or any("won" in loser["outcomes"] for loser in said[1:]):
        raise RuntimeError(f"the first one should win all, and not {said}")
    return _Slot(said[0], said[1:], order[0].ask(end=True))


def _share(slots: Sequence[_Slot], name: str, *, all_work: bool = False) -> float:
    """Return what a loser spent on its claims, in percent of the winner's, or of all its work."""
    won: float = sum(slot.winner[name] + (slot.ends[name] if all_work else 0) for slot in slots)
    lost: float = sum(statistics.mean(loser[name] for loser in slot.losers) for slot in slots)
    return 100 * lost / won


def _figures(found: Sequence[Sequence[_Slot]], what: str) -> Iterator[Figure]:
    timed = [slots[:-1] for slots in found]
    writing = (statistics.mean(loser["writing"] for loser in slots[-1].losers) for slots in found)
    for name, words in (("processor", "processor time"), ("wall", "time")):
        of_all = tuple(_share(slots, name, all_work=True) for slots in timed)
        of_claims = tuple(_share(slots, name) for slots in timed)
        yield Figure(
            f"{what}: a loser's {words} in the store, of the winner's", "%", of_all, at_most=MOST
        )
        yield Figure(f"{what}: the same, of the winner's in claim alone", "%", of_claims)
    yield Figure(f"{what}: write transactions of a loser", "writes", tuple(writing), at_most=0)


def _race(settings: Settings, folder: Path, jobs: int) -> list[_AtOnce]:
    with crew("racing", PROCESSES, store=f"{folder}/at-once.db", jobs=jobs) as workers:
        _hear_all(workers)
        return rounds(settings, lambda: _at_once(workers, jobs))


def _at_once(workers: Sequence[Worker], jobs: int) -> _AtOnce:
    slot = now_ms() + _AHEAD_MS
    for worker in workers:
        worker.tell(slot=slot)
    _hear_all(workers)
    said = sorted((worker.hear() for worker in workers), key=lambda each: -int(each["won"]))
    return _AtOnce(
        claiming=_share_of_first([each["claim"] for each in said]),
        store=_share_of_first([each["store"] for each in said]),
        won=100 * said[0]["won"] / jobs,
    )


def _share_of_first(spent: Sequence[float]) -> float:
    return 100 * statistics.mean(spent[1:]) / spent[0]


def _figures_at_once(found: Sequence[_AtOnce]) -> Iterator[Figure]:
    what = "all at once: another's processor time"
    claiming, store = (each.claiming for each in found), (each.store for each in found)
    yield Figure(f"{what} in claim, of the main winner's", "%", tuple(claiming))
    yield Figure(f"{what} in the store, of the main winner's", "%", tuple(store))
    yield Figure("all at once: runs of the main winner", "%", tuple(each.won for each in found))


def _hear_all(workers: Sequence[Worker]) -> None:
    for worker in workers:
        worker.hear()
