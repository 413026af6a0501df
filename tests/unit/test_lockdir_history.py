"""The history of a lock directory: torn lines, full disks and rotation."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import portalocker
import pytest
from contract.driver import at
from contract.hand_clock import START, HandClock
from lockdir_bench import (
    Fault,
    FaultyOs,
    Killed,
    another,
    backend,
    claim,
    clock,
    kill,
    locks,
    system,
)

from leasecron.backends.lockdir import history as lockdir_history
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.errors import BackendUnavailable
from leasecron.model import RunResult, from_seconds

__all__ = ["backend", "clock", "locks", "system"]


def record(slot: float, *, job: str = "job", instance: str = "one", error: str = "") -> RunResult:
    """Return the record of a run that took a second."""
    return RunResult(
        job=job,
        slot=at(slot),
        attempt=1,
        fence=None,
        instance=instance,
        trigger="scheduled",
        status="success",
        started_at=at(slot),
        ended_at=at(slot + 1),
        duration=1.0,
        error=error or None,
    )


def slots(backend: LockDirBackend, job: str | None = None) -> list[int]:
    """Return the slots in the history, in seconds after the start, oldest first."""
    found = backend.history(job, limit=100_000)
    return [round(result.slot.timestamp() - START) for result in reversed(found)]


def files(locks: Path) -> list[Path]:
    return sorted((locks / "history").iterdir())


def test_instances_and_kernels_have_files_of_their_own(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    backend.save_results([record(0), record(1, instance="two")])
    with clock.seen_by(boot="boot-b/ns-1"):
        other = another(backend, clock)
    other.save_results([record(2)])
    with clock.seen_by(boot="boot-a/ns-2"):  # a container of the same kernel
        third = another(backend, clock)
    third.save_results([record(3)])

    assert len(files(locks)) == 3
    assert slots(backend) == [0, 1, 2, 3]
    other.close()
    third.close()


def test_a_kernel_without_a_name_is_known_by_its_host(locks: Path, clock: HandClock) -> None:
    clock.boot = None
    made = LockDirBackend(locks, create=True)
    made.open(clock)
    made.save_results([record(0)])
    assert slots(made) == [0]
    made.close()


@pytest.mark.parametrize(
    "torn", [b'{"job":"job","slo', b'{"job":"job","slo\n', b"\xff\x00\n", b"{}"]
)
def test_a_torn_line_is_skipped_and_counted(
    backend: LockDirBackend, locks: Path, torn: bytes
) -> None:
    backend.save_results([record(0)])
    (path,) = files(locks)
    path.write_bytes(path.read_bytes() + torn)
    assert slots(backend) == [0]
    assert backend.torn_lines == 1

    backend.save_results([record(1)])
    assert slots(backend) == [0, 1]
    assert backend.torn_lines == 1
    (check,) = [check for check in backend.checks() if check.name == "history"]
    assert check.verdict == "warning"
    assert "1 lines" in check.reason


@pytest.mark.parametrize(
    "change",
    [
        {"status": "great"},
        {"trigger": "none"},
        {"attempt": "1"},
        {"slot": None},
        {"job": 5},
        {"error": 5},
        {"started_at": 10**30},
        {"instance": ["x"]},
    ],
)
def test_a_line_of_another_program_is_skipped(
    backend: LockDirBackend, locks: Path, change: dict[str, object]
) -> None:
    backend.save_results([record(0), record(1)])
    (path,) = files(locks)
    first, second = path.read_bytes().splitlines()
    path.write_text(json.dumps(json.loads(first) | change) + "\n" + second.decode() + "\n")
    assert slots(backend) == [1]
    assert backend.torn_lines == 1


def test_files_of_others_are_left_alone(backend: LockDirBackend, locks: Path) -> None:
    backend.save_results([record(0)])
    (locks / "history" / "notes.txt").write_bytes(b"x")
    (locks / "history" / ".nfs0001.jsonl").write_bytes(b"x")
    assert slots(backend) == [0]
    assert backend.torn_lines == 0


@pytest.mark.parametrize("written", [0, 30])
def test_a_full_disk_is_an_error_and_leaves_no_half_line(
    backend: LockDirBackend, locks: Path, system: FaultyOs, written: int
) -> None:
    backend.save_results([record(0)])
    (path,) = files(locks)
    before = path.read_bytes()

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name != "write":
            return real()
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with path.open("ab") as file:
            return file.write(b"x" * written)

    with system.doing(fault), pytest.raises(BackendUnavailable):
        backend.save_results([record(1)])
    assert path.read_bytes() == before
    backend.save_results([record(1)])
    assert slots(backend) == [0, 1]
    assert backend.torn_lines == 0


def test_a_process_that_dies_at_any_call_loses_no_record_of_others(
    backend: LockDirBackend, system: FaultyOs, clock: HandClock
) -> None:
    for number in range(100):
        dying = another(backend, clock)
        before = slots(backend)
        with system.doing(kill(number, after=bool(number % 2))):
            try:
                dying.save_results([record(2 * number)])
                break
            except Killed:
                pass
        backend.save_results([record(2 * number + 1)])
        found = slots(backend)
        assert found in ([*before, 2 * number + 1], [*before, 2 * number, 2 * number + 1])
    else:
        raise AssertionError("more calls than were tried")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE)
        yield


def test_a_file_that_another_process_keeps_locked_is_an_error_soon(
    backend: LockDirBackend, locks: Path
) -> None:
    backend.save_results([record(0)])
    (path,) = files(locks)
    with locked(path), pytest.raises(BackendUnavailable, match="locked"):
        backend.save_results([record(1)])
    backend.save_results([record(1)])
    assert slots(backend) == [0, 1]


def as_int(answer: object) -> int:
    assert isinstance(answer, int)
    return answer


def test_a_file_that_is_put_aside_before_the_lock_is_opened_again(
    backend: LockDirBackend, locks: Path, system: FaultyOs
) -> None:
    backend.save_results([record(0)])
    (path,) = files(locks)
    moved = path.with_name(f"{path.stem}.1-0.jsonl")

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        answer = real()
        if name == "open" and os.path.samestat(os.fstat(as_int(answer)), os.stat(path)):
            path.rename(moved)
            system.fault = None
        return answer

    with system.doing(fault):
        backend.save_results([record(1)])
    assert slots(backend) == [0, 1]
    assert len(moved.read_bytes().splitlines()) == 1


def test_a_record_that_went_into_a_file_without_a_name_is_written_again(
    backend: LockDirBackend, locks: Path, system: FaultyOs
) -> None:
    backend.save_results([record(0)])
    (path,) = files(locks)
    kept = path.with_name(f"{path.stem}.1-0.jsonl")

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "write" and not kept.exists():  # it is merged by a host that sees no locks
            kept.write_bytes(path.read_bytes())
            path.unlink()
        return real()

    with system.doing(fault):
        backend.save_results([record(1)])
    assert kept.exists()
    assert slots(backend) == [0, 1]


def test_a_large_file_is_put_aside(
    backend: LockDirBackend, locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockdir_history, "ROTATE_AT", 1000)
    for slot in range(20):
        backend.save_results([record(slot)])
    assert 3 <= len(files(locks)) <= 6
    assert slots(backend) == [*range(20)]
    newest = backend.history(limit=3)
    assert backend.history(limit=3, before=newest[0])[:2] == newest[1:]


def test_the_records_of_one_job_are_told_from_those_of_others(backend: LockDirBackend) -> None:
    names = ["job", "jo", 'j"ob', "Job", "jöb", "job\\"]
    backend.save_results([record(slot, job=name) for slot, name in enumerate(names)])
    for slot, name in enumerate(names):
        assert slots(backend, name) == [slot]
    assert backend.torn_lines == 0


def test_a_reader_misses_nothing_that_is_renamed_under_its_eyes(
    backend: LockDirBackend, locks: Path, system: FaultyOs
) -> None:
    backend.save_results([record(0)])
    backend.save_results([record(1, instance="two")])
    listed = False

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        nonlocal listed
        answer = real()
        if name == "listdir" and not listed:
            listed = True
            path = files(locks)[-1]
            path.rename(path.with_name(f"{path.stem}.1-0.jsonl"))
        return answer

    with system.doing(fault):
        assert slots(backend) == [0, 1]
    assert listed


def listing(system: FaultyOs, *answers: list[str]) -> Fault:
    """Let the first listings of the history have these answers."""
    left = [*answers]

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "listdir" and left and os.path.basename(system.arguments[0]) == "history":
            return left.pop(0)
        return real()

    return fault


def test_a_reader_looks_again_for_a_file_that_is_gone_though_it_is_listed(
    backend: LockDirBackend, locks: Path, system: FaultyOs
) -> None:
    backend.save_results([record(0)])
    (path,) = files(locks)
    path.rename(path.with_name(f"{path.stem}.1-0.jsonl"))
    # As a client lists it that believes for a while in what it has once seen of a folder.
    with system.doing(listing(system, [path.name], [path.name])):
        assert slots(backend) == [0]


def test_a_reader_looks_again_for_a_file_that_was_not_listed(
    backend: LockDirBackend, locks: Path, system: FaultyOs
) -> None:
    backend.save_results([record(0)])
    backend.save_results([record(1, instance="two")])
    # A file that is renamed while its folder is listed can be missed under both names.
    with system.doing(listing(system, [files(locks)[0].name])):
        assert slots(backend) == [0, 1]


def test_claims_and_history_do_not_know_each_other(backend: LockDirBackend) -> None:
    assert claim(backend, 0, "a").outcome == "won"
    assert slots(backend) == []
    backend.save_results([record(5)])
    assert claim(backend, 1, "a").outcome == "won"
    assert from_seconds(START) == at(0)
