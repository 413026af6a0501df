"""What befalls a chaos run, drawn from its seed: the same seed makes the same plan."""

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

INSTANCES = 6
WITH_CLOCKS = range(3, INSTANCES)
"""The instances whose wall clock can be moved; the others run as they would anywhere."""

_OfInstances = Literal["kill", "kill-all", "freeze", "term", "clock"]
_OfFiles = Literal["lock", "full", "away"]
_OfServers = Literal["server-kill", "server-restart", "server-freeze", "cut-request", "cut-answer"]
Kind = Literal[_OfInstances, _OfFiles, _OfServers]

_WEIGHTS: dict[Kind, float] = {
    "kill": 5.0,
    "kill-all": 0.3,
    "freeze": 5.0,
    "term": 3.0,
    "clock": 3.0,
    "lock": 1.0,
    "full": 0.5,
    "away": 0.6,
    "server-kill": 0.8,
    "server-restart": 0.6,
    "server-freeze": 1.2,
    "cut-request": 1.2,
    "cut-answer": 1.2,
}
_GAP = (0.5, 4.0)
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to be done, ``at`` seconds after the beginning, and undone ``length`` later.

    ``victim`` is the number of an instance; ``amount`` the seconds by which its clock is then off,
    or the bytes after which a connection is cut.
    """

    at: float
    kind: Kind
    victim: int | None = None
    length: float = 0.0
    amount: int = 0


def plan(seed: int, seconds: float, kinds: Collection[Kind]) -> list[Fault]:
    """Return the faults of the kinds that can be had here, in order of time."""
    chance = random.Random(seed)
    names = [kind for kind in _WEIGHTS if kind in kinds]
    weights = [_WEIGHTS[kind] for kind in names]
    faults = []
    at = chance.uniform(*_GAP)
    while at < seconds:
        faults.append(_fault(chance, at, chance.choices(names, weights)[0]))
        at += chance.uniform(*_GAP)
    return faults


def _fault(chance: random.Random, at: float, kind: Kind) -> Fault:
    victim = chance.randrange(INSTANCES)
    match kind:
        case "freeze":
            # Leases are 4 to 20 seconds long: most outlive the first of these, few the second.
            length = chance.choice((chance.uniform(0.2, 2.5), chance.uniform(4.5, 14.0)))
            return Fault(at, kind, victim, length)
        case "kill" | "term":
            return Fault(at, kind, victim, chance.uniform(0.0, 1.0))
        case "clock":
            amounts = (0, 0, -1, 1, -5, 5, -30, 30, -_HOUR, 2 * _HOUR)
            return Fault(at, kind, chance.choice(WITH_CLOCKS), amount=chance.choice(amounts))
        case "cut-request" | "cut-answer":
            # Batches are of some hundred bytes to some ten thousand.
            return Fault(at, kind, amount=chance.randrange(10_000))
        case "server-kill":
            return Fault(at, kind, length=chance.uniform(0.0, 1.5))
        case "server-restart":
            return Fault(at, kind)
        case "server-freeze":
            return Fault(at, kind, length=chance.uniform(0.2, 5.0))
        case "kill-all":
            return Fault(at, kind, length=chance.uniform(0.0, 1.0))
        case "lock" | "full" | "away":
            return Fault(at, kind, length=chance.uniform(0.5, 6.0))
