"""Which situations are one: those from which the same can happen.

What tells two situations apart but decides nothing is left out: how high fences and attempts are,
when a lease ran out that nobody can see as alive again, the names of instances that share a host.
"""

from __future__ import annotations

from collections.abc import Hashable

from model.situations import Situation, World, is_holder
from model.values import ENDED, Run, was_paused


def merged(situation: Situation, world: World) -> Hashable:
    """Return what situations with the same future have in common."""
    table = situation.table
    names: dict[tuple[int, int], int] = {}
    runs = tuple(
        None if run is None else _merged_run(run, at, situation, world, names)
        for at, run in enumerate(table.runs)
    )
    pauses = _merged_pauses(situation, world)
    backfill = None if table.backfill is None else (table.backfill.cursor, table.backfill.ended)
    filled = (backfill, situation.succeeded, situation.known)
    return (runs, table.pruned, situation.elapsed, situation.set_back, pauses, filled)


def _merged_run(
    run: Run, at: int, situation: Situation, world: World, names: dict[tuple[int, int], int]
) -> Hashable:
    ended = run.state in ENDED
    lease = _lease(run, situation, world)
    return (
        _state(run, world),
        _holder(run, at, situation, world, names),
        min(run.attempt, 2),
        0 if ended else run.lost,
        lease,
        _prunable_from(run, at, world),
        run.origin,
        run.cancelled,
        0 if ended else run.retries,
    )


def _state(run: Run, world: World) -> str:
    """Return the state as far as it decides: only a backfill tells the ended ones apart."""
    if run.state not in ENDED:
        return run.state
    return "success" if world.filled and run.state == "success" else "ended"


def _prunable_from(run: Run, at: int, world: World) -> int | None:
    if run.origin != "manual" and at == len(world.rules.slots) - 1:
        return None
    return max(world.rules.slots[at], run.wall_until)


def _holder(
    run: Run, at: int, situation: Situation, world: World, names: dict[tuple[int, int], int]
) -> Hashable:
    """Return who knows the token, as the how-manieth of its host that is met here."""
    instance = int(run.instance)
    if not is_holder(run, at, instance, situation):
        return None
    host = world.hosts[instance]
    known = sum(of == host for of, _name in names)
    return (host, names.setdefault((host, instance), known))


def _lease(run: Run, situation: Situation, world: World) -> Hashable:
    if run.host is None:
        return None
    left = max(0, run.elapsed_until - situation.elapsed)
    if len(world.ahead) == 1:
        return left
    return (run.host, left, run.wall_until)


def _merged_pauses(situation: Situation, world: World) -> Hashable:
    """Return which slots are in a pause, and what of the last one decides how it can go on.

    It can go on while it lasts, and as long as a clock may show a time before its end.
    """
    pauses = situation.table.pauses
    if not pauses:
        return None
    earliest = situation.elapsed - world.back
    held = tuple(was_paused(situation.table, slot) for slot in world.rules.slots)
    last = pauses[-1]
    if last.until is not None and last.until < earliest:
        return (held, None)
    since = (max(last.since, earliest), *(slot >= last.since for slot in world.rules.slots))
    return (held, last.until is None, since, last.until)
