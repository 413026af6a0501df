"""What the doctor tries with two processes, and every verdict that this can lead to.

A filesystem that breaks its promises is imitated by giving the two processes two directories for
what should be one: then both win every slot, and neither sees the other's locks.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from leasecron.backends.checks import Check
from leasecron.doctor import latency, locks, mounts, races, rivals, space, trials
from leasecron.doctor.latency import check_latency
from leasecron.doctor.locks import check_lock
from leasecron.doctor.mounts import check_negative_entries, check_same
from leasecron.doctor.races import Folders, check_race, judge
from leasecron.doctor.rivals import Rivals, TrialFailed
from leasecron.doctor.space import check_space
from leasecron.doctor.stakes import LOCKDIR, SQLITE, Stakes
from leasecron.doctor.trials import SCRATCH, try_out

FEW = 40


@pytest.fixture(autouse=True)
def _few_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "SLOTS", FEW)


@pytest.fixture(scope="module")
def two() -> Iterator[Rivals]:
    """Two processes that wait for commands."""
    with Rivals() as both:
        yield both


@pytest.fixture
def one_folder(tmp_path: Path) -> Folders:
    """A directory that is one for both processes."""
    return str(tmp_path), str(tmp_path)


@pytest.fixture
def two_folders(tmp_path: Path) -> Folders:
    """Two directories in which the same is made."""
    folders = (tmp_path / "a", tmp_path / "b")
    for folder in folders:
        for name in ("create-1", "link-1"):
            (folder / name).mkdir(parents=True)
        for name in ("flock", "fcntl"):
            (folder / name).touch()
    for name in ("create-1", "link-1"):
        (folders[0] / name).rmdir()
    return str(folders[0]), str(folders[1])


# Races


@pytest.mark.parametrize("how", races.WAYS)
def test_each_slot_of_a_race_has_one_winner(
    two: Rivals, one_folder: Folders, how: races.How
) -> None:
    outcome = races.race(two, how, one_folder, 1)

    assert (outcome.slots, outcome.double, outcome.nobody) == (FEW, 0, 0)
    assert sum(outcome.shares) == FEW


@pytest.mark.parametrize("how", races.WAYS)
@pytest.mark.parametrize(("stakes", "verdict"), [(LOCKDIR, "bad"), (SQLITE, "warning")])
def test_two_winners_are_found(
    two: Rivals, two_folders: Folders, how: races.How, stakes: Stakes, verdict: str
) -> None:
    check = check_race(two, how, two_folders, stakes, "")

    assert check.verdict == verdict
    assert check.found == f"of {FEW} slots {FEW} had two winners and 0 none"


def test_winners_are_counted_among_the_slots_that_both_have_tried() -> None:
    outcome = judge(4, {0, 1, 5}, {1, 2, 7})

    assert outcome == races.Outcome(slots=4, shares=(2, 2), double=1, nobody=1)


class Reporting:
    """A process that has the answers of a test."""

    def __init__(self, *answers: tuple[int, list[int]]) -> None:
        self._answers = [*answers]

    def tell(self, *_command: object) -> None:
        """Take note of nothing."""

    def answer(self) -> tuple[int, list[int]]:
        return self._answers.pop(0)


def test_slots_that_one_process_had_no_time_for_do_not_count(one_folder: Folders) -> None:
    two = SimpleNamespace(both=(Reporting((3, [0, 1])), Reporting((5, [2, 3, 4]))))

    outcome = races.race(cast("Rivals", two), "create", one_folder, 1)

    assert outcome == races.Outcome(slots=3, shares=(2, 1), double=0, nobody=0)


def test_a_slot_without_a_winner_is_found(
    two: Rivals, one_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(races, "race", lambda *_: judge(3, {0}, {1}))

    check = check_race(two, "link", one_folder, LOCKDIR, " on both")

    assert check.name == "link on both"
    assert check.verdict == "bad"
    assert "1 none" in check.found


def test_a_race_that_one_process_won_throughout_proves_little(
    two: Rivals, one_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[int] = []

    def race(_two: Rivals, _how: str, _folders: Folders, number: int) -> races.Outcome:
        numbers.append(number)
        return judge(3, {0, 1, 2}, ())

    monkeypatch.setattr(races, "race", race)

    assert check_race(two, "create", one_folder, LOCKDIR, "").verdict == "warning"
    assert numbers == [1, 2, 3]


def test_a_race_that_was_none_is_held_again(
    two: Rivals, one_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = [judge(3, {0, 1, 2}, ()), judge(3, {0}, {1, 2})]
    monkeypatch.setattr(races, "race", lambda *_: outcomes.pop(0))

    check = check_race(two, "create", one_folder, LOCKDIR, "")

    assert (check.verdict, check.found) == ("good", "3 slots, 1 and 2 won")


@pytest.mark.parametrize(("stakes", "verdict"), [(LOCKDIR, "warning"), (SQLITE, "good")])
def test_a_filesystem_without_links_is_told(
    two: Rivals,
    one_folder: Folders,
    monkeypatch: pytest.MonkeyPatch,
    stakes: Stakes,
    verdict: str,
) -> None:
    def refuse(*_: object) -> races.Outcome:
        raise TrialFailed("Operation not permitted", unsupported=True)

    monkeypatch.setattr(races, "race", refuse)

    check = check_race(two, "link", one_folder, stakes, "")

    assert check.verdict == verdict
    assert "not to be had" in check.found


def test_what_fails_in_a_process_fails_the_race(two: Rivals, tmp_path: Path) -> None:
    check = check_race(two, "create", (str(tmp_path), "/no/such/folder"), LOCKDIR, "")

    assert check.verdict == "bad"
    assert "/no/such/folder" in check.found
    # And what the other one answered is not taken for the answer to what comes next.
    (tmp_path / "more").mkdir()
    again = str(tmp_path / "more")
    assert check_race(two, "link", (again, again), LOCKDIR, "").found.startswith(f"{FEW} slots")


# Locks


@pytest.mark.parametrize("how", ["flock", "fcntl"])
def test_a_lock_of_one_process_stops_the_other(
    two: Rivals, one_folder: Folders, how: locks.How
) -> None:
    assert check_lock(two, how, one_folder, SQLITE, "").verdict == "good"


@pytest.mark.parametrize(
    ("how", "stakes", "verdict"),
    [
        ("flock", SQLITE, "warning"),
        ("fcntl", SQLITE, "bad"),
        ("flock", LOCKDIR, "warning"),
        ("fcntl", LOCKDIR, "good"),
    ],
)
def test_a_lock_that_does_not_hold_is_found(
    two: Rivals, two_folders: Folders, how: locks.How, stakes: Stakes, verdict: str
) -> None:
    check = check_lock(two, how, two_folders, stakes, " on both")

    assert check == Check(
        f"{how} on both",
        stakes[how].verdict,
        "both processes had the lock at once",
        stakes[how].follows,
    )
    assert check.verdict == verdict


@pytest.mark.parametrize(
    ("how", "stakes", "verdict"), [("flock", LOCKDIR, "warning"), ("fcntl", SQLITE, "bad")]
)
def test_a_lock_that_outlives_its_holder_is_found(
    two: Rivals,
    one_folder: Folders,
    tmp_path: Path,
    how: locks.How,
    stakes: Stakes,
    verdict: str,
) -> None:
    (tmp_path / how).touch()
    with (tmp_path / how).open("r+b") as file:
        # It lets go of its lock, and the server does not hear of that: here, it never had it.
        gone = SimpleNamespace(ask=lambda *_: "taken")
        both = SimpleNamespace(both=(gone, two.both[1]))
        {"flock": fcntl.flock, "fcntl": fcntl.lockf}[how](file, fcntl.LOCK_EX)

        check = check_lock(cast("Rivals", both), how, one_folder, stakes, "")

    assert check.found == "a lock outlived its holder"
    assert check.verdict == verdict


def test_a_lock_that_is_not_to_be_had_is_told(
    two: Rivals, one_folder: Folders, tmp_path: Path
) -> None:
    check = check_lock(two, "fcntl", (one_folder[0], "/no/such/folder"), SQLITE, "")

    assert check.verdict == "bad"
    assert "/no/such/folder" in check.found
    # The first process has let go of it.
    assert check_lock(two, "fcntl", one_folder, SQLITE, "").verdict == "good"


# The disk


@pytest.mark.parametrize(
    ("took", "verdict"),
    [
        ([0.001, 0.002, 0.003], "good"),
        ([0.1, 0.1, 0.1], "warning"),
        ([0.001, 0.001, 1.5], "warning"),
    ],
)
def test_a_slow_or_stalling_disk_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, took: list[float], verdict: str
) -> None:
    monkeypatch.setattr(latency, "measure", lambda path: took)

    check = check_latency("/nowhere")

    assert check.verdict == verdict
    assert "of 3" in check.found


def test_writes_are_measured_until_the_disk_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    # Time passes with each sync, and with nothing else.
    monkeypatch.setattr(time, "perf_counter", lambda: len(synced) * 0.01)

    took = latency.measure(str(tmp_path / "file"))

    assert synced == [4096 * number for number in range(1, len(took) + 1)]
    assert took == pytest.approx([0.01] * len(took))
    assert 0 < len(took) <= 50


def test_a_full_disk_is_warned_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(space, "LITTLE", 1e18)

    assert check_space(str(tmp_path)).verdict == "warning"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_filesystem_of_no_size_is_not_called_full() -> None:
    assert (os.statvfs("/proc").f_blocks, check_space("/proc").verdict) == (0, "good")


def test_a_filesystem_that_does_not_answer_is_bad() -> None:
    assert check_space("/no/such/folder").verdict == "bad"


# Two mounts


def test_another_directory_is_no_second_mount(
    two_folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "_APPEARS", 0.02)
    (Path(two_folders[0]) / "second").mkdir()

    check = check_same((f"{two_folders[0]}/second", f"{two_folders[1]}/second"))

    assert check.verdict == "bad"


def test_the_same_mount_by_another_name_proves_nothing_of_two_hosts(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")

    check = check_same((str(tmp_path / "folder"), str(tmp_path / "link")))

    assert check.verdict == "warning"


def test_a_name_that_is_not_seen_in_time_is_told(
    two_folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "PATIENCE", 0.02)

    assert check_negative_entries(two_folders).verdict == "warning"


def test_a_name_that_is_seen_at_once_is_good(one_folder: Folders) -> None:
    check = check_negative_entries(one_folder)

    assert check.verdict == "good"
    assert check.found.startswith("seen after 0.")


# All of it


def test_all_is_tried_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "measure", lambda path: [0.001])
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to("store")

    checks = try_out(str(tmp_path / "store"), str(tmp_path / "link"), LOCKDIR)

    assert [check.name for check in checks] == [
        "folder", "space", "fsync", "create", "link", "flock", "fcntl",
        "second mount", "absent names",
        "create on both", "link on both", "flock on both", "fcntl on both",
    ]  # fmt: skip
    assert [check.name for check in checks if check.verdict == "bad"] == []
    assert [*(tmp_path / "store").iterdir()] == []


def test_nothing_is_tried_between_what_is_not_one_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "_APPEARS", 0.02)
    (tmp_path / "store").mkdir()
    (tmp_path / "other").mkdir()

    checks = try_out(str(tmp_path / "store"), str(tmp_path / "other"), LOCKDIR)

    assert (checks[-1].name, checks[-1].verdict) == ("second mount", "bad")
    assert [*(tmp_path / "store").iterdir()] == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_nothing_is_left_after_an_error_or_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    processes: list[subprocess.Popen[bytes]] = []

    def interrupt(two: Rivals, how: str, folders: Folders, *_: object) -> Check:
        assert two.both[0].ask("lock", how, str(Path(folders[0], "create-1", "0"))) == "taken"
        processes.extend(rival._process for rival in two.both)
        raise error

    monkeypatch.setattr(trials, "check_lock", interrupt)

    with pytest.raises(error):
        try_out(str(tmp_path), None, SQLITE)

    assert [*tmp_path.iterdir()] == []
    assert [process.returncode for process in processes] == [-signal.SIGKILL] * 2


def test_a_trial_that_cannot_be_made_vouches_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str) -> list[float]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(latency, "measure", full)

    checks = {check.name: check for check in try_out(str(tmp_path), None, LOCKDIR)}

    assert checks["fsync"].verdict == "bad"
    assert "No space left" in checks["fsync"].found
    assert checks["fcntl"].verdict == "good"


def test_without_a_second_process_the_verdict_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    checks = try_out(str(tmp_path), None, LOCKDIR)

    assert (checks[-1].name, checks[-1].verdict) == ("processes", "bad")
    assert [*tmp_path.iterdir()] == []


@pytest.fixture
def read_only() -> Iterator[Path]:
    """Return a folder in which nobody may write, and be nobody where the tests run as root."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield path
    if root:
        os.seteuid(0)
    path.chmod(0o755)
    shutil.rmtree(path)


