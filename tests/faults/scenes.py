"""Short plays in which the victim does, and has done to it, all that an instance can.

Each is a function that declares its jobs and lets time pass. The attack comes somewhere within.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faults.control_scenes import asked, filled, queued, retried
from faults.stage import REFUSED, VICTIM, NotedDirectory, NotedMemory, Polled, Refusing, Stage
from leasecron import JobOptions, RunContext
from leasecron.backends.base import StoreEmptied


@dataclass(frozen=True, slots=True)
class Scene:
    """How the stage is made, given a path where nothing is, and what is played there."""

    stage: Callable[[Path], Stage]
    play: Callable[[Stage], None]


def with_leases(_place: Path) -> Stage:
    return Stage(NotedMemory())


def with_refusals(_place: Path) -> Stage:
    return Stage(Refusing())


def with_looks(_place: Path) -> Stage:
    return Stage(Polled())


def with_one_place(_place: Path) -> Stage:
    return Stage(NotedMemory(), max_running=1)


def without_leases(place: Path) -> Stage:
    return Stage(NotedDirectory(place), defaults=JobOptions())


def succeeds(_ctx: RunContext) -> None:
    """Take no time."""


def once(_ctx: RunContext) -> None:
    """Take no time."""


def fails(_ctx: RunContext) -> None:
    raise ValueError("on purpose")


def short(ctx: RunContext) -> None:
    ctx.sleep(1)


def long(ctx: RunContext) -> None:
    ctx.sleep(6)


def long_too(ctx: RunContext) -> None:
    ctx.sleep(6)


def long_as_well(ctx: RunContext) -> None:
    ctx.sleep(6)


def long_at_first(ctx: RunContext) -> None:
    ctx.sleep(30 if ctx.attempt == 1 else 1)


def ends(stage: Stage) -> None:
    """Every end that a run can have, and a stop in the middle of one."""

    def deaf(_ctx: RunContext) -> None:
        stage.deaf(5)

    stage.job("2", succeeds)
    stage.job("3", fails)
    stage.job("4", deaf, timeout=2)
    stage.job("5", long)
    stage.job("13", long_at_first)
    stage.start()
    stage.until(20)
    stage.end_victim()
    stage.until(22)


def standing_by(stage: Stage) -> None:
    """Runs of others that end, overlap, or lose their holder."""

    def holder_dies(ctx: RunContext) -> None:
        if ctx.instance == "instance-1":
            stage.crash(1)

    def always_dies(ctx: RunContext) -> None:
        if ctx.instance == "instance-1.1":
            stage.crash(1)

    stage.job("2", long, first=1)
    stage.job("3,7", long_at_first, first=2, timeout=9)
    stage.job("5,8", long_too, first=1, overlap="allow")
    stage.job("9", holder_dies, first=1)
    stage.job("17", always_dies, first=1, max_attempts=1)
    stage.start()
    stage.until(16)
    stage.restart(1)
    stage.until(18)
    stage.freeze(2, 6)  # what is abandoned is found by the victim
    stage.until(24)
    stage.restart(1)
    stage.until(25)
    stage.end_victim()
    stage.until(27)


def outages(stage: Stage) -> None:
    """An answer that is lost, an end that cannot be stored for a while, a lease that runs out."""
    stage.job("3,22", short)
    stage.job("7", long_at_first, timeout=2)
    stage.job("13", long)
    stage.start()
    stage.until(2)
    stage.slow_store(1.0)
    stage.until(3.8)
    stage.partition(VICTIM)
    stage.until(5)
    stage.heal(VICTIM)
    stage.slow_store(0)
    stage.until(8)
    stage.partition(VICTIM)
    stage.until(10)
    stage.heal(VICTIM)
    stage.until(14)
    stage.partition(VICTIM)
    stage.until(20)
    stage.heal(VICTIM)
    stage.until(21)
    stage.partition(VICTIM)
    stage.until(23)
    stage.end_victim()
    stage.until(25)


def refusals(stage: Stage) -> None:
    """A store that answers the victim by errors, for what it asks at its start and later."""
    refused = {*REFUSED}
    assert isinstance(stage.store, Refusing)
    stage.store.refuses = lambda name: name in refused and stage.in_victim()
    stage.job("2,8,12", succeeds)
    stage.job("2,10", short)
    stage.job("3,10", long)
    stage.job("7", long_too, first=1)
    stage.job("7,10", long_as_well, first=2, overlap="allow")
    stage.job("50", fails)
    stage.one_off(6, once)
    stage.start()
    stage.until(3)
    stage.schedulers[VICTIM].remove("fails")
    refused.clear()
    stage.until(10.2)
    refused |= REFUSED
    stage.until(13)
    refused &= {"save_results"}
    stage.until(14)
    refused.clear()
    stage.until(17)
    stage.end_victim()
    stage.until(18)


def waits(stage: Stage) -> None:
    """Nothing to do: what an instance says of itself is refused, lost, and then it has no job."""
    refused: set[str] = set()
    assert isinstance(stage.store, Refusing)
    stage.store.refuses = lambda name: name in refused and stage.in_victim()
    stage.job("2", succeeds)
    stage.one_off(3, once)
    stage.start()
    stage.until(40)
    refused.add("declare")
    stage.until(61)
    refused.clear()
    stage.until(85)
    stage.store.refusal = StoreEmptied
    refused.add("declare")
    stage.until(121)
    refused.clear()
    stage.until(123)
    for job in (succeeds, once):
        stage.schedulers[VICTIM].remove(job.__name__)
    stage.until(184)
    stage.end_victim()
    stage.until(186)


def clocks(stage: Stage) -> None:
    """A pause that makes slots late, a wall clock that jumps both ways, a win after a stop."""
    stage.job("2,4", succeeds, max_late=2)
    stage.job("10", long)
    stage.job("18", short)
    stage.start()
    stage.until(1.5)
    stage.freeze(VICTIM, 4)
    stage.until(11)
    stage.skew(VICTIM, 2)
    stage.until(13.5)
    stage.skew(VICTIM, 0)
    stage.until(17)
    stage.slow_store(1.0)
    stage.until(18.2)
    stage.end_victim()
    stage.slow_store(0)
    stage.until(20)


def crowd(stage: Stage) -> None:
    """More slots at once than there is room for, and more runs to look after."""
    stage.job("2", long)
    stage.job("3", short, max_late=2)
    stage.job("3,16", succeeds)
    stage.job("4", fails)
    stage.job("9", long_too, first=1)
    stage.job("9", long_as_well, first=2)
    stage.job("15", long_at_first)
    stage.start()
    stage.until(5.5)
    stage.skew(VICTIM, -6)
    stage.until(8.5)
    stage.skew(VICTIM, 0)
    stage.until(10)
    stage.schedulers[VICTIM].remove("fails")
    stage.until(16.5)
    stage.end_victim()
    stage.until(18)


def for_good(stage: Stage) -> None:
    """What there is of all that without leases."""

    def deaf(_ctx: RunContext) -> None:
        stage.deaf(3)

    stage.job("3,4", short, max_late=40)
    stage.job("6,7", long, max_late=40)
    stage.job("8", deaf, timeout=1)
    stage.job("13", fails, overlap="allow")
    stage.job("16,22", long_at_first)
    stage.job("18,22", succeeds, max_late=2)
    stage.start()
    stage.until(2)
    stage.slow_store(1.5)
    stage.until(6.5)
    stage.slow_store(0)
    stage.until(10)
    stage.skew(VICTIM, 4)
    stage.until(14)
    stage.skew(VICTIM, 0)
    stage.until(17)
    stage.end_victim()
    stage.until(17.5)
    stage.partition(VICTIM)
    stage.until(21)
    stage.heal(VICTIM)
    stage.slow_store(1.0)
    stage.until(22.2)
    stage.end_victim()
    stage.slow_store(0)
    stage.until(24)


SCENES = {
    scene.play.__name__: scene
    for scene in (
        Scene(with_leases, ends),
        Scene(with_leases, standing_by),
        Scene(with_leases, outages),
        Scene(with_refusals, refusals),
        Scene(with_refusals, waits),
        Scene(with_leases, clocks),
        Scene(with_one_place, crowd),
        Scene(without_leases, for_good),
        Scene(with_leases, retried),
        Scene(with_leases, queued),
        Scene(with_looks, asked),
        Scene(with_looks, filled),
    )
}
