"""Many processes on one SQLite file: first opens, shared slots, and the size of the log."""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from contract.driver import a_claim

from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.schema import CHANGES
from leasecron.model import Ending

LONG = 1e9
WAL_LIMIT = 16 * 1024 * 1024

_spawn = multiprocessing.get_context("spawn")


def together(work: Callable[..., Any], processes: int, *arguments: Any) -> list[Any]:
    """Call ``work(number, barrier, *arguments)`` in so many processes; return their answers."""
    barrier = _spawn.Barrier(processes)
    answers: Queue[tuple[bool, Any]] = _spawn.Queue()
    children = [
        _spawn.Process(target=_answer, args=(answers, work, number, barrier, *arguments))
        for number in range(processes)
    ]
    for child in children:
        child.start()
    found = [answers.get(timeout=100) for _ in children]
    for child in children:
        child.join()
    assert [answer for well, answer in found if not well] == []
    return [answer for _well, answer in found]


def _answer(answers: Queue[tuple[bool, Any]], work: Callable[..., Any], *arguments: Any) -> None:
    try:
        answers.put((True, work(*arguments)))
    except BaseException as error:
        answers.put((False, repr(error)))


def open_at_once(number: int, barrier: Barrier, folder: Path, rounds: int) -> list[str]:
    """Open the missing file of each round at the same moment as the others."""
    outcomes: list[str] = []
    for turn in range(rounds):
        backend = SqliteBackend(folder / f"store-{turn}.db")
        barrier.wait(60)
        backend.open()
        claim = a_claim(0, f"t{number}", max_late=LONG, lease=LONG)
        outcomes.append(backend.claim([claim])[0].outcome)
        barrier.wait(60)
        backend.close()
    return outcomes


def check_first_opens(folder: Path, processes: int, rounds: int) -> None:
    outcomes = together(open_at_once, processes, folder, rounds)

    for turn in range(rounds):
        assert sorted(per_process[turn] for per_process in outcomes) == [
            *["running"] * (processes - 1),
            "won",
        ]
        with closing(sqlite3.connect(folder / f"store-{turn}.db")) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA user_version").fetchone() == (len(CHANGES),)
            assert connection.execute("SELECT count(*) FROM meta").fetchone() == (1,)


def test_a_missing_file_is_opened_by_a_few_at_once(tmp_path: Path) -> None:
    check_first_opens(tmp_path, processes=4, rounds=3)


@pytest.mark.slow
def test_a_missing_file_is_opened_by_many_at_once(tmp_path: Path) -> None:
    check_first_opens(tmp_path, processes=16, rounds=20)


def claim_every_slot(number: int, barrier: Barrier, path: Path, slots: int) -> list[int]:
    """Claim every slot in an order of its own; return those that were won."""
    backend = SqliteBackend(path, durability="normal")
    backend.open()
    order = list(range(slots))
    random.Random(number).shuffle(order)
    barrier.wait(60)
    won = []
    for slot in order:
        claim = a_claim(slot, f"t{number}", overlap="allow", max_late=LONG, lease=LONG)
        if backend.claim([claim])[0].outcome == "won":
            won.append(slot)
    backend.close()
    return won


def check_shared_slots(path: Path, processes: int, slots: int) -> None:
    won = together(claim_every_slot, processes, path, slots)

    assert sorted(slot for per_process in won for slot in per_process) == list(range(slots))


def test_each_shared_slot_is_won_by_one_process(tmp_path: Path) -> None:
    check_shared_slots(tmp_path / "store.db", processes=3, slots=60)


@pytest.mark.slow
def test_each_of_many_shared_slots_is_won_by_one_of_many_processes(tmp_path: Path) -> None:
    check_shared_slots(tmp_path / "store.db", processes=8, slots=500)


def run_many(number: int, barrier: Barrier, path: Path, runs: int) -> int:
    """Claim and finish many runs; return the greatest size that the log had."""
    backend = SqliteBackend(path, durability="normal")
    backend.open()
    barrier.wait(60)
    largest = 0
    for first in range(0, runs, 50):
        claims = [
            a_claim(slot, f"t{number}", job=f"job-{number}", overlap="allow", max_late=LONG)
            for slot in range(first, first + 50)
        ]
        assert {answer.outcome for answer in backend.claim(claims)} == {"won"}
        assert all(backend.finish([Ending(c.job, c.slot, c.token, "success") for c in claims]))
        backend.unfinished([f"job-{number}"])
        largest = max(largest, os.stat(f"{path}-wal").st_size)
    barrier.wait(60)
    with closing(sqlite3.connect(path, timeout=1)) as outside:
        if number == 0:
            assert outside.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    barrier.wait(60)
    backend.close()
    return largest


def check_log(path: Path, processes: int, runs: int) -> None:
    assert max(together(run_many, processes, path, runs)) <= WAL_LIMIT


@pytest.mark.slow
def test_the_log_stays_small_and_can_be_emptied_from_outside(tmp_path: Path) -> None:
    check_log(tmp_path / "store.db", processes=2, runs=2500)


@pytest.mark.slow
def test_the_log_stays_small_over_many_runs(tmp_path: Path) -> None:
    check_log(tmp_path / "store.db", processes=4, runs=12_500)