def test_a_folder_that_may_not_be_written_is_told(read_only: Path) -> None:
    check, _space = try_out(str(read_only), None, LOCKDIR)

    assert (check.name, check.verdict) == ("folder", "bad")
    assert str(read_only) in check.reason


def test_a_folder_that_cannot_be_removed_again_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile.TemporaryDirectory, "_rmtree", lambda *_args, **_more: None)
    monkeypatch.setattr(trials, "_between_processes", lambda *_: [])

    check = try_out(str(tmp_path), None, LOCKDIR)[-1]

    (left,) = tmp_path.iterdir()
    assert (check.name, check.verdict, check.found) == ("clean-up", "warning", str(left))
    assert left.name.startswith(SCRATCH)


LONG_AGO = time.time() - 7200


def test_what_a_killed_examination_left_is_removed_once_it_is_old(tmp_path: Path) -> None:
    old, young = (tmp_path / f"{SCRATCH}{name}" for name in ("old", "young"))
    for folder in (old, young):
        (folder / "first").mkdir(parents=True)
    os.utime(old, (LONG_AGO, LONG_AGO))

    trials._remove_old(str(tmp_path))

    assert [*tmp_path.iterdir()] == [young]
    assert (young / "first").is_dir()


@pytest.mark.parametrize("leads_to", ["folder", "file", "nothing"])
def test_of_what_only_has_such_a_name_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leads_to: str
) -> None:
    removed: list[str] = []
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_more: removed.append(path))
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "folder" / "file").write_bytes(b"precious")
    (outside / "file").write_bytes(b"precious")
    store = tmp_path / "store"
    store.mkdir()
    link, file = (store / f"{SCRATCH}{name}" for name in ("link", "file"))
    link.symlink_to(outside / leads_to)
    file.write_bytes(b"")
    for path in (*outside.rglob("*"), link, file):
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)

    trials._remove_old(str(store))

    assert removed == []


# The processes


def test_a_process_that_has_died_fails_the_trial(one_folder: Folders) -> None:
    with Rivals() as two:
        os.kill(two.both[1]._process.pid, signal.SIGKILL)

        with pytest.raises(TrialFailed, match="ended"):
            races.race(two, "create", one_folder, 1)


def test_a_process_that_hangs_fails_the_trial_and_all_later_ones(
    one_folder: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Rivals() as two:
        stopped = two.both[0]
        os.kill(stopped._process.pid, signal.SIGSTOP)
        monkeypatch.setattr(rivals, "PATIENCE", 0.05)

        with pytest.raises(TrialFailed, match="no answer"):
            stopped.ask("unlock", "x")
        with pytest.raises(TrialFailed, match="ended"):
            stopped.ask("unlock", "x")
