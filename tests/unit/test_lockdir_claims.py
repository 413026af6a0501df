"""Claims: early and late by the file server's clock, and whatever may be in a claim's file."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from contract.driver import at
from contract.hand_clock import START, HandClock
from contract.server_clock import HandServerClock, lock_directory
from lockdir_bench import (
    FaultyOs,
    another,
    backend,
    claim,
    claim_files,
    clock,
    locks,
    system,
)

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.lockdir.clock import ProbeClock
from leasecron.model import Declaration, from_seconds

__all__ = ["backend", "clock", "locks", "system"]

DAYS = 3 * 86_400

GARBAGE = [
    b"",
    b"{",
    b"\xff\xfe",
    b"[]",
    b'"token"',
    b'{"token": 5}',
    b'{"token": "a',
    b"[" * 60_000,
]


def test_a_slot_that_is_ahead_of_the_server_is_early_and_decides_nothing(
    backend: LockDirBackend, locks: Path
) -> None:
    answer = claim(backend, 1.001, "a")
    assert (answer.outcome, answer.wait) == ("early", 1.001)
    assert [*(locks / "jobs").iterdir()] == []
    assert claim(backend, 1.0, "a").outcome == "won"


def test_a_host_whose_clock_is_ahead_is_early_and_one_behind_is_late(locks: Path) -> None:
    clock, server = HandClock(), HandServerClock(HandClock())
    backend = LockDirBackend(locks, create=True)
    backend.make_server_clock = lambda _folder, _mode: server
    backend.open(clock)
    clock.step(3600)
    assert claim(backend, 3600, "a").wait == 3600.0
    clock.step(-7200)
    assert claim(backend, -3600, "a").outcome == "late"
    assert claim(backend, -299, "a").outcome == "won"
    backend.close()


def test_a_win_that_took_too_long_is_late_and_stays_claimed(
    backend: LockDirBackend, system: FaultyOs, clock: HandClock
) -> None:
    def fault(_number: int, name: str, real: object) -> object:
        assert callable(real)
        if name == "link":
            clock.advance(301)
        return real()

    with system.doing(fault):
        assert claim(backend, 0, "a").outcome == "late"
    assert claim(backend, 0, "a").outcome == "late"
    assert claim(backend, 0, "b", max_late=1e6).outcome == "done"


def test_a_win_of_a_day_that_was_pruned_meanwhile_is_done(
    backend: LockDirBackend, locks: Path, system: FaultyOs
) -> None:
    claim(backend, 0, "a")
    (folder,) = (locks / "jobs").iterdir()

    def fault(_number: int, name: str, real: object) -> object:
        assert callable(real)
        if name == "link":
            day = at(-DAYS).date()
            (folder / f"pruned-{day.isoformat()}").touch()
        return real()

    with system.doing(fault):
        assert claim(backend, -DAYS, "a", max_late=1e9).outcome == "done"
        assert claim(backend, -DAYS + 86_400, "a", max_late=1e9).outcome == "won"


def test_a_backup_is_told_that_there_is_nothing_to_take_over(
    backend: LockDirBackend, locks: Path
) -> None:
    assert claim(backend, 0, "a", mode="takeover").outcome == "done"
    assert claim_files(locks) == []


def test_a_claim_that_only_asks_is_told_whether_its_own_token_has_won(
    backend: LockDirBackend, locks: Path
) -> None:
    claim(backend, 0, "a")
    assert claim(backend, 0, "a", mode="takeover").outcome == "won"
    assert claim(backend, 0, "b", mode="takeover").outcome == "done"
    assert len(claim_files(locks)) == 1


@pytest.mark.parametrize("content", GARBAGE)
def test_whatever_is_in_a_claim_it_is_one(
    backend: LockDirBackend, locks: Path, clock: HandClock, content: bytes
) -> None:
    claim(backend, 0, "a")
    (path,) = claim_files(locks)
    path.write_bytes(content)

    answer = claim(backend, 0, "b")
    assert (answer.outcome, answer.holder) == ("done", None)
    assert claim(backend, 1, "b").outcome == "won"
    clock.advance(1000)
    assert claim(backend, 0, "b").outcome == "done"
    assert {check.verdict for check in backend.checks()} == {"good"}


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_whatever_kind_of_file_a_claim_is_it_is_one(
    backend: LockDirBackend, locks: Path, tmp_path: Path, kind: str
) -> None:
    claim(backend, 0, "a")
    (path,) = claim_files(locks)
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "nothing")
    else:
        os.mkfifo(path)

    answer = claim(backend, 0, "a")
    assert (answer.outcome, answer.holder) == ("done", None)
    assert claim(backend, 1, "b").outcome == "won"


def test_a_claim_says_who_made_it_and_when(backend: LockDirBackend, locks: Path) -> None:
    claim(backend, 0, "a", instance="i" * 5000 + "\ud800")
    said = json.loads(claim_files(locks)[0].read_bytes())
    assert said == {
        "token": "a",
        "instance": "i" * 1000,
        "host": os.uname().nodename,
        "pid": os.getpid(),
        "claimed_at": round(START * 1000),
    }


def test_days_used_long_ago_are_forgotten_and_work_all_the_same(
    backend: LockDirBackend, clock: HandClock
) -> None:
    for _ in range(2):
        for day in range(8):
            token = f"t{day}"
            assert claim(backend, -86_400 * day, token, max_late=1e9).outcome == "won"


def test_a_job_whose_file_is_damaged_was_first_seen_when_it_was_written(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    backend.declare([Declaration("job", "every 10s")])
    (path,) = (locks / "jobs").glob("*/job.json")
    assert json.loads(path.read_bytes())["name"] == "job"
    for content in (*GARBAGE, b'{"first_seen": -5}', b'{"first_seen": 1e99}'):
        path.write_bytes(content)
        os.utime(path, (START - 1000, START - 1000))
        assert backend.declare([Declaration("job", "")]) == [at(-1000)]


def test_the_probe_tells_the_time_of_the_filesystem_and_goes_with_its_backend(
    tmp_path: Path,
) -> None:
    reference = tmp_path / "reference"
    reference.write_bytes(b"")
    probe = ProbeClock(str(tmp_path), 0o600)
    before = reference.stat().st_mtime_ns
    read = probe.read_ns()
    os.utime(reference)
    assert before <= read <= reference.stat().st_mtime_ns
    held = [probe.is_held]
    probe.suspend()
    held.append(probe.is_held)
    assert held == [True, False]
    assert probe.read_ns() >= read
    assert len([*tmp_path.iterdir()]) == 2
    probe.close()
    probe.close()
    assert [*tmp_path.iterdir()] == [reference]


def test_a_probe_that_was_removed_is_made_again(tmp_path: Path) -> None:
    probe = ProbeClock(str(tmp_path), 0o600)
    first = probe.read_ns()
    (path,) = tmp_path.iterdir()
    probe.suspend()
    path.unlink()
    assert probe.read_ns() >= first
    assert [*tmp_path.iterdir()] == [path]
    probe.close()


def test_a_probe_that_fails_is_opened_afresh(tmp_path: Path, system: FaultyOs) -> None:
    probe = ProbeClock(str(tmp_path), 0o600)
    first = probe.read_ns()
    failing = True

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        nonlocal failing
        failing = failing and name != "open"
        if name == "utime" and failing:  # as of what was open before its server was started again
            raise OSError(errno.EIO, "what was open is of no use any more")
        return real()

    with system.doing(fault):
        with pytest.raises(OSError, match="no use"):
            probe.read_ns()
        assert not probe.is_held
        assert probe.read_ns() >= first
    probe.close()
    assert [*tmp_path.iterdir()] == []


def test_a_real_server_clock_decides(locks: Path) -> None:
    made = LockDirBackend(locks, create=True)
    made.open()
    now = locks.joinpath("clocks").stat().st_mtime
    offset = now - START
    assert claim(made, offset, "a").outcome == "won"
    assert claim(made, offset - 400, "a").outcome == "late"
    assert claim(made, offset + 400, "a").outcome == "early"
    (seen,) = made.declare([Declaration("job", "")])
    assert seen >= from_seconds(now - 1)
    made.close()


def test_processes_do_not_share_a_probe(backend: LockDirBackend, locks: Path) -> None:
    first = LockDirBackend(locks)
    second = LockDirBackend(locks)
    first.open()
    second.open()
    assert len([*(locks / "clocks").iterdir()]) == 2
    first.close()
    second.close()
    assert [*(locks / "clocks").iterdir()] == []


def test_another_process_sees_what_was_claimed(backend: LockDirBackend, clock: HandClock) -> None:
    claim(backend, 0, "a")
    other = another(backend, clock)
    assert claim(other, 0, "b").holder == "instance-a"
    other.close()


def test_a_directory_behind_a_symbolic_link_is_one(
    tmp_path: Path, locks: Path, clock: HandClock
) -> None:
    (tmp_path / "real").mkdir()
    locks.symlink_to(tmp_path / "real")
    made = lock_directory(locks, clock)
    made.open(clock)
    assert claim(made, 0, "a").outcome == "won"
    made.close()
