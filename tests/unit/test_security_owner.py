"""What root does with the store of another user closes it to nobody."""

from __future__ import annotations

import codecs
import hashlib  # noqa: F401 - whoever the test becomes need not be able to read it
import importlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock  # noqa: F401 - the same
import portalocker  # noqa: F401 - the same
import pytest
import sqlite_utils  # noqa: F401 - the same
from click.testing import CliRunner
from contract.driver import a_claim
from support.requirements import require

from leasecron import Scheduler
from leasecron.backends.lockdir import io
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.modes import give, hand_over
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.cli import main
from leasecron.errors import BackendError
from leasecron.model import Declaration

NOBODY = 65534

Backend = SqliteBackend | LockDirBackend


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the user nobody, while the test is root."""
    require(os.geteuid() == 0, "only root can look at what another user has")
    path = Path(tempfile.mkdtemp())
    os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


@contextmanager
def nobody() -> Iterator[None]:
    """Be the user nobody."""
    codecs.lookup("ascii")  # as he may not be able to import it
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        importlib.invalidate_caches()


@pytest.fixture(params=["wal", "delete", "lockdir"])
def store(request: pytest.FixtureRequest, folder: Path) -> Backend:
    """A store that nobody has made and not written to, as the instances of a server would."""
    if request.param == "lockdir":
        made: Backend = LockDirBackend(folder / "locks", create=True)
    else:
        made = SqliteBackend(folder / "store.db", journal=request.param)
    with nobody():
        made.open()
        made.close()
    assert not (folder / "store.db-turnstile").exists()  # which is for those who write
    return made


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def of_root(folder: Path) -> list[Path]:
    return [
        path for path in folder.rglob("*") if (path.stat().st_uid, path.stat().st_gid) == (0, 0)
    ]


def use(store: Backend, token: str) -> None:
    """Write to a store in every way."""
    store.open()
    store.declare([Declaration(f"job-{token}", "")])
    store.claim([a_claim(0, token, job=f"job-{token}", max_late=1e12)])


def scheduler_of(store: Backend) -> Scheduler:
    return Scheduler(store.description)


def test_reading_the_history_makes_nothing(store: Backend, folder: Path) -> None:
    before = names(folder)
    assert scheduler_of(store).history() == []
    assert names(folder) == before
    assert of_root(folder) == []


def test_looking_at_an_open_store_makes_nothing_of_roots(store: Backend, folder: Path) -> None:
    before = names(folder)
    reader = Scheduler(store.description)._lifecycle._backend
    reader.open()
    reader.checks()
    reader.history()
    assert of_root(folder) == []
    reader.close()
    assert names(folder) == before


@pytest.mark.slow
def test_the_doctor_leaves_nothing(store: Backend, folder: Path) -> None:
    before = names(folder)
    done = CliRunner().invoke(main, ["doctor", "--json", store.description])
    assert json.loads(done.stdout)["verdict"] != "bad", done.output
    assert names(folder) == before
    assert of_root(folder) == []


def test_beside_an_open_store_root_leaves_nothing_of_his_own(store: Backend, folder: Path) -> None:
    with nobody():
        use(store, "a")
    for _ in range(2):
        assert scheduler_of(store).history() == []
        assert of_root(folder) == []
    with nobody():
        store.claim([a_claim(1, "a", max_late=1e12)])
        store.close()


def test_what_root_writes_is_open_to_the_user_whose_store_it_is(
    store: Backend, folder: Path
) -> None:
    use(store, "root")
    assert of_root(folder) == []
    store.close()
    with nobody():
        use(store, "a")
        (answer,) = store.claim([a_claim(0, "b", job="job-root", max_late=1e12)])
        assert answer.holder == "instance-root"
        store.close()


@pytest.mark.parametrize("kind", [SqliteBackend, LockDirBackend])
def test_what_root_makes_belongs_to_whom_the_folder_belongs_to(
    kind: type[Backend], folder: Path
) -> None:
    done = CliRunner().invoke(main, ["init", kind(folder / "store").description])
    assert done.exit_code == 0, done.output
    assert of_root(folder) == []
    with nobody():
        use(made := kind(folder / "store"), "a")
        made.close()


def left(folder: Path, name: str, content: str = "") -> Path:
    """Return a file of root's own in a folder of nobody's, who may rename it."""
    path = folder / name
    path.write_text(content)
    path.chmod(0o640)
    return path


def state(path: Path) -> tuple[int, int, int, str]:
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode), path.read_text()


ROOTS = (0, 0, 0o640)


@pytest.mark.parametrize("content", ["secret", ""])
def test_a_second_name_of_a_file_of_roots_gets_nobody_anything(folder: Path, content: str) -> None:
    precious = left(folder, "precious", content)
    for name in ("store.db-turnstile", "store.db-setup.lock"):
        os.link(precious, folder / name)
    use(store := SqliteBackend(folder / "store.db"), "root")
    store.close()
    hand_over(str(precious), (NOBODY, NOBODY))
    io.stamp(str(folder / "store.db-turnstile"), 0o666)
    assert state(precious) == (*ROOTS, content)


def test_a_file_of_roots_renamed_to_one_of_a_stores_stays_his(folder: Path) -> None:
    paths = [
        left(folder, "one", "secret").rename(folder / "store.db-turnstile"),
        left(folder, "two", "secret").rename(folder / "store.db-setup.lock"),
        left(folder, "three", "secret").rename(folder / "merge.stamp"),
    ]
    use(store := SqliteBackend(folder / "store.db"), "root")
    store.close()
    io.stamp(str(paths[2]), 0o666)
    assert [state(path) for path in paths] == [(*ROOTS, "secret")] * 3


def test_what_is_in_the_place_of_a_new_folder_stays_roots(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = left(folder, "precious")
    monkeypatch.setattr(os, "mkdir", lambda *_: None)  # it was replaced as soon as it was made
    for make in (io.make_folder, io.make_root):
        with pytest.raises(NotADirectoryError):
            make(str(precious), 0o777)
    assert state(precious) == (*ROOTS, "")


def test_an_empty_side_file_that_root_left_is_given_to_the_user_of_the_store(folder: Path) -> None:
    paths = [left(folder, f"store.db-{end}") for end in ("turnstile", "setup.lock")]
    use(store := SqliteBackend(folder / "store.db"), "root")
    store.close()
    assert [state(path) for path in paths] == [(NOBODY, NOBODY, 0o600, "")] * 2


def test_who_is_not_root_gives_nothing_away(folder: Path) -> None:
    with nobody():
        path = folder / "file"
        path.touch()
        hand_over(str(path), (1, 1))
        descriptor = os.open(path, os.O_RDWR)
        give(descriptor, 0o640, (1, 1))
        os.close(descriptor)
    found = path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (NOBODY, NOBODY, 0o640)


def test_the_history_of_a_store_that_is_not_there_is_empty_and_makes_nothing(
    tmp_path: Path,
) -> None:
    assert Scheduler(tmp_path / "store.db").history() == []
    assert list(tmp_path.iterdir()) == []


def test_the_history_of_a_store_that_cannot_be_looked_at_is_an_error(folder: Path) -> None:
    require(os.geteuid() == 0, "only root can become another user")
    (folder / "locked").mkdir(mode=0o700)
    os.chown(folder / "locked", 0, 0)
    backend = SqliteBackend(folder / "locked" / "store.db")
    backend.open()
    backend.close()
    with nobody(), pytest.raises(BackendError):
        Scheduler(folder / "locked" / "store.db").history()


def test_the_history_at_the_end_of_a_link_that_leads_nowhere_is_an_error(folder: Path) -> None:
    (folder / "link.db").symlink_to(folder / "gone" / "store.db")
    with pytest.raises(BackendError):
        Scheduler(folder / "link.db").history()
