"""Processes on one lock directory: slots that many claim at once, and deaths by SIGKILL."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from support.claim_race import JOB, a_claim, race
from support.killed_at import killed_at

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.model import RunResult, from_ms

MOST_CALLS = 1000
SECOND = 1000
START = round(time.time() * SECOND) - 10_000 * SECOND


@contextmanager
def opened(path: Path, *, create: bool = False) -> Iterator[LockDirBackend]:
    backend = LockDirBackend(path, create=create)
    backend.open()
    yield backend
    backend.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a new lock directory."""
    path = tmp_path / "store"
    with opened(path, create=True):
        return path


@pytest.mark.parametrize(
    ("processes", "slots"), [(4, 200), pytest.param(16, 1000, marks=pytest.mark.slow)]
)
def test_each_slot_is_won_by_one_process(path: Path, processes: int, slots: int) -> None:
    ended = race([path] * processes, slots)

    print(f"{ended.seconds:.1f} s")
    assert ended.doubles == []
    assert ended.unwon == []


def test_processes_that_make_the_directory_at_once_agree_on_it(tmp_path: Path) -> None:
    ended = race([tmp_path / "store"] * 4, 50, create=True)

    assert ended.doubles == []
    assert ended.unwon == []


def each_death(work: Callable[[int], object]) -> Iterator[int]:
    """Do ``work`` in processes that die at call 1, 2, ..., until one comes to its end.

    It is told the number, which comes back after the death.
    """
    for call in range(1, MOST_CALLS):
        if not killed_at(call, partial(work, call)):
            print(f"{call - 1} deaths")
            assert call > 10, "the calls are not counted"
            return
        yield call
    pytest.fail(f"there is no end after {MOST_CALLS} calls")


def slot_of(call: int) -> int:
    """Return a slot for each call, with one after it that is free."""
    return START + 2 * call * SECOND


def outcome(path: Path, slot: int, token: str) -> str:
    """Claim a slot as a process does that has just begun."""
    with opened(path) as backend:
        return backend.claim([a_claim(slot, token)])[0].outcome


def no_links(*_arguments: object, **_named: object) -> None:
    raise OSError(errno.EPERM, "this filesystem has no links")


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False])
def test_a_slot_whose_claimer_dies_at_any_call_is_claimed_or_free(
    path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    seen = set()
    for call in each_death(lambda call: outcome(path, slot_of(call), "dead")):
        slot = slot_of(call)
        others = outcome(path, slot, "other")
        its_own = outcome(path, slot, "dead")  # as if it had not died, but lost the answer
        assert outcome(path, slot, "third") == "done"
        seen.add((others, its_own))
        assert outcome(path, slot + SECOND, "other") == "won"
    # Without links a claim can be half-written, and then the slot is nobody's.
    assert seen - {("done", "done")} == {("won", "done"), ("done", "won")}
    assert links == (("done", "done") not in seen)


@pytest.mark.slow
def test_a_directory_whose_maker_dies_at_any_call_can_be_made_by_the_next(tmp_path: Path) -> None:
    def make(call: int) -> None:
        with opened(tmp_path / str(call), create=True):
            pass

    for call in each_death(make):
        path = tmp_path / str(call)
        with opened(path, create=True) as backend:
            assert backend.claim([a_claim(START, "one")])[0].outcome == "won"
        assert outcome(path, START, "other") == "done"


def a_result(call: int) -> RunResult:
    at = from_ms(slot_of(call))
    return RunResult(
        job=JOB,
        slot=at,
        attempt=1,
        fence=None,
        instance="writer",
        trigger="scheduled",
        status="success",
        started_at=at,
        ended_at=at,
        duration=0.0,
    )


def test_history_is_readable_whenever_its_writer_dies(path: Path) -> None:
    def save(call: int) -> None:
        with opened(path) as backend:
            backend.save_results([a_result(call)])

    save(0)
    for call in each_death(save):
        with opened(path) as backend:
            before = [a_result(number) for number in reversed(range(call))]
            assert backend.history(JOB, limit=MOST_CALLS) in (before, [a_result(call), *before])
            # Whoever lives on can say it again, whatever the dead one has left.
            backend.save_results([a_result(call)])
            assert backend.history(JOB, limit=MOST_CALLS) == [a_result(call), *before]
