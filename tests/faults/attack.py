"""One attack: a fault on the victim at one point of one scene, and what was wrong afterwards."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import leasecron
from faults.judge import Verdict, judge
from faults.lines import Lines, Point
from faults.scenes import SCENES
from faults.stage import LEASE, VICTIM, OnPurpose, Stage

MODULES = (
    *(
        "store",
        "passes",
        "pace",
        "calls",
        "runner",
        "lease_runner",
        "claim_only_runner",
        "executor",
        "backups",
    ),
    *("retries", "inbox", "backfilling"),
    *("outages", "recovery", "room", "leases", "workers", "runs", "engine"),
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
    """Raise an error that nobody expects; the victim is never stopped, and has to go on."""
    stage.met_error = True
    raise OnPurpose


def error_and_stop(stage: Stage) -> None:
    """Raise an error that nobody expects; the victim is stopped when the play says so."""
    stage.stops_after_error = True
    error(stage)


Fault = Callable[[Stage], None]
FAULTS: dict[str, Fault] = {f.__name__: f for f in (crash, pause, error, error_and_stop)}
ERRORS = (error.__name__, error_and_stop.__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """Where to attack: the point, and the scene that reaches it."""

    scene: str
    point: Point

    def __str__(self) -> str:
        return f"{self.scene}@{self.point}"


def targets(folder: Path) -> list[Target]:
    """Play all scenes without an attack and return the points that they reach.

    Each is there once for either kind of store: what one line does differs with it.
    """
    found: dict[tuple[str, Point], Target] = {}
    for name, scene in SCENES.items():
        stage = scene.stage(folder / f"recorded-{name}")

        def reached(point: Point, name: str = name, kind: str = stage.store.kind) -> None:
            if point.nth <= TIMES:
                found.setdefault((kind, point), Target(name, point))

        with Lines(FILES, stage.in_victim, reached).of_new_threads():
            scene.play(stage)
        verdict = judge(stage)
        stage.close()
        assert verdict == Verdict([], []), f"without an attack: {verdict}"
    return list(found.values())


def attack(target: Target, fault: Fault, folder: Path) -> Verdict:
    """Play the target's scene with ``fault`` at its point; return what was wrong."""
    scene = SCENES[target.scene]
    stage = scene.stage(folder)
    hits = 0

    def reached(point: Point) -> None:
        nonlocal hits
        if point == target.point:
            hits += 1
            lines.end()
            fault(stage)

    lines = Lines([target.point.file], stage.in_victim, reached, target.point.line)
    with lines.of_new_threads():
        scene.play(stage)
    verdict = judge(stage)
    if hits != 1:
        verdict.broken.append(f"the point was reached {hits} times")
    stage.close()
    return verdict


def can_raise(target: Target) -> bool:
    """Say whether the line does anything, out of which an error could come."""
    return linecache.getline(target.point.file, target.point.line).strip() not in _IDLE


def sample(found: list[Target], count: int, seed: str) -> list[Target]:
    """Draw some targets by chance."""
    return random.Random(seed).sample(found, count)
