"""A SQLite store when a process dies before any line of it, or a line raises.

Every line of the store's modules counts each time that it is executed in a play of 17 calls, over
both kinds of journal. The failing ones are named, and ``killed_at`` and ``raised_at`` replay them.
"""

from __future__ import annotations

import inspect
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.requirements import require

from faults.lines import Point
from faults.sqlite_attack import after_death, after_error, begins, killed_at, raised_at, recorded
from faults.sqlite_play import STEPS, undisturbed
from leasecron.backends.sqlite import connection as sqlite_connection
from leasecron.backends.sqlite.connection import _Link
from leasecron.backends.sqlite.setup import Journal

CHUNKS = 8
SEED = 20261130
OPEN, CLOSE = 0, len(STEPS) - 2
FULL = ("claim", "takeover", "finish", "prune")  # of these the fast tests try each transaction


class Stopped(BaseException):
    """What is no error, and ends a thread all the same."""


def disk_error() -> BaseException:
    return sqlite3.OperationalError("disk I/O error")


ERRORS: tuple[Callable[[], BaseException], ...] = (disk_error, Stopped)


@pytest.fixture(params=["wal", "delete"])
def journal(request: pytest.FixtureRequest) -> Journal:
    require(hasattr(os, "fork"), "needs processes that can be forked")
    chosen: Journal = request.param
    return chosen


def die_at(lines: list[int], place: Path, journal: Journal) -> None:
    states = undisturbed(place / "undisturbed.db", journal)
    for line in lines:
        path = place / f"{line}.db"
        steps = killed_at(line, path, journal)
        assert after_death(steps, path, journal, states) == [], f"killed_at({line}, ..., {journal})"
        remove(path)


def raise_at(points: list[tuple[int, int]], place: Path, journal: Journal) -> None:
    states = undisturbed(place / "undisturbed.db", journal)
    for step, line in points:
        for error in ERRORS:
            path = place / f"{step}-{line}-{error.__name__}.db"
            driver = raised_at(step, line, error, path, journal)
            wrong = after_error(step, driver, path, states)
            assert wrong == [], f"raised_at({step}, {line}, {error.__name__}, ..., {journal})"
            remove(path)


def remove(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def of_a_transaction(point: Point) -> bool:
    """Say whether it is a line of what surrounds BEGIN and COMMIT."""
    if point.file != sqlite_connection.__file__:
        return False
    for function in (_Link.transaction, _Link.in_turn):
        source, begin = inspect.getsourcelines(function)
        if begin <= point.line < begin + len(source):
            return True
    return False


def transactions(steps: list[list[Point]]) -> Iterator[tuple[int, int]]:
    """Yield step and line, counted in the step, around BEGIN and COMMIT."""
    for step, lines in enumerate(steps):
        if STEPS[step].name in FULL:
            yield from ((step, n) for n, point in enumerate(lines) if of_a_transaction(point))


def calls(steps: list[list[Point]]) -> list[tuple[int, int]]:
    """Return step and line of all that an open store does."""
    return [(step, n) for step in range(OPEN + 1, CLOSE) for n in range(len(steps[step]))]


def test_a_store_survives_a_kill_around_a_commit_and_while_it_is_made(
    place: Path, journal: Journal
) -> None:
    steps = recorded(place / "recorded.db", journal)
    offsets = begins(steps)
    around = [offsets[step] + line for step, line in transactions(steps)]
    making = random.Random(SEED).sample(range(len(steps[OPEN])), 8)
    print(f"seed {SEED}: {len(around)} lines around BEGIN and COMMIT, {making} of the opening")
    assert len(around) > 20
    die_at(around[:: max(1, len(around) // 16)] + making, place, journal)


def test_an_error_around_a_commit_leaves_all_or_nothing_and_a_usable_connection(
    place: Path, journal: Journal
) -> None:
    points = [*transactions(recorded(place / "recorded.db", journal))]
    print(f"seed {SEED}: half of {len(points)} lines, {len(ERRORS)} errors at each")
    raise_at(random.Random(SEED).sample(points, len(points) // 2), place, journal)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_store_survives_a_kill_at_every_line(chunk: int, place: Path, journal: Journal) -> None:
    total = begins(recorded(place / "recorded.db", journal))[-1]
    print(f"{len(range(chunk, total, CHUNKS))} of {total} lines")
    die_at([*range(chunk, total, CHUNKS)], place, journal)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_an_error_at_any_line_leaves_all_or_nothing_and_a_usable_connection(
    chunk: int, place: Path, journal: Journal
) -> None:
    points = calls(recorded(place / "recorded.db", journal))
    print(f"{len(points[chunk::CHUNKS])} of {len(points)} lines, {len(ERRORS)} errors at each")
    raise_at(points[chunk::CHUNKS], place, journal)
