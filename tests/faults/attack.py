"""One attack: a fault on the victim at one point of one scene, and what was wrong afterwards."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import leasecron
from faults.judge import judge
from faults.lines import Lines, Point
from faults.scenes import SCENES
from faults.stage import LEASE, VICTIM, OnPurpose, Stage

MODULES = (
    *("store", "calls", "runner", "lease_runner", "claim_only_runner", "executor", "backups"),
    *("recovery", "room", "leases", "workers", "runs", "engine"),
)
FILES = tuple(str(Path(leasecron.__file__).with_name(f"{module}.py")) for module in MODULES)
_IDLE = {"try:", "while True:", "return", "return True", "return False", "break", "continue"}
TIMES = 2
"""A point is attacked where it is reached for the first time and for the second."""


def crash(stage: Stage) -> None:
    """Kill the victim; the caller is one of its threads and goes no further."""
    stage.crash(VICTIM)


def pause(stage: Stage) -> None:
    """Let the victim stand still for longer than its leases last."""
    stage.freeze(VICTIM, 1.5 * LEASE)


def error(stage: Stage) -> None:
    """Raise an error that nobody expects."""
    stage.met_error = True
    raise OnPurpose


Fault = Callable[[Stage], None]
FAULTS: dict[str, Fault] = {fault.__name__: fault for fault in (crash, pause, error)}


@dataclass(frozen=True, slots=True)
class Target:
    """Where to attack: the point, and the scene that reaches it."""

    scene: str
    point: Point

    def __str__(self) -> str:
        return f"{self.scene}@{self.point}"


def targets(folder: Path) -> list[Target]:
    """Play all scenes without an attack and return the points that they reach, each once."""
    found: dict[Point, Target] = {}
    for name, scene in SCENES.items():
        stage = scene.stage(folder / f"recorded-{name}")

        def reached(point: Point, name: str = name) -> None:
            if point.nth <= TIMES:
                found.setdefault(point, Target(name, point))

        with Lines(FILES, stage.in_victim, reached).of_new_threads():
            scene.play(stage)
        wrong = judge(stage)
        stage.close()
        assert not wrong, f"without an attack: {wrong}"
        assert all(stage.stops)
    return list(found.values())


def attack(target: Target, fault: Fault, folder: Path) -> list[str]:
    """Play the target's scene with ``fault`` at its point; return what was wrong."""
    scene = SCENES[target.scene]
    stage = scene.stage(folder)
    hits = 0

    def reached(point: Point) -> None:
        nonlocal hits
        if point == target.point:
            hits += 1
            fault(stage)

    with Lines([target.point.file], stage.in_victim, reached).of_new_threads():
        scene.play(stage)
    wrong = judge(stage)
    if hits != 1:
        wrong.append(f"the point was reached {hits} times")
    if not all(stage.stops):
        wrong.append("the victim did not stop")
    stage.close()
    return wrong


def can_raise(target: Target) -> bool:
    """Say whether the line does anything, out of which an error could come."""
    return linecache.getline(target.point.file, target.point.line).strip() not in _IDLE


def sample(found: list[Target], count: int, seed: int) -> list[Target]:
    """Draw some targets by chance."""
    return random.Random(seed).sample(found, count)
