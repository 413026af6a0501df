"""Retries, pauses, runs that are asked for, and slots that wait: explored one beside the other.

As in :mod:`model.test_exploration`, with the same steps and more: a run is tried again, a job is
paused and resumed or paused by a run that fails, a run is asked for and withdrawn, and a run makes
way for a newer slot. What is new is explored in worlds of its own, since all at once would be too
much: which figures each has, ``-s`` prints. Every order of steps is explored up to the depth that
is given, and without one all that fits in the horizon.
"""

from __future__ import annotations

from typing import Final

import pytest

from model.explore import Violation, explore
from model.mirror import Mirror
from model.situations import World
from model.test_exploration import futures_of
from model.values import Fault, Overlap, Rules

TWO: Final = (0, 0)
"""The hosts of two instances that share one."""
RULES = Rules(slots=(0, 1), lease=2, max_late=2, keep=3)


def retried() -> World:
    return World(RULES._replace(slots=(0,)), retries=2)


def paused(*slots: int, horizon: int = 5) -> World:
    rules = RULES._replace(slots=slots, pause_on_failure=True)
    return World(rules, hosts=TWO, pausing=True, horizon=horizon)


def asked(overlap: Overlap, *at: int, slots: int = 2, horizon: int = 5) -> World:
    """Return a world in which runs of some slots can be asked for, and claimed too."""
    rules = RULES._replace(overlap=overlap, slots=tuple(range(slots)), keep=2)
    return World(rules, hosts=TWO, asked=at, horizon=horizon, back=2)


def waiting(overlap: Overlap, slots: int = 2, horizon: int = 5) -> World:
    rules = RULES._replace(overlap=overlap, slots=tuple(range(slots)), keep=2)
    return World(rules, hosts=TWO, horizon=horizon, back=2)


def seen_differently(overlap: Overlap, horizon: int = 5) -> World:
    """Return a world in which one of three instances sees half of a lease less."""
    rules = RULES._replace(overlap=overlap, keep=4)
    return World(rules, hosts=(0, 0, 1), ahead=(0, 1), horizon=horizon)


def cancelled_and_paused(horizon: int = 5) -> World:
    rules = RULES._replace(overlap="cancel", pause_on_failure=True)
    return World(rules, hosts=TWO, retries=1, pausing=True, horizon=horizon)


@pytest.mark.parametrize(
    ("world", "depth"),
    [
        pytest.param(retried(), 13, id="retried, all"),
        pytest.param(paused(1), 7, id="paused"),
        pytest.param(paused(0, 1), 4, id="paused, two slots"),
        pytest.param(asked("skip", 0, 1), 5, id="asked for, skip"),
        pytest.param(asked("allow", 0, 1), 5, id="asked for, allow"),
        pytest.param(asked("queue", 0, 1), 5, id="asked for, queue"),
        pytest.param(asked("cancel", 0, 1), 5, id="asked for, cancel"),
        pytest.param(asked("cancel", 1, slots=3), 4, id="asked for between slots, cancel"),
        pytest.param(waiting("queue"), 5, id="queue"),
        pytest.param(waiting("cancel"), 5, id="cancel"),
        pytest.param(waiting("queue", slots=3), 4, id="queue, three slots"),
        pytest.param(waiting("cancel", slots=3), 4, id="cancel, three slots"),
        pytest.param(seen_differently("queue"), 4, id="queue, two hosts"),
        pytest.param(seen_differently("cancel"), 4, id="cancel, two hosts"),
        pytest.param(cancelled_and_paused(), 4, id="cancel, with retries and pauses"),
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
        pytest.param(paused(1), None, id="paused"),
        pytest.param(paused(0, 1, horizon=1), None, id="paused, two slots"),
        pytest.param(asked("skip", 1, horizon=3), None, id="asked for a newer one, skip"),
        pytest.param(asked("allow", 0, horizon=2), None, id="asked for an older one, allow"),
        pytest.param(asked("queue", 0, horizon=3), None, id="asked for an older one, queue"),
        pytest.param(asked("cancel", 1, horizon=2), None, id="asked for a newer one, cancel"),
        pytest.param(waiting("queue"), None, id="queue"),
        pytest.param(waiting("cancel"), None, id="cancel"),
        pytest.param(waiting("queue", slots=3, horizon=3), 7, id="queue, three slots"),
        pytest.param(
            waiting("cancel", slots=3, horizon=3),
            7,
            id="cancel, three slots",
        ),
        pytest.param(seen_differently("queue", horizon=2), None, id="queue, two hosts"),
        pytest.param(seen_differently("cancel", horizon=2), None, id="cancel, two hosts"),
        pytest.param(cancelled_and_paused(), 8, id="cancel, with retries and pauses"),
    ],
)
def test_all_that_can_be_done_keeps_the_promises_and_memory_does_the_same(
    world: World, depth: int | None
) -> None:
    explored = explore(world, depth=depth, mirror=Mirror(world))
    print(explored)
    assert explored.states > 5_000


FAULTS: dict[Fault, tuple[World, str, int]] = {
    "a count of retries can fall": (retried(), "a count fell", 4),
    "the next attempt forgets the count": (retried(), "told another count", 4),
    "a pause stops no takeover": (paused(1), "won in a pause", 4),
    "a pause stops no new run": (paused(1), "won in a pause", 2),
    "the slots of a pause are caught up": (paused(1), "begun after it", 4),
    "a failed run pauses nothing": (paused(1), "its job goes on", 2),
    "used-up attempts pause nothing": (paused(1), "its job goes on", 5),
    "a slot replaces what was asked for": (asked("skip", 0), "asked for was replaced", 2),
    "what was asked for replaces a slot": (asked("skip", 1), "replaced by none", 4),
    "what was asked for is cancelled": (asked("cancel", 0), "manual has to make way", 3),
    "what was begun is withdrawn": (asked("skip", 0), "begun was withdrawn", 3),
    "all slots wait": (waiting("queue", slots=3), "several slots wait", 3),
    "a slot that waits replaces what was begun": (waiting("queue"), "replaced by none", 5),
    "a queued slot waits for live leases alone": (waiting("queue"), "an older one had ended", 3),
    "each waits for the other": (waiting("queue"), "no run comes to an end", 2),
    "a cancelled run is taken over": (waiting("cancel"), "made way was taken over", 4),
    "a cancelled run is not told": (waiting("cancel"), "was not told", 3),
    "a slot that will not run cancels": (waiting("cancel", slots=3), "make way for none", 5),
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


@pytest.mark.parametrize(
    ("world", "depth"),
    [
        pytest.param(retried(), 5, id="retried"),
        pytest.param(paused(1), 5, id="paused"),
        pytest.param(asked("skip", 0), 4, id="asked for"),
        pytest.param(waiting("queue"), 4, id="queue"),
        pytest.param(waiting("cancel"), 4, id="cancel"),
        pytest.param(paused(1), 8, id="paused, deep", marks=pytest.mark.slow),
        pytest.param(asked("cancel", 0), 5, id="asked for, deep", marks=pytest.mark.slow),
        pytest.param(seen_differently("cancel"), 5, id="two hosts, deep", marks=pytest.mark.slow),
        pytest.param(cancelled_and_paused(), 5, id="cancel and pauses", marks=pytest.mark.slow),
    ],
)
def test_situations_that_are_merged_have_the_same_future(world: World, depth: int) -> None:
    found, futures = futures_of(world, depth)
    print(f"{found} situations are {len(futures)}")
    assert [key for key, several in futures.items() if len(several) > 1] == []
    assert len(futures) < found
