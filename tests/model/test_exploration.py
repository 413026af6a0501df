"""The claim table, explored completely: what it promises holds, and memory does the same.

Three instances, two slots of one job, two attempts that may be lost. The steps are claim (afresh,
and again with the same token), take over, heartbeat, finish (with and without its lease), release
(counted or not), crash, prune, time passing and the clocks being set back; leases last two units
of time. Every order of any number of steps is explored that fits in the horizon of the world, so
this ends by itself, with the figures that ``-s`` prints. The fast tests stop at a depth.

On one host all read one clock. On two hosts one of the three sees by its wall clock half of a
lease less than the others, so that it takes a lease for over which they can still renew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Literal

import pytest

from model.choices import steps
from model.explore import Violation, explore
from model.merging import merged
from model.mirror import Mirror
from model.situations import Outcome, Situation, World, do, start
from model.values import Answer, Fault, Rules

Overlap = Literal["skip", "allow"]
# Rows are kept for longer than clocks are set back or differ; all else is outside of the promise.
RULES = Rules(slots=(0, 1), lease=2, max_late=2, keep=3)


def one_host(overlap: Overlap, horizon: int = 5) -> World:
    return World(RULES._replace(overlap=overlap), horizon=horizon)


def two_hosts(overlap: Overlap, horizon: int = 5) -> World:
    rules = RULES._replace(overlap=overlap, keep=4)
    return World(rules, hosts=(0, 0, 1), ahead=(0, 1), horizon=horizon)


@pytest.mark.parametrize(
    ("world", "depth"),
    [
        pytest.param(one_host("skip"), 6, id="one host, skip"),
        pytest.param(one_host("allow"), 5, id="one host, allow"),
        pytest.param(two_hosts("skip"), 5, id="two hosts, skip"),
        pytest.param(two_hosts("allow"), 4, id="two hosts, allow"),
    ],
)
def test_all_that_a_few_steps_can_do_keeps_the_promises_and_memory_does_the_same(
    world: World, depth: int
) -> None:
    explored = explore(world, depth=depth, mirror=Mirror(world))
    print(explored)
    assert explored.depth == depth


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "world",
    [
        pytest.param(one_host("skip"), id="one host, skip"),
        pytest.param(one_host("allow", 4), id="one host, allow"),
        pytest.param(two_hosts("skip", 4), id="two hosts, skip"),
        pytest.param(two_hosts("allow", 1), id="two hosts, allow"),
    ],
)
def test_all_that_can_be_done_keeps_the_promises_and_memory_does_the_same(world: World) -> None:
    explored = explore(world, mirror=Mirror(world))
    print(explored)
    assert explored.states > 10_000


FAULTS: dict[Fault, tuple[World, str, int]] = {
    "a lease that is over is renewed": (one_host("skip"), "two live leases of one job", 4),
    "a won claim settles nothing": (two_hosts("skip"), "two live leases of one job", 3),
    "finish needs no token": (one_host("skip"), "a stale token changed something", 2),
    "a lease that is alive is taken": (one_host("allow"), "taken before its time", 2),
    "an ended run is won again": (one_host("skip"), "a finished run was won again", 3),
    "other runs' leases do not matter": (one_host("skip"), "two live leases of one job", 2),
    "a fence is given twice": (one_host("skip"), "a fence did not rise", 5),
    "nobody takes over": (one_host("skip"), "no run comes to an end", 1),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_rule_is_found_by_the_shortest_path(fault: Fault) -> None:
    world, broken, length = FAULTS[fault]
    world = world._replace(rules=world.rules._replace(fault=fault))
    with pytest.raises(Violation) as caught:
        explore(world, depth=6)
    message = str(caught.value)
    print(message)
    assert broken in message
    assert f"after {length} steps" in message
    assert message.count("\n") == length + 1


def test_a_store_that_does_something_else_is_found() -> None:
    world = one_host("skip")
    other = Mirror(world._replace(rules=world.rules._replace(max_attempts=1)))
    with pytest.raises(Violation, match="abandoned=True"):
        explore(world, depth=5, mirror=other)


@pytest.mark.parametrize(
    ("world", "depth"),
    [
        pytest.param(one_host("skip"), 4, id="one host, skip"),
        pytest.param(two_hosts("allow"), 3, id="two hosts, allow"),
        pytest.param(one_host("allow"), 5, id="one host, allow, deep", marks=pytest.mark.slow),
        pytest.param(two_hosts("skip"), 5, id="two hosts, skip, deep", marks=pytest.mark.slow),
    ],
)
def test_situations_that_are_merged_have_the_same_future(world: World, depth: int) -> None:
    found, futures = futures_of(world, depth)
    print(f"{found} situations are {len(futures)}")
    assert [key for key, several in futures.items() if len(several) > 1] == []
    assert len(futures) < found


def futures_of(world: World, depth: int) -> tuple[int, dict[Hashable, set[Hashable]]]:
    """Return how many situations so many steps lead to, and what can follow on what is merged."""
    found = everything(world, depth)
    futures: defaultdict[Hashable, set[Hashable]] = defaultdict(set)
    for situation in found:
        futures[merged(situation, world)].add(future(situation, world))
    return len(found), futures


def everything(world: World, depth: int) -> set[Situation]:
    """Return all that so many steps lead to, and merge nothing."""
    found = reached = {start(world)}
    for _ in range(depth):
        reached = {do(s, place, world)[1] for place in reached for s in steps(place, world)} - found
        found = found | reached
    return found


def future(situation: Situation, world: World) -> Hashable:
    """Return what each kind of step is answered, and leads to."""
    made = ((step, *do(step, situation, world)) for step in steps(situation, world))
    return frozenset(
        (step.act, step.at, in_short(answer), merged(after, world)) for step, answer, after in made
    )


def in_short(answer: Outcome) -> Hashable:
    match answer:
        case Answer():
            shown = (answer.outcome, answer.abandoned, answer.other, len(answer.closed))
            return (*shown, answer.retries, answer.trigger)
        case tuple():
            return len(answer)
    return answer
