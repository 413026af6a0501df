"""A fixed sequence of calls of a SQLite store, and what the store holds after each."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.driver import JOB, LEASE, Driver, a_claim
from contract.hand_clock import HandClock

from leasecron.backends import modes
from leasecron.backends.sqlite import backend as sqlite
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.batches import with_rows
from leasecron.backends.sqlite.setup import Journal
from leasecron.model import Declaration, Retention

Tables = dict[str, list[tuple[Any, ...]]]

FILES = sorted([*map(str, Path(sqlite.__file__).parent.glob("*.py")), modes.__file__])
"""The modules in which a line is attacked."""

_DAY = 86_400.0
_QUERIES = {
    "runs": "SELECT * FROM runs ORDER BY job, slot",
    "results": "SELECT * FROM results ORDER BY fence",
    "jobs": "SELECT * FROM jobs ORDER BY name",
    "meta": "SELECT * FROM meta ORDER BY key",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One call, ``after`` so many seconds have passed; a repetition changes nothing more."""

    name: str
    call: Callable[[Driver], object]
    after: float = 0.0


def _open(driver: Driver) -> None:
    driver.backend.open(driver.clock)


def _reopen(driver: Driver) -> None:
    driver.backend.suspend()
    driver.heartbeat(_LATE, "f")


_LATE = 40 * _DAY
_PRUNED = Retention(JOB, runs=_DAY, records=1, age=_DAY)

STEPS = (
    Step("open", _open),
    Step("declare", lambda it: it.backend.declare([Declaration(JOB, "every 10 s")])),
    Step("claim", lambda it: it.backend.claim([a_claim(0, "a"), a_claim(0, "b", job="other")])),
    Step("heartbeat", lambda it: it.heartbeat(0, "a"), after=5),
    Step("finish", lambda it: it.finish(0, "b", job="other")),
    Step("save results", lambda it: it.save(0, _fence(it, "b"), job="other")),
    Step("release", lambda it: it.release(0, "a")),
    Step("next attempt", lambda it: it.take_over(0, "c")),
    Step("takeover", lambda it: it.take_over(0, "d"), after=LEASE + 1),
    Step("claim that replaces", lambda it: it.claim(60, "e"), after=LEASE + 1),
    Step("finish, lease kept", lambda it: it.finish(60, "e", "failed", keep_lease=True)),
    Step("save a failure", lambda it: it.save(60, _fence(it, "e"), "failed", error="on purpose")),
    Step("late claim", lambda it: it.claim(_LATE, "f"), after=_LATE),
    Step("prune", lambda it: it.backend.prune([_PRUNED])),
    Step("heartbeat over a new connection", _reopen),
    Step("close", lambda it: it.backend.close()),
    Step("open again", _open),
)


def _fence(driver: Driver, token: str) -> int:
    """Return the fence with which a token of the play won: each won claim got the next one."""
    first = round(HandClock().wall() * 1000)
    return first + "abcdef".index(token)


def a_driver(path: Path, journal: Journal, clock: HandClock | None = None) -> Driver:
    """Return a store that is not open yet."""
    return Driver(SqliteBackend(path, journal=journal), clock or HandClock())


def play(driver: Driver, done: Callable[[int], object], steps: Collection[Step] = STEPS) -> None:
    """Make the calls, and say after each how many have been made."""
    with_rows.cache_clear()  # each play executes the same lines
    for number, step in enumerate(steps, start=1):
        driver.clock.advance(step.after)
        step.call(driver)
        done(number)


def clock_at(number: int) -> HandClock:
    """Return the clock as it stands at a step, counted from 0."""
    clock = HandClock()
    clock.advance(sum(step.after for step in STEPS[: number + 1]))
    return clock


def contents(path: Path) -> Tables:
    """Return the tables, without the tokens that the store made up itself."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        found = {name: connection.execute(query).fetchall() for name, query in _QUERIES.items()}
    found["runs"] = [tuple(_masked(value) for value in row) for row in found["runs"]]
    return found


def _masked(value: object) -> object:
    return "(made up)" if isinstance(value, str) and len(value) == 32 else value


def undisturbed(path: Path, journal: Journal) -> list[Tables]:
    """Return the contents after each step of a play without an attack."""
    states: list[Tables] = []
    driver = a_driver(path, journal)
    play(driver, lambda _number: states.append(contents(path)))
    driver.backend.close()
    return states
