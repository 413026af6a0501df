"""A directory is a store only where somebody wished it, and stays the one that was opened."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import filelock  # noqa: F401 - whoever the test becomes need not be able to read this package
import portalocker  # noqa: F401 - the same
import pytest
from contract.driver import a_claim
from contract.hand_clock import HandClock
from contract.server_clock import lock_directory
from lockdir_bench import (
    FaultyOs,
    another,
    as_nobody,
    backend,
    claim,
    clock,
    locks,
    open_folder,
    system,
)
from test_lockdir_history import record

from leasecron.backends.lockdir import marker as lockdir_marker
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.errors import (
    BackendError,
    BackendMismatch,
    BackendUnavailable,
    ConfigurationError,
    SchedulerStateError,
)
from leasecron.model import Declaration, Retention, from_seconds

__all__ = ["as_nobody", "backend", "clock", "locks", "open_folder", "system"]


def no_waiting(_seconds: float) -> None:
    raise AssertionError("nobody waits for this")


def refused(path: Path, kind: type[BackendError] = BackendError, *, create: bool = False) -> str:
    """Open a directory that cannot be a store, which waits for nothing; return what is said."""
    backend = LockDirBackend(path, create=create)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", no_waiting)
        with pytest.raises(BackendError) as caught:
            backend.open()
    assert type(caught.value) is kind
    assert str(path) in str(caught.value)
    return str(caught.value)


def everything(path: Path) -> list[str]:
    """Return all that is in a folder."""
    return sorted(str(found.relative_to(path)) for found in path.rglob("*"))


@pytest.mark.parametrize("path", ["", "a\0b", b"bytes", 7, None])
def test_a_wrong_path_is_refused_when_it_is_given(path: object) -> None:
    with pytest.raises(ConfigurationError):
        LockDirBackend(path)  # type: ignore[arg-type]


def test_a_path_too_long_for_the_claims_in_it_is_refused_when_it_is_given() -> None:
    fits = "/" + "d" * 3799
    assert LockDirBackend(fits).path == fits
    for path in (fits + "d", "/" + "ü" * 1900, "d" * 3800):
        with pytest.raises(ConfigurationError, match="at most 3800"):
            LockDirBackend(path)


def test_a_path_is_made_absolute_when_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    backend = LockDirBackend("locks/")
    monkeypatch.chdir("/")
    assert backend.path == str(tmp_path / "locks")
    assert backend.description == f"lockdir:///{tmp_path}/locks"


@pytest.mark.parametrize("exists", [False, True])
def test_without_a_marker_the_command_is_named_and_nothing_made(
    tmp_path: Path, *, exists: bool
) -> None:
    path = tmp_path / "locks"
    if exists:
        path.mkdir()
    before = everything(tmp_path)
    assert f"leasecron init lockdir:///{path}" in refused(path)
    assert everything(tmp_path) == before


def test_a_directory_that_was_made_once_opens_without_being_made(locks: Path) -> None:
    made = LockDirBackend(locks, create=True)
    made.open()
    made.close()
    assert sorted(os.listdir(locks)) == ["clocks", "history", "jobs", "leasecron.json", "locks"]
    marker = json.loads((locks / "leasecron.json").read_bytes())
    assert marker["format"] == 1

    again = LockDirBackend(locks)
    again.open()
    assert again.warnings == ()
    again.close()
    assert everything(locks / "clocks") == []


def test_an_empty_folder_with_what_filesystems_put_there_becomes_a_store(locks: Path) -> None:
    locks.mkdir()
    (locks / "lost+found").mkdir()
    (locks / ".snapshot").mkdir()
    backend = LockDirBackend(locks, create=True)
    backend.open()
    backend.close()


def test_a_making_that_was_broken_off_is_finished(locks: Path) -> None:
    locks.mkdir()
    (locks / "jobs").mkdir()
    (locks / ".leasecron.json.0123").write_bytes(b"{")
    backend = LockDirBackend(locks, create=True)
    backend.open()
    backend.close()


@pytest.mark.parametrize("name", ["photo.jpg", "jobs/other"])
def test_a_folder_of_something_else_is_refused(locks: Path, name: str) -> None:
    (locks / name).parent.mkdir(parents=True)
    (locks / name).write_bytes(b"")
    before = everything(locks)
    assert name.split("/", maxsplit=1)[0] in refused(locks, create=True)
    assert everything(locks) == before


def test_the_folder_above_is_never_made(tmp_path: Path) -> None:
    text = refused(tmp_path / "no" / "locks", create=True)
    assert f"the folder {tmp_path / 'no'} does not exist" in text
    assert everything(tmp_path) == []


def test_a_missing_folder_above_is_named(tmp_path: Path) -> None:
    text = refused(tmp_path / "no" / "locks")
    assert f"does not exist, nor does {tmp_path / 'no'}; is it mounted" in text


def test_no_store_is_made_inside_another(tmp_path: Path) -> None:
    outer = LockDirBackend(tmp_path / "locks", create=True)
    outer.open()
    outer.close()
    inner = tmp_path / "locks" / "jobs" / "inner"
    assert f"{tmp_path / 'locks'} is one already" in refused(inner, create=True)
    assert not inner.exists()
    inner.mkdir()
    assert f"{tmp_path / 'locks'} is one already" in refused(inner, create=True)
    assert everything(inner) == []


@pytest.mark.parametrize("name", ["clocks", "history", "locks"])
def test_a_lost_folder_is_named_and_made_again_by_init(locks: Path, name: str) -> None:
    backend = LockDirBackend(locks, create=True)
    backend.open()
    backend.close()
    shutil.rmtree(locks / name)
    text = refused(locks)
    assert f"lost its folder {name}; it is made again by: leasecron init" in text
    assert not (locks / name).exists()
    backend.open()
    backend.close()
    assert (locks / name).is_dir()


@pytest.mark.parametrize("create", [False, True])
def test_lost_claims_are_never_made_again(locks: Path, *, create: bool) -> None:
    backend = LockDirBackend(locks, create=True)
    backend.open()
    backend.close()
    shutil.rmtree(locks / "jobs")
    assert "stop all instances" in refused(locks, create=create)
    assert not (locks / "jobs").exists()


@pytest.mark.parametrize("create", [False, True])
def test_a_file_is_no_directory(tmp_path: Path, *, create: bool) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert "not a directory" in refused(tmp_path / "file", create=create)
    assert "not a folder" in refused(tmp_path / "file" / "locks", create=create)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 1, "id": 5, "created": 1}', b"\xff"],
)
def test_a_damaged_marker_is_refused(locks: Path, content: bytes) -> None:
    locks.mkdir()
    (locks / "leasecron.json").write_bytes(content)
    assert "damaged" in refused(locks, BackendMismatch)
    assert "damaged" in refused(locks, BackendMismatch, create=True)


def test_a_directory_of_a_newer_version_is_refused(locks: Path) -> None:
    locks.mkdir()
    (locks / "leasecron.json").write_text('{"format": 2, "name": "x"}')
    assert "newer version" in refused(locks, BackendMismatch, create=True)


def test_two_that_make_it_at_once_agree_on_it(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"locks-{number}"
        start = threading.Barrier(3)
        backends = [LockDirBackend(path, create=True) for _ in range(3)]
        failed: list[Exception] = []

        def make(
            backend: LockDirBackend,
            start: threading.Barrier = start,
            failed: list[Exception] = failed,
        ) -> None:
            start.wait()
            try:
                backend.open()
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=make, args=(backend,)) for backend in backends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        now = time.time()
        for opened in backends:  # each call compares the marker with the one that was opened
            opened.claim([replace(a_claim(0, "a"), slot=from_seconds(now))])
            opened.close()


@pytest.mark.usefixtures("as_nobody")
def test_a_directory_that_may_not_be_written_is_refused(open_folder: Path) -> None:
    locks = open_folder / "locks"
    made = LockDirBackend(locks, create=True)
    made.open()
    made.close()
    locks.chmod(0o555)
    assert "no permission to write" in refused(locks)


@pytest.mark.usefixtures("as_nobody")
def test_a_folder_that_may_not_be_written_fails_the_claims_of_its_job_alone(
    open_folder: Path, clock: HandClock
) -> None:
    backend = lock_directory(open_folder / "locks", clock)
    backend.open(clock)
    claim(backend, 0, "a")
    (folder,) = (open_folder / "locks" / "jobs").iterdir()
    (day,) = folder.iterdir()
    for mode in (0o555, 0o000):
        day.chmod(mode)
        with pytest.raises(BackendError) as caught:
            claim(backend, -1, "a")
        assert type(caught.value) is BackendError
        assert "ermission" in str(caught.value)
        assert claim(backend, -1, "a", job=f"other-{mode}").outcome == "won"
    backend.close()


def test_what_is_made_grants_what_the_directory_grants(open_folder: Path, clock: HandClock) -> None:
    locks = open_folder / "locks"
    locks.mkdir()
    locks.chmod(0o2770)
    before = os.umask(0o077)
    try:
        backend = LockDirBackend(locks, create=True)
        backend.open()
        now = from_seconds(time.time())
        backend.declare([Declaration("job", "")])
        backend.claim([replace(a_claim(0, "a"), slot=now)])
        backend.prune([Retention("job", 0.0, 0, 0.0)])
    finally:
        os.umask(before)
    modes = {
        stat.S_IMODE(path.stat().st_mode) & 0o777 | (0o10000 if path.is_dir() else 0)
        for path in locks.rglob("*")
    }
    assert modes == {0o10770, 0o660}
    backend.close()


# What happens to it while it is open


def calls(backend: LockDirBackend) -> None:
    """Make all calls, none of which may succeed."""
    with pytest.raises(BackendUnavailable, match=backend.path):
        claim(backend, 0, "b")
    with pytest.raises(BackendUnavailable):
        backend.declare([Declaration("new", "")])
    with pytest.raises(BackendUnavailable):
        backend.history()
    with pytest.raises(BackendUnavailable):
        backend.prune([Retention("job", 0.0, 0, 0.0)])
    assert [check.verdict for check in backend.checks()] == ["bad"]


def test_nothing_is_made_where_the_directory_was_removed(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    claim(backend, 0, "a")
    away = locks.rename(locks.with_name("away"))
    calls(backend)
    assert not locks.exists()

    locks.mkdir()  # as the folder under a mount that is gone
    calls(backend)
    assert everything(locks) == []

    locks.rmdir()
    away.rename(locks)
    assert claim(backend, 0, "b").outcome == "done"
    assert claim(backend, 1, "b").outcome == "won"


def test_nothing_is_made_in_another_store_in_its_place(
    backend: LockDirBackend, locks: Path, clock: HandClock
) -> None:
    locks.rename(locks.with_name("away"))
    other = lock_directory(locks, clock)
    other.open(clock)
    before = everything(locks)
    calls(backend)
    assert everything(locks) == before
    other.close()


def test_a_win_does_not_count_where_the_directory_went_meanwhile(
    backend: LockDirBackend, locks: Path, system: FaultyOs
) -> None:
    def fault(_number: int, name: str, real: object) -> object:
        assert callable(real)
        answer = real()
        if name == "link":
            (locks / "leasecron.json").rename(locks.with_name("marker"))
        return answer

    with system.doing(fault), pytest.raises(BackendUnavailable, match=r"no leasecron\.json"):
        claim(backend, 0, "a")
    locks.with_name("marker").rename(locks / "leasecron.json")
    assert claim(backend, 0, "a").outcome == "won"


def test_records_do_not_count_as_saved_where_the_directory_went_meanwhile(
    backend: LockDirBackend, locks: Path, system: FaultyOs
) -> None:
    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        answer = real()
        if name == "write":
            (locks / "leasecron.json").rename(locks.with_name("marker"))
        return answer

    with system.doing(fault), pytest.raises(BackendUnavailable, match=r"no leasecron\.json"):
        backend.save_results([record(0)])
    locks.with_name("marker").rename(locks / "leasecron.json")
    backend.save_results([record(0)])
    assert len(backend.history()) == 1


def test_an_opening_that_fails_leaves_nothing_open_and_no_probe(
    locks: Path, system: FaultyOs
) -> None:
    backend = LockDirBackend(locks, create=True)
    backend.open()
    backend.close()
    dated = 0

    def fault(_number: int, name: str, real: Callable[[], object]) -> object:
        nonlocal dated
        dated += name == "utime"
        if name == "utime" and dated == 2:
            raise OSError(errno.EIO, "not to be dated")
        return real()

    before = len(os.listdir("/dev/fd"))
    with system.doing(fault), pytest.raises(BackendUnavailable):
        backend.open()
    assert dated == 2
    assert len(os.listdir("/dev/fd")) == before
    assert everything(locks / "clocks") == []
    backend.open()
    backend.close()


@pytest.mark.parametrize("whole", [False, True], ids=["day", "job"])
def test_a_folder_in_use_that_vanished_is_not_made_again(
    backend: LockDirBackend, locks: Path, clock: HandClock, *, whole: bool
) -> None:
    claim(backend, 0, "a")
    claim(backend, 0, "a", job="other")
    (folder,) = (locks / "jobs").glob("job-*")
    (day,) = folder.iterdir()
    shutil.rmtree(folder if whole else day)
    with pytest.raises(BackendError, match="lost the folder") as caught:
        claim(backend, 1, "a")
    assert type(caught.value) is BackendError
    assert not day.exists()
    assert claim(backend, 1, "a", job="other").outcome == "won"
    clock.advance(1000)
    assert claim(backend, 1, "a").outcome == "late"

    fresh = another(backend, clock)
    assert claim(fresh, 1000, "a").outcome == "won"
    fresh.close()


def test_the_folders_of_claims_gone_are_the_loss_of_all(
    backend: LockDirBackend, locks: Path
) -> None:
    claim(backend, 0, "a")
    shutil.rmtree(locks / "jobs")
    for job in ("job", "new"):
        with pytest.raises(BackendUnavailable):
            claim(backend, 1, "a", job=job)
    assert not (locks / "jobs").exists()


def test_a_child_that_was_forked_while_it_is_open_can_not_use_it(locks: Path) -> None:
    backend = LockDirBackend(locks, create=True)
    backend.open()
    backend._pid -= 1  # as a child finds it
    for _ in range(2):
        with pytest.raises(SchedulerStateError):
            backend.open()
        with pytest.raises(SchedulerStateError):
            backend.history()
        backend.forget()
    backend.close()
    backend._pid += 1
    backend.suspend()
    backend._pid -= 1
    with pytest.raises(SchedulerStateError, match="not open"):
        backend.history()
    backend.open()
    backend.close()


def test_a_marker_that_others_made_just_now_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A network filesystem's client shows the new name in a listing and denies it to whoever opens.
    LockDirBackend(tmp_path, create=True).open()
    monkeypatch.setattr(lockdir_marker, "read_marker", lambda _path: None)
    said = refused(tmp_path, BackendUnavailable, create=True)
    assert "leasecron.json" in said
    monkeypatch.undo()
    LockDirBackend(tmp_path, create=True).open()
