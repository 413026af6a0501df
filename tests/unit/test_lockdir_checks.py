"""What a lock directory says of itself and of its mount."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from contract.hand_clock import HandClock
from contract.server_clock import HandServerClock, lock_directory
from lockdir_bench import backend, claim, clock, locks
from test_lockdir_history import record

from leasecron.backends.checks import Check
from leasecron.backends.filesystems import Filesystem
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.lockdir.checks import check_filesystem
from leasecron.model import Retention

__all__ = ["backend", "clock", "locks"]


def check(backend: LockDirBackend, name: str) -> Check:
    """Return one of the checks."""
    (found,) = [found for found in backend.checks() if found.name == name]
    return found


def test_a_good_directory_is_good_and_quickly_so(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    for number in range(50):
        claim(backend, -number, "a", job=f"job-{number}")
    took = []
    for _ in range(5):
        began = time.process_time()
        checks = backend.checks()
        took.append(time.process_time() - began)
    assert {found.verdict for found in checks} == {"good"}
    assert len({found.name for found in checks}) == len(checks)
    assert check(backend, "size").found == "50 jobs, 50 claims"
    assert min(took) < 0.1
    assert backend.warnings == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("nolock", "nolock"),
        ("local_lock=all", "local_lock=all"),
        ("soft", "soft"),
        ("acdirmax=61", "acdirmax=61"),
        ("actimeo=600", "actimeo=600"),
        ("acregmax=3600", "acregmax=3600"),
    ],
)
def test_a_mount_on_which_not_all_holds_is_warned_of(options: str, words: str) -> None:
    found = check_filesystem("/x", Filesystem("nfs4", frozenset({"rw", "hard", options})))
    assert found.verdict == "warning"
    assert words in found.reason
    assert "/x" in found.reason
    assert check_filesystem("/x", Filesystem("ext4", frozenset({options}))).verdict == "good"


@pytest.mark.parametrize("options", ["hard", "noac", "acdirmax=60", "actimeo=3", "local_lock=none"])
def test_a_mount_as_it_should_be_is_good(options: str) -> None:
    assert check_filesystem("/x", Filesystem("nfs4", frozenset({options}))).verdict == "good"


@pytest.mark.parametrize(("ahead", "verdict"), [(0.9, "good"), (-1.5, "warning"), (30, "warning")])
def test_a_host_whose_clock_differs_from_the_servers_is_warned_of(
    locks: Path, clock: HandClock, ahead: float, verdict: str
) -> None:
    server = HandServerClock(clock)
    server.ahead = ahead
    backend = LockDirBackend(locks, create=True)
    backend.make_server_clock = lambda _folder, _mode: server
    backend.open(clock)
    found = check(backend, "clock")
    assert found.verdict == verdict
    assert found.found.startswith(f"{ahead:+.1f}")
    assert backend.warnings == ((found.reason,) if verdict == "warning" else ())
    backend.close()


class WholeSeconds(HandServerClock):
    """A server that dates files in whole seconds."""

    def read_ns(self) -> int:
        return int(super().read_ns() // 10**9 * 10**9)


def test_a_server_that_keeps_whole_seconds_is_warned_of(locks: Path, clock: HandClock) -> None:
    clock.step(0.7)
    backend = LockDirBackend(locks, create=True)
    backend.make_server_clock = lambda _folder, _mode: WholeSeconds(clock)
    backend.open(clock)
    assert check(backend, "resolution").verdict == "warning"
    assert check(backend, "clock").verdict == "good"
    assert claim(backend, 0.5, "a").outcome == "won"
    backend.close()


def test_a_folder_that_is_missing_is_bad(backend: LockDirBackend, locks: Path) -> None:
    (locks / "history").rmdir()
    found = check(backend, "writable")
    assert found.verdict == "bad"
    assert str(locks / "history") in found.reason


def test_warnings_are_of_the_moment_of_opening(locks: Path, clock: HandClock) -> None:
    backend = lock_directory(locks, clock)
    numbers = [len(backend.warnings)]
    backend.open(clock)
    (locks / "history" / "damaged.jsonl").write_text("{")
    numbers.append(len(backend.warnings))
    backend.close()
    backend.open(clock)
    numbers.append(len(backend.warnings))
    backend.close()
    assert numbers == [0, 0, 1]


def test_what_others_put_into_it_is_no_reason_not_to_open(locks: Path, clock: HandClock) -> None:
    backend = lock_directory(locks, clock)
    backend.open(clock)
    claim(backend, 0, "a")
    (locks / "jobs" / "README").write_bytes(b"")
    (locks / "history" / "old.jsonl").mkdir()
    assert check(backend, "size").found == "2 jobs, at least 1 claims"
    assert check(backend, "history").verdict == "warning"
    assert "1 not readable" in check(backend, "history").found
    backend.save_results([record(0)])
    assert len(backend.history()) == 1
    backend.prune([Retention("job", 1e9, 1, 0.0)])
    assert len(backend.history()) == 1
    backend.close()

    backend.open(clock)
    assert len(backend.warnings) == 1
    backend.close()
