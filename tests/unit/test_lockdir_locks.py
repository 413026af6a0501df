"""Locks keep the processes of one host apart, and are not needed where there are none."""

from __future__ import annotations

import os
from pathlib import Path

import portalocker
import pytest
from contract.hand_clock import HandClock
from lockdir_bench import backend, claim, claim_files, clock, locks
from test_lockdir_history import files, record, slots
from test_lockdir_merging import NONE, fill

from leasecron.backends.lockdir import history as lockdir_history
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.lockdir.locks import one_at_a_time
from leasecron.model import Retention

__all__ = ["backend", "clock", "locks"]

DAY = 86_400.0


@pytest.fixture
def _no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be on a filesystem that has no locks."""

    def refuse(*_arguments: object) -> None:
        raise portalocker.LockException("No locks available")

    monkeypatch.setattr(portalocker, "lock", refuse)


@pytest.mark.usefixtures("_no_locks")
def test_without_locks_records_are_kept_and_files_rotated(
    backend: LockDirBackend, locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lockdir_history, "ROTATE_AT", 1000)
    for slot in range(20):
        backend.save_results([record(slot)])
    assert slots(backend) == [*range(20)]
    assert len(files(locks)) >= 3


@pytest.mark.usefixtures("_no_locks")
def test_without_locks_claims_are_pruned_and_the_history_is_merged(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    claim(backend, -3 * DAY, "a", max_late=1e9)
    claim(backend, 0, "a")
    fill(backend, locks, clock, 2)
    clock.advance(10 * DAY)
    assert backend.prune([Retention("job", DAY, 0, 0.0)]) is False
    assert len(claim_files(locks)) == 1
    clock.advance(DAY)
    backend.prune([NONE])
    assert files(locks) == []


@pytest.mark.usefixtures("_no_locks")
def test_without_locks_it_is_everybodys_turn(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with one_at_a_time(path, 0o600) as first, one_at_a_time(path, 0o600) as second:
        assert first
        assert second


def test_with_locks_it_is_the_turn_of_one(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with one_at_a_time(path, 0o600) as first, one_at_a_time(path, 0o600) as second:
        assert first
        assert not second
    with one_at_a_time(path, 0o600) as again:
        assert again


@pytest.mark.parametrize("error", [NotADirectoryError, PermissionError, ValueError])
def test_what_is_done_in_turn_may_fail_as_it_likes(tmp_path: Path, error: type[Exception]) -> None:
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(error), one_at_a_time(str(tmp_path / "lock"), 0o600):
        raise error
    assert len(os.listdir("/dev/fd")) == before
