"""The history of a lock directory: torn lines, full disks, rotation and merging."""

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
from lockdir_bench import FaultyOs, Killed, another, backend, claim, clock, kill, locks, system

from leasecron.backends import lockdir_history, lockdir_merging
from leasecron.backends.lockdir import LockDirBackend
from leasecron.errors import BackendUnavailable
from leasecron.model import Retention, RunResult, from_seconds

__all__ = ["backend", "clock", "locks", "system"]

ALL = Retention("job", 1e9, 100_000, 0.0)
NONE = Retention("job", 1e9, 0, 0.0)
MINUTES = 60.0


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


def date_back(locks: Path, clock: HandClock) -> None:
    """Have all files of the history changed when the hand clock says that it is."""
    for path in files(locks):
        os.utime(path, (clock.now, clock.now))


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


# Merging


def fill(backend: LockDirBackend, locks: Path, clock: HandClock, number: int) -> None:
    """Make so many files with one record each, which were put aside a while ago."""
    for slot in range(number):
        backend.save_results([record(slot)])
        path = next(path for path in files(locks) if path.name.count(".") == 1)
        path.rename(path.with_name(f"{path.stem}.{round(clock.now * 1000) + slot}-0.jsonl"))
    date_back(locks, clock)
    clock.advance(11 * MINUTES)


def test_many_files_become_one(backend: LockDirBackend, locks: Path, clock: HandClock) -> None:
    fill(backend, locks, clock, 16)
    assert backend.prune([ALL]) is False
    assert len(files(locks)) == 1
    assert slots(backend) == [*range(16)]


def test_a_few_files_stay_as_they_are(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    fill(backend, locks, clock, 15)
    before = files(locks)
    backend.prune([ALL])
    assert files(locks) == before


def test_files_that_hold_little_to_keep_become_one_of_what_is_kept(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    fill(backend, locks, clock, 5)
    backend.save_results([record(5)])
    backend.prune([Retention("job", 1e9, 2, 0.0)])
    assert slots(backend) == [3, 4, 5]  # two of what was put aside, and the file that is in use
    assert len(files(locks)) == 2


def test_records_that_are_young_are_kept(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    fill(backend, locks, clock, 5)
    backend.prune([Retention("job", 1e9, 0, 11 * MINUTES - 1 - 3)])
    assert slots(backend) == [3, 4]


def test_nothing_is_left_of_what_nobody_keeps(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    fill(backend, locks, clock, 2)
    backend.prune([NONE])
    assert files(locks) == []


def test_no_job_keeps_more_than_the_limit_and_others_keep_all(
    backend: LockDirBackend, locks: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockdir_merging, "MAX_RECORDS", 3)
    fill(backend, locks, clock, 8)
    clock.advance(-11 * MINUTES)
    backend.save_results([record(slot, job="other") for slot in range(5)])
    backend.prune([Retention("job", 1e9, 100, 1e9)])
    clock.advance(22 * MINUTES)
    backend.prune([Retention("job", 1e9, 100, 1e9)])
    assert slots(backend, "job") == [5, 6, 7]
    assert slots(backend, "other") == [*range(5)]


def test_files_that_are_young_or_in_use_are_not_merged(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    fill(backend, locks, clock, 3)
    young = files(locks)[0]
    os.utime(young, (clock.now, clock.now))
    backend.save_results([record(3)])
    in_use = files(locks)[-1] if files(locks)[-1].name.count(".") == 1 else files(locks)[0]
    backend.prune([NONE])
    assert young in files(locks)
    assert in_use in files(locks)
    assert len(files(locks)) == 2


def test_a_file_that_nobody_uses_for_a_day_is_put_aside_and_merged_later(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    backend.save_results([record(0)])
    date_back(locks, clock)
    clock.advance(25 * 60 * MINUTES)
    backend.prune([NONE])
    (aside,) = files(locks)
    assert aside.name.count(".") == 2
    assert slots(backend) == [0]

    clock.advance(9 * MINUTES)
    backend.prune([NONE])
    assert slots(backend) == [0]
    clock.advance(2 * MINUTES)
    backend.prune([NONE])
    assert files(locks) == []


def test_the_history_is_looked_at_every_ten_minutes_at_most(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    backend.prune([NONE])
    clock.advance(-11 * MINUTES)
    fill(backend, locks, clock, 2)
    backend.prune([NONE])
    assert slots(backend) == [0, 1]
    clock.advance(11 * MINUTES)
    backend.prune([NONE])
    assert slots(backend) == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_merging_that_dies_at_any_call_loses_nothing(
    backend: LockDirBackend, locks: Path, clock: HandClock, system: FaultyOs, *, after: bool
) -> None:
    for number in range(0, 400, 7):
        fill(backend, locks, clock, 16)
        dying = another(backend, clock)
        with system.doing(kill(number, after=after)) as names, contextlib.suppress(Killed):
            dying.prune([ALL])
        assert slots(backend) == [*range(16)]
        if len(names) <= number:
            break
        for path in files(locks):
            path.unlink()
    else:
        raise AssertionError("more calls than were tried")


def test_two_that_merge_at_once_lose_nothing(
    backend: LockDirBackend, locks: Path, clock: HandClock, system: FaultyOs
) -> None:
    for number in range(0, 400, 7):
        fill(backend, locks, clock, 16)
        first, second = another(backend, clock), another(backend, clock)

        def fault(
            call: int,
            _name: str,
            real: Callable[[], object],
            number: int = number,
            second: LockDirBackend = second,
        ) -> object:
            if call == number:  # as where locks hold within one host only
                system.fault = None
                assert second._opened is not None
                second._opened.pruning._merging.merge([ALL], round(clock.now * 1000))
                system.fault = fault
            return real()

        with system.doing(fault) as names:
            first.prune([ALL])
        assert slots(backend) == [*range(16)]
        first.close()
        second.close()
        for path in files(locks):
            path.unlink()
        if len(names) < number:
            return
    raise AssertionError("more calls than were tried")


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


def test_claims_and_history_do_not_know_each_other(backend: LockDirBackend) -> None:
    assert claim(backend, 0, "a").outcome == "won"
    assert slots(backend) == []
    backend.save_results([record(5)])
    assert claim(backend, 1, "a").outcome == "won"
    assert from_seconds(START) == at(0)
