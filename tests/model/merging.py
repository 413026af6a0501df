"""Which situations are one: those from which the same can happen.

What tells two situations apart but decides nothing is left out: how high fences and attempts are,
when a lease ran out that nobody can see as alive again, the names of instances that share a host.
"""

from __future__ import annotations

from collections.abc import Hashable

from model.claim_table import ENDED, Run
from model.situations import Situation, World, is_holder


def merged(situation: Situation, world: World) -> Hashable:
    """Return what situations with the same future have in common."""
    table = situation.table
    names: dict[tuple[int, int], int] = {}
    runs = tuple(
        None if run is None else _merged_run(run, at, situation, world, names)
        for at, run in enumerate(table.runs)
    )
    return (runs, table.pruned, situation.elapsed, situation.set_back)


def _merged_run(
    run: Run, at: int, situation: Situation, world: World, names: dict[tuple[int, int], int]
) -> Hashable:
    ended = run.state in ENDED
    lease = _lease(run, situation, world)
    return (
        "ended" if ended else run.state,
        _holder(run, at, situation, world, names),
        min(run.attempt, 2),
        0 if ended else run.lost,
        lease,
        None if at == len(world.rules.slots) - 1 else max(world.rules.slots[at], run.wall_until),
    )


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
