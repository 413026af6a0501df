"""Backfills, explored beside the schedule, pauses, retries and runs that are asked for.

As in :mod:`model.test_control`. An instance that goes on with a backfill knows what has succeeded
by now or what had when it was asked for, and where it stands or stood; only what was pruned
everybody knows from history.
"""

from __future__ import annotations

from typing import Final, get_args

import pytest

from model.explore import Violation, explore
from model.mirror import Mirror
from model.situations import World
from model.test_control import FAULTS as FAULTS_OF_CONTROL
from model.test_control import TWO
from model.test_exploration import FAULTS as FIRST_FAULTS
from model.test_exploration import futures_of
from model.values import Fault, Overlap, Rules

RULES: Final = Rules(slots=(0, 1), lease=2, max_late=2, keep=3)
SLOW: Final = pytest.mark.slow
ONE: Final = (0,)
"""The host of one instance, which does all that several could but for races of claims."""


def alone(*slots: int, hosts: tuple[int, ...] = TWO, horizon: int = 3) -> World:
    """Return a world in which all slots are backfilled."""
    filled = tuple(range(len(slots)))
    return World(RULES._replace(slots=slots), hosts, filled=filled, horizon=horizon, back=2)


def beside(overlap: Overlap, *filled: int, hosts: tuple[int, ...] = TWO, slots: int = 2) -> World:
    """Return a world in which only some slots are backfilled."""
    rules = RULES._replace(overlap=overlap, slots=tuple(range(slots)))
    return World(rules, hosts, filled=filled, horizon=3, back=2)


def paused(*slots: int, hosts: tuple[int, ...] = TWO) -> World:
    world = alone(*slots, hosts=hosts)
    return world._replace(rules=world.rules._replace(pause_on_failure=True), pausing=True)


def asked(overlap: Overlap) -> World:
    """Return a world in which a run is asked for between two slots, of which one is backfilled."""
    return beside(overlap, 0, slots=3)._replace(asked=(1,))


def seen_differently(overlap: Overlap) -> World:
    """Return a world in which one of three instances sees half of a lease less."""
    rules = RULES._replace(overlap=overlap, keep=4)
    return World(rules, (0, 0, 1), ahead=(0, 1), filled=(0,), horizon=3)


def pruned() -> World:
    """Return a world in which a slot is pruned so soon that it could be claimed again."""
    rules = Rules(slots=(0, 1), lease=1, max_late=2, keep=2)
    return World(rules, ONE, filled=(0,), horizon=3, back=1)


def shorter(world: World, horizon: int = 1) -> World:
    return world._replace(horizon=horizon)


