"""What becomes of a SQLite store when one of its lines is the last, or raises."""

from __future__ import annotations

import mmap
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import accumulate
from pathlib import Path

from contract.driver import Driver, at

from faults.lines import Lines, Point
from faults.sqlite_play import FILES, STEPS, Tables, a_driver, clock_at, contents, play
from leasecron.backends.sqlite.setup import Journal

_MUCH_LATER = 100 * 86_400.0


def recorded(path: Path, journal: Journal) -> list[list[Point]]:
    """Return the lines that each step of the play executes, in order."""
    lines: list[Point] = []
    ends: list[int] = []
    driver = a_driver(path, journal)
    with Lines(FILES, lambda: True, lines.append).of_this_thread():
        play(driver, lambda _number: ends.append(len(lines)))
    driver.backend.close()
    return [lines[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def begins(steps: list[list[Point]]) -> list[int]:
    """Return how many lines come before each step."""
    return [0, *accumulate(len(lines) for lines in steps)]


def killed_at(line: int, path: Path, journal: Journal) -> int:
    """Play in a forked process that dies by SIGKILL at its n-th line, counted from 0.

    Returns how many steps it had made by then.
    """
    done = mmap.mmap(-1, 1)  # shared with the child
    child = os.fork()
    if not child:
        try:
            _play_until(line, path, journal, done)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), f"line {line} was not reached: status {status}"
    assert os.WTERMSIG(status) == signal.SIGKILL
    with closing(done):
        return done[0]


def _play_until(line: int, path: Path, journal: Journal, done: mmap.mmap) -> None:
    left = line

    def reached(_point: Point) -> None:
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    with Lines(FILES, lambda: True, reached).of_this_thread():
        play(a_driver(path, journal), lambda number: done.__setitem__(0, number))


def after_death(steps: int, path: Path, journal: Journal, states: list[Tables]) -> list[str]:
    """Open the store again after so many steps, and return what is wrong with it."""
    clock = clock_at(min(steps, len(STEPS) - 1))
    driver = a_driver(path, journal, clock)
    driver.backend.open(clock)
    wrong = [] if _integrity(path) == "ok" else ["the file is damaged"]
    found = contents(path)
    if found not in (states[max(0, steps - 1)], states[min(steps, len(states) - 1)]):
        wrong.append(f"neither before nor after {STEPS[steps].name!r}: {found}")
    wrong += _goes_on(driver, found)
    driver.backend.close()
    return wrong


def raised_at(
    step: int, line: int, error: Callable[[], BaseException], path: Path, journal: Journal
) -> Driver:
    """Play up to a step that raises at its n-th line, counted from 0; return the open store."""
    driver = a_driver(path, journal)
    play(driver, lambda _number: None, STEPS[:step])
    left = line

    def reached(_point: Point) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise error()

    driver.clock.advance(STEPS[step].after)
    with suppress(BaseException), Lines(FILES, lambda: True, reached).of_this_thread():
        STEPS[step].call(driver)
    assert left < 0, f"line {line} of {STEPS[step].name!r} was not reached"
    return driver


def after_error(step: int, driver: Driver, path: Path, states: list[Tables]) -> list[str]:
    """Look at a store in which a step met an error, and make the step again."""
    wrong = []
    found = contents(path)
    if found not in (states[step - 1], states[step]):
        wrong.append(f"neither before nor after {STEPS[step].name!r}: {found}")
    STEPS[step].call(driver)
    if contents(path) != states[step]:
        wrong.append(f"made again, {STEPS[step].name!r} had another effect: {contents(path)}")
    wrong += _goes_on(driver, states[step])
    driver.backend.close()
    return wrong


def _goes_on(driver: Driver, found: Tables) -> list[str]:
    """Make a new attempt of what is unfinished and win a new run, when all leases are over."""
    wrong = []
    driver.clock.advance(_MUCH_LATER)
    fences = [row[6] for row in found["runs"]] + [row[0] for row in found["results"]]
    for state in driver.unfinished():
        slot = (state.slot - at(0)).total_seconds()
        again = driver.take_over(slot, "backup")
        if state.alive or again.outcome not in ("won", "done"):
            wrong.append(f"{state} cannot be attempted again: {again}")
        fences.append(again.fence or 0)
    late = driver.clock.now - clock_at(0).now
    if driver.win(late, "new", overlap="allow") <= max(fences, default=0):
        wrong.append("a fence that does not rise")
    if driver.heartbeat(late, "new") != "ok" or not driver.finish(late, "new"):
        wrong.append("a new run cannot be held and finished")
    return wrong


def _integrity(path: Path) -> str:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchall()[0][0])
