"""What a lock directory has on the disk before it goes on: a power cut takes all the rest."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contract.hand_clock import HandClock
from contract.server_clock import lock_directory
from lockdir_bench import FaultyOs, backend, claim, claim_files, clock, locks, system
from test_lockdir_history import record, slots
from test_lockdir_merging import fill

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.errors import BackendUnavailable
from leasecron.model import Declaration, Retention

__all__ = ["backend", "clock", "locks", "system"]

DAY = 86_400.0


class Disk:
    """Notes what a power cut would take.

    That is what was written since its file was last synced, and what was named since the folder of
    the name was.
    """

    def __init__(self, system: FaultyOs) -> None:
        self._system = system
        self._open: dict[int, str] = {}
        self._written: dict[int, str] = {}
        self._named: set[str] = set()
        self._moments: list[tuple[str, str, set[str], set[str]]] = []

    def __call__(self, _number: int, name: str, real: Callable[[], Any]) -> Any:
        arguments = self._system.arguments
        if name in {"link", "rename", "unlink"}:
            self._moments.append((name, str(arguments[-1]), self.contents, self.names))
        answer = real()
        match name:
            case "open":
                self._opened(answer, *arguments)
            case "close":
                self._open.pop(arguments[0], None)
            case "write":
                self._written[os.fstat(arguments[0]).st_ino] = self._open[arguments[0]]
            case "fsync":
                self._synced(arguments[0])
            case "mkdir" | "link" | "rename":
                self._named.add(str(arguments[1 if name != "mkdir" else 0]))
        return answer

    @property
    def contents(self) -> set[str]:
        """Files that would not hold what was written."""
        return set(self._written.values())

    @property
    def names(self) -> set[str]:
        """Paths that would not be there, of those that are."""
        return {path for path in self._named if os.path.lexists(path)}

    def before(self, name: str) -> list[tuple[str, set[str], set[str]]]:
        """Return the path of each call of a name, with ``contents`` and ``names`` before it."""
        return [
            (path, contents, names)
            for called, path, contents, names in self._moments
            if called == name
        ]

    def _opened(self, descriptor: int, path: str, flags: int, *_mode: int) -> None:
        self._open[descriptor] = path
        if flags & os.O_CREAT:
            self._named.add(path)

    def _synced(self, descriptor: int) -> None:
        path = self._open[descriptor]
        self._written.pop(os.fstat(descriptor).st_ino, None)
        if os.path.isdir(path):
            self._named = {name for name in self._named if os.path.dirname(name) != path}


@pytest.fixture
def disk(system: FaultyOs) -> Disk:
    return Disk(system)


def test_a_claim_is_written_before_it_is_linked_and_named_before_it_is_answered(
    backend: LockDirBackend, locks: Path, system: FaultyOs, disk: Disk
) -> None:
    with system.doing(disk):
        assert claim(backend, 0, "a").outcome == "won"
        assert disk.names == disk.contents == set()
        assert claim(backend, 1, "a").outcome == "won"  # in folders that were there
    assert disk.names == disk.contents == set()
    linked = [path for path, contents, _names in disk.before("link") if not contents]
    assert linked == [str(path) for path in claim_files(locks)]


def test_a_claim_without_links_is_on_the_disk_before_it_is_answered(
    backend: LockDirBackend, system: FaultyOs, disk: Disk
) -> None:
    def fault(number: int, name: str, real: Callable[[], Any]) -> Any:
        if name == "link":
            raise OSError(errno.EPERM, "there are no links")
        return disk(number, name, real)

    with system.doing(fault):
        assert claim(backend, 0, "a").outcome == "won"
    assert disk.names == disk.contents == set()


def test_names_that_could_not_be_kept_are_so_before_the_next_answer(
    backend: LockDirBackend, locks: Path, system: FaultyOs, disk: Disk
) -> None:
    def fault(number: int, name: str, real: Callable[[], Any]) -> Any:
        if name == "fsync" and claim_files(locks):  # of the folders: the claim is there
            raise OSError(errno.EIO, "not kept")
        return disk(number, name, real)

    with system.doing(fault), pytest.raises(BackendUnavailable):
        claim(backend, 0, "a")
    assert disk.names
    with system.doing(disk):
        assert claim(backend, 0, "a").outcome == "won"
    assert disk.names == set()


def test_the_folder_of_a_job_is_there_before_the_job_counts_as_declared(
    backend: LockDirBackend, system: FaultyOs, disk: Disk
) -> None:
    with system.doing(disk):
        backend.declare([Declaration("job", "every 10s")])
    assert {os.path.basename(path) for path in disk.names} <= {"job.json"}
    assert disk.contents == set()
    ((_path, contents, _names),) = disk.before("link")
    assert contents == set()


def test_the_folders_of_a_store_are_there_before_its_marker_and_that_before_it_is_open(
    locks: Path, clock: HandClock, system: FaultyOs, disk: Disk
) -> None:
    backend = lock_directory(locks, clock)
    with system.doing(disk):
        backend.open(clock)
    assert disk.contents == set()
    assert disk.names <= {str(locks / "locks" / "prune.lock")}  # it need not be there
    ((marker, contents, names),) = disk.before("link")
    assert marker == str(locks / "leasecron.json")
    assert contents == set()
    folders = {str(locks / name) for name in ("clocks", "history", "jobs", "locks")}
    assert names.isdisjoint({str(locks), *folders})
    backend.close()


def test_a_record_is_on_the_disk_before_it_counts_as_saved(
    backend: LockDirBackend, system: FaultyOs, disk: Disk
) -> None:
    with system.doing(disk):
        for slot in range(2):
            backend.save_results([record(slot)])
            assert disk.names == disk.contents == set()
    assert slots(backend) == [0, 1]


def test_the_merged_file_is_on_the_disk_before_any_of_its_sources_goes(
    backend: LockDirBackend, locks: Path, clock: HandClock, system: FaultyOs, disk: Disk
) -> None:
    fill(backend, locks, clock, 16)
    with system.doing(disk):
        backend.prune([Retention("job", 1e9, 100, 0.0)])
    ((_private, contents, _names),) = disk.before("rename")
    assert contents == set()
    removed = disk.before("unlink")
    assert len(removed) == 16
    for _path, contents, names in removed:
        assert contents == set()
        # A stamp that is lost costs nothing but another look.
        assert [name for name in names if os.path.basename(name) != "merge.stamp"] == []
    assert slots(backend) == [*range(16)]


def test_the_mark_of_a_day_is_on_the_disk_before_any_of_its_claims_goes(
    backend: LockDirBackend, clock: HandClock, system: FaultyOs, disk: Disk
) -> None:
    for slot in (-3 * DAY, -3 * DAY + 1, 0):
        claim(backend, slot, "a", max_late=1e9)
    clock.advance(10 * DAY)
    with system.doing(disk):
        backend.prune([Retention("job", DAY, 0, 0.0)])
    gone = [found for found in disk.before("unlink") if os.path.basename(found[0]).isdigit()]
    assert len(gone) == 2
    assert all(not names for _path, _contents, names in gone)