@pytest.mark.parametrize(
    ("world", "depth"),
    [
        pytest.param(alone(0), 14, id="alone, all"),
        pytest.param(alone(-1, 0, hosts=ONE), 6, id="alone, two slots"),
        pytest.param(beside("skip", 0), 5, id="skip"),
        pytest.param(beside("allow", 0), 4, id="allow"),
        pytest.param(beside("queue", 0), 5, id="queue"),
        pytest.param(beside("cancel", 0), 4, id="cancel"),
        pytest.param(beside("queue", 1), 5, id="of the newer one, queue"),
        pytest.param(beside("skip", 0, 1, slots=3), 4, id="of two of three"),
        pytest.param(paused(0), 6, id="paused"),
        pytest.param(asked("skip"), 4, id="asked for, skip"),
        pytest.param(asked("cancel"), 4, id="asked for, cancel"),
        pytest.param(seen_differently("skip"), 4, id="skip, two hosts"),
        pytest.param(seen_differently("queue"), 4, id="queue, two hosts"),
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
    ("world", "depth"),
    [
        pytest.param(alone(-1, 0, hosts=ONE), 9, id="alone, two slots"),
        pytest.param(shorter(beside("skip", 0, hosts=ONE)), None, id="skip"),
        pytest.param(shorter(beside("queue", 0, hosts=ONE)), None, id="queue"),
        pytest.param(shorter(beside("cancel", 0, hosts=ONE)), None, id="cancel"),
        pytest.param(beside("queue", 0, 1, hosts=ONE, slots=3), 7, id="of two of three, queue"),
        pytest.param(shorter(paused(-1, 0, hosts=ONE)), 8, id="paused, two slots"),
        pytest.param(asked("cancel"), 6, id="asked for, cancel"),
        pytest.param(shorter(seen_differently("skip")), 7, id="skip, two hosts"),
        pytest.param(seen_differently("queue"), 6, id="queue, two hosts"),
        pytest.param(pruned(), 11, id="pruned"),
    ],
)
def test_all_that_can_be_done_keeps_the_promises_and_memory_does_the_same(
    world: World, depth: int | None
) -> None:
    explored = explore(world, depth=depth, mirror=Mirror(world))
    print(explored)
    assert explored.states > 5_000


FAULTS: dict[Fault, tuple[World, str, int]] = {
    "a backfill does not wait for its run": (alone(-1, 0), "several runs of a backfill go on", 3),
    "a backfill does not wait for a deaf handler": (alone(0), "beside a handler of it", 5),
    "what succeeded is run again": (alone(0), "that succeeded was put in again", 4),
    "a backfilled run is replaced": (beside("skip", 0), "a run of a backfill was replaced", 3),
    "a backfilled run replaces": (beside("skip", 1), "replaced by none", 6),
    "a backfill costs a slot": (beside("skip", 0), "does not wait", 4),
    "a backfill goes before what waits": (beside("queue", 0), "went before a slot that waits", 5),
    "a cancelled backfill counts what goes on": (alone(0), "counted what had not failed", 4),
    "a backfill counts and does not go on": (
        paused(-1, 0, hosts=ONE),
        "changed that did not go on",
        5,
    ),
    "a backfill goes on from anywhere": (alone(0), "went on from where it is not", 5),
    "an earlier backfill goes on": (alone(0), "an earlier backfill went on", 2),
    "a pause stops no backfill": (paused(0), "a backfill went on in a pause", 3),
    "a backfill takes what is being run": (alone(0), "taken before its time", 3),
    "a backfill forgets the fences": (alone(0), "has lost its fences", 4),
    "a backfilled slot that is pruned is free": (pruned(), "succeeded was run again", 11),
    "a backfill never ends": (alone(0), "no run comes to an end", 1),
}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=SLOW if FAULTS[fault][2] > 6 else ()) for fault in FAULTS]
)
def test_a_broken_rule_is_found_by_the_shortest_path(fault: Fault) -> None:
    world, broken, length = FAULTS[fault]
    world = world._replace(rules=world.rules._replace(fault=fault))
    with pytest.raises(Violation) as caught:
        explore(world, depth=length)
    message = str(caught.value)
    print(message)
    assert broken in message
    assert f"after {length} steps" in message


def test_each_rule_that_can_be_broken_is() -> None:
    assert {"", *FAULTS, *FAULTS_OF_CONTROL, *FIRST_FAULTS} == {*get_args(Fault)}


@pytest.mark.parametrize(
    ("world", "depth"),
    [
        pytest.param(alone(0), 6, id="alone"),
        pytest.param(beside("skip", 0), 4, id="skip"),
        pytest.param(paused(0), 5, id="paused"),
        pytest.param(alone(-1, 0), 6, id="two slots, deep", marks=pytest.mark.slow),
        pytest.param(beside("cancel", 0), 5, id="cancel, deep", marks=pytest.mark.slow),
        pytest.param(seen_differently("queue"), 5, id="two hosts, deep", marks=pytest.mark.slow),
    ],
)
def test_situations_that_are_merged_have_the_same_future(world: World, depth: int) -> None:
    found, futures = futures_of(world, depth)
    print(f"{found} situations are {len(futures)}")
    assert [key for key, several in futures.items() if len(several) > 1] == []
    assert len(futures) < found
