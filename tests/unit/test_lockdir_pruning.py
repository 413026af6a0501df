"""Which claims go, and that none goes that could be won again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest
from contract.driver import a_claim, at
from contract.hand_clock import START, HandClock
from contract.server_clock import lock_directory
from lockdir_bench import (
    FaultyOs,
    Killed,
    another,
    backend,
    claim,
    claim_files,
    clock,
    kill,
    locks,
    system,
)

from leasecron.backends.base import PRUNE_BATCH
from leasecron.backends.lockdir import locks as lockdir_locks
from leasecron.backends.lockdir import pruning as lockdir_pruning
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.lockdir.names import folder_of_job
from leasecron.model import Retention, to_ms

__all__ = ["backend", "clock", "locks", "system"]

DAY = 86_400.0
LONG = 1e9
MOST_WAIT = 0.75  # seconds that a call of a store may wait for others


def days(locks: Path) -> list[str]:
    """Return the days of which there are claims, of one job."""
    return sorted(path.name for path in (locks / "jobs").glob("*/*") if path.is_dir())


def test_a_day_goes_once_all_of_it_is_out_of_every_window(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    midnight = DAY - START % DAY
    clock.advance(midnight)
    claim(backend, midnight - 0.001, "a", max_late=LONG)
    claim(backend, midnight - DAY, "a", max_late=LONG)
    claim(backend, midnight, "a", max_late=LONG)

    clock.advance(1000.0 + 120.0 - 0.001)
    backend.prune([Retention("job", 1000.0, 0, 0.0)])
    assert len(days(locks)) == 2
    clock.advance(0.001)
    assert backend.prune([Retention("job", 1000.0, 1, 0.0)]) is False
    assert len(days(locks)) == 1
    assert len(claim_files(locks)) == 1


def test_chance_never_prunes_what_could_be_won(locks: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    clock = HandClock()
    backend = lock_directory(locks, clock)
    backend.open(clock)
    won: set[float] = set()
    for _ in range(300):
        clock.advance(chance.choice([1.0, 600.0, 3 * 3600.0, DAY]))
        max_late = chance.choice([60.0, 3600.0, 2 * DAY])
        slot = round(clock.now - START) - round(chance.random() * 1.5 * max_late)
        outcome = claim(backend, slot, f"t{chance.random()}", max_late=max_late).outcome
        assert outcome in {"won", "done", "late"}
        assert outcome != "won" or slot not in won
        if outcome == "won":
            won.add(slot)
        if won and chance.random() < 0.5:
            again = chance.choice(sorted(won))
            assert claim(backend, again, "again", max_late=2 * DAY).outcome in {"done", "late"}
        backend.prune([Retention("job", 2 * DAY, 0, 0.0)])
    backend.close()


def test_of_the_newest_day_one_claim_stays_for_ever(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    claims = [a_claim(-number, "a", overlap="allow", max_late=LONG) for number in range(10)]
    backend.claim(claims)
    clock.advance(1000 * DAY)
    assert backend.prune([Retention("job", 0.0, 0, 0.0)]) is False
    assert [path.name for path in claim_files(locks)] == [str(to_ms(at(0)))]


def test_a_call_removes_a_bounded_number_of_claims(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    old = [a_claim(-2 * DAY - n / 1000, "a", max_late=LONG) for n in range(PRUNE_BATCH + 200)]
    backend.claim([*old, a_claim(0, "a")])
    clock.advance(10 * DAY)
    retention = Retention("job", DAY, 0, 0.0)
    assert backend.prune([retention]) is True
    assert len(claim_files(locks)) == 201
    assert backend.prune([retention]) is False
    assert len(claim_files(locks)) == 1
    assert len(days(locks)) == 1


def test_a_call_looks_at_a_bounded_number_of_names(
    backend: LockDirBackend, locks: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockdir_pruning._Budget, "__init__", _little_room)
    jobs = [f"job-{number}" for number in range(10)]
    for job in jobs:
        claim(backend, 0, "a", job=job)
        claim(backend, -3 * DAY, "a", job=job, max_late=LONG)
    clock.advance(10 * DAY)
    retentions = [Retention(job, DAY, 0, 0.0) for job in jobs]
    calls = 1
    while backend.prune(retentions):
        calls += 1
        assert calls < 30
    assert calls > 3
    assert len(claim_files(locks)) == 10


def _little_room(room: lockdir_pruning._Budget) -> None:
    room.files, room.names = 1000, 5


def test_a_day_of_very_many_claims_goes_in_bounded_calls_and_is_never_listed_whole(
    backend: LockDirBackend, locks: Path, clock: HandClock, system: FaultyOs
) -> None:
    for slot in (-3 * DAY, 0):
        claim(backend, slot, "a", max_late=LONG)
    old, newest = (locks / "jobs" / folder_of_job("job") / day for day in days(locks))
    (one,) = old.iterdir()
    for number in range(1, 30_000):
        old.joinpath(str(int(one.name) + number)).hardlink_to(one)
    clock.advance(10 * DAY)

    listed: set[str] = set()

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        if name == "listdir":
            listed.add(system.arguments[0])
        return real()

    removed, left = [], True
    with system.doing(fault) as names:
        while left:
            left = backend.prune([Retention("job", DAY, 0, 0.0)])
            removed.append(names.count("unlink"))
            names.clear()
            assert len(removed) < 50
    assert sum(removed) == 30_000
    assert max(removed) <= PRUNE_BATCH
    assert not old.exists()
    assert str(newest) in listed
    assert str(old) not in listed


def test_what_crashes_left_goes_after_a_day_and_nothing_else(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    claim(backend, 0, "a")
    (day,) = {path.parent for path in claim_files(locks)}
    left = [
        day / ".1790000000000.abc",
        day.parent / ".job.json.abc",
        locks / ".leasecron.json.abc",
        locks / "history" / ".merged.abc",
        locks / "clocks" / "host-1-abc",
    ]
    others = [day / ".nfs0001", locks / ".hidden", locks / "clocks" / ".nfs0002", day / "notes"]
    young = [path.with_name(path.name + "1") for path in left]
    for path in (*left, *others, *young):
        path.write_bytes(b"")
        age = 100 if path in young else DAY + 100
        os.utime(path, (clock.now - age, clock.now - age))

    assert backend.prune([Retention("job", 100 * DAY, 0, 0.0)]) is False
    assert [path for path in left if path.exists()] == []
    assert [path for path in (*others, *young) if not path.exists()] == []
    assert claim(backend, 0, "b").outcome == "done"


def test_a_folder_with_something_of_others_in_it_stays(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    claim(backend, -3 * DAY, "a", max_late=LONG)
    claim(backend, 0, "a")
    (old, _new) = sorted({path.parent for path in claim_files(locks)})
    (old / ".nfs0001").write_bytes(b"")
    clock.advance(10 * DAY)
    assert backend.prune([Retention("job", DAY, 0, 0.0)]) is False
    assert [path.name for path in old.iterdir()] == [".nfs0001"]


def test_a_folder_that_is_none_keeps_no_other_job_from_being_pruned(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    claim(backend, -3 * DAY, "a", max_late=LONG)
    claim(backend, 0, "a")
    (locks / "jobs" / folder_of_job("file")).write_bytes(b"")
    clock.advance(10 * DAY)
    jobs = [Retention(job, DAY, 0, 0.0) for job in ("file", "job")]
    assert backend.prune(jobs) is False
    assert len(days(locks)) == 1


class HandTime:
    """The module ``time``, where sleeping takes no time."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_nothing_is_done_while_another_one_prunes(
    backend: LockDirBackend, locks: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(backend, -3 * DAY, "a", max_late=LONG)
    claim(backend, 0, "a")
    clock.advance(10 * DAY)
    retention = Retention("job", DAY, 0, 0.0)
    hand_time = HandTime()
    monkeypatch.setattr(lockdir_locks, "time", hand_time)
    with filelock.FileLock(locks / "locks" / "prune.lock", fallback_to_soft=False):
        assert backend.prune([retention]) is False
        assert 0 < hand_time.now < MOST_WAIT
        assert len(days(locks)) == 2
    backend.prune([retention])
    assert len(days(locks)) == 1


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_pruning_that_dies_at_any_call_is_finished_by_another(
    backend: LockDirBackend, locks: Path, clock: HandClock, system: FaultyOs, *, after: bool
) -> None:
    for number in range(100):
        for slot in (-3 * DAY, -2 * DAY, 0):
            claim(backend, round(clock.now - START) + slot, "a", max_late=LONG)
        clock.advance(10 * DAY)
        retention = Retention("job", DAY + number, 0, 0.0)
        dying = another(backend, clock)
        with system.doing(kill(number, after=after)):
            try:
                dying.prune([retention])
            except Killed:
                assert len(claim_files(locks)) >= 1
            else:
                break
        assert backend.prune([retention]) is False
        assert len(claim_files(locks)) == 1
        assert len(days(locks)) == 1
    else:
        raise AssertionError("more calls than were tried")
