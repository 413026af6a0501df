"""Merging the history of a lock directory: many files become one, and no record is lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from contract.hand_clock import HandClock
from lockdir_bench import FaultyOs, Killed, another, backend, clock, kill, locks, system
from test_lockdir_history import files, record, slots

from leasecron.backends.lockdir import merging as lockdir_merging
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.model import Retention

__all__ = ["backend", "clock", "locks", "system"]

ALL = Retention("job", 1e9, 100_000, 0.0)
NONE = Retention("job", 1e9, 0, 0.0)
MINUTES = 60.0


def date_back(locks: Path, clock: HandClock) -> None:
    """Have all files of the history changed when the hand clock says that it is."""
    for path in files(locks):
        os.utime(path, (clock.now, clock.now))


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
    assert slots(backend) == [4, 5]  # of the newest two, one is in the file that is in use
    assert len(files(locks)) == 2


def test_records_that_are_young_are_kept(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    fill(backend, locks, clock, 5)
    backend.prune([Retention("job", 1e9, 0, 11 * MINUTES - 1 - 3)])
    assert slots(backend) == [3, 4]


@pytest.mark.parametrize(("number", "young", "kept"), [(4, 2, 4), (1, 3, 3), (2, 2, 2)])
def test_a_record_stays_that_is_kept_by_number_or_by_age(
    backend: LockDirBackend, locks: Path, clock: HandClock, number: int, young: int, kept: int
) -> None:
    fill(backend, locks, clock, 9)
    ended_last = 11 * MINUTES - 1 - 8
    backend.prune([Retention("job", 1e9, number, ended_last + young - 1)])
    assert slots(backend) == [*range(9 - kept, 9)]


def test_what_is_added_to_a_file_after_it_was_read_is_not_lost(
    backend: LockDirBackend, locks: Path, clock: HandClock, system: FaultyOs
) -> None:
    fill(backend, locks, clock, 16)
    backend.save_results([record(16, instance="two")])
    late = next(path for path in files(locks) if path.name.count(".") == 1)
    line = late.read_bytes()
    late.unlink()
    source = files(locks)[3]

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "rename":  # by a host that has the file open since before it was put aside
            source.write_bytes(source.read_bytes() + line)
        return real()

    with system.doing(fault):
        backend.prune([ALL])
    assert len(files(locks)) == 2
    assert slots(backend) == [*range(17)]


def test_files_take_their_turn_when_there_are_more_than_are_read_at_once(
    backend: LockDirBackend, locks: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(backend, locks, clock, 12)
    monkeypatch.setattr(lockdir_merging, "MOST", 2 * files(locks)[0].stat().st_size)
    # What comes first is kept, and would for ever be looked at again.
    for path in files(locks)[:6]:
        path.write_bytes(path.read_bytes().replace(b'"job":"job"', b'"job":"jab"'))
    date_back(locks, clock)
    assert backend._opened is not None
    backend._opened.pruning._merging._place = ""  # not at the file that the time of day says
    for _ in range(6):
        clock.advance(11 * MINUTES)
        backend.prune([NONE])
    assert slots(backend) == [*range(6)]
    assert len(files(locks)) == 6


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


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_merging_that_dies_at_any_call_loses_nothing(
    backend: LockDirBackend, locks: Path, clock: HandClock, system: FaultyOs, *, after: bool
) -> None:
    for number in range(400):
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


@pytest.mark.slow
def test_two_that_merge_at_once_lose_nothing(
    backend: LockDirBackend, locks: Path, clock: HandClock, system: FaultyOs
) -> None:
    for number in range(400):
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


def test_the_newest_are_counted_over_the_whole_history_and_not_over_one_turn(
    backend: LockDirBackend, locks: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(backend, locks, clock, 12)
    monkeypatch.setattr(lockdir_merging, "MOST", 2 * files(locks)[0].stat().st_size)
    for _ in range(8):
        clock.advance(11 * MINUTES)
        backend.prune([Retention("job", 1e9, 3, 0.0)])
    kept = slots(backend)
    assert kept[-3:] == [9, 10, 11]
    assert len(kept) <= 4  # files of which half is kept stay as they are


def test_instances_that_look_at_the_same_time_look_once(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    fill(backend, locks, clock, 2)
    stamp = locks / "locks" / "merge.stamp"
    stamp.touch()
    os.utime(stamp, (clock.wall() - 5, clock.wall() - 5))  # another instance has just looked
    backend.prune([NONE])
    assert len(files(locks)) == 2
    clock.advance(11 * MINUTES)
    backend.prune([NONE])
    assert files(locks) == []
