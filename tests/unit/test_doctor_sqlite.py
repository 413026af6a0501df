"""What the doctor and ``checks()`` see in a SQLite store, without changing it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import doctor_support
import pytest
from contract.driver import a_claim
from contract.hand_clock import HandClock
from doctor_support import OnFilesystem, by_name, claim, looked, make, the_only_bad, verdicts

from leasecron.backends.sqlite import checks as sqlite_checks
from leasecron.backends.sqlite import contents as sqlite_contents
from leasecron.backends.sqlite import schema as sqlite_schema
from leasecron.backends.sqlite import setup as sqlite_setup
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.setup import Journal
from leasecron.backends.sqlite.turnstile import Turnstile
from leasecron.doctor import look_at_sqlite as looking
from leasecron.doctor.look_at_sqlite import look_at_sqlite
from leasecron.model import Ending

path, store, on = doctor_support.path, doctor_support.store, doctor_support.on


# A store in order


def test_all_is_good_of_a_store_in_order(path: Path) -> None:
    make(path)

    look = looked(path)

    assert set(verdicts(look).values()) == {"good"}
    assert by_name(look)["journal"].found == "wal"
    assert by_name(look)["synchronous"].found == "FULL"
    assert look.folder == str(path.parent)


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_looking_makes_and_changes_nothing(path: Path, journal: Journal) -> None:
    backend = SqliteBackend(path, journal=journal)
    backend.open()
    backend.close()
    Path(f"{path}-setup.lock").unlink()
    before = path.read_bytes(), path.stat().st_mtime_ns

    look_at_sqlite(backend)

    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert [*path.parent.iterdir()] == [path]


def test_looking_notes_no_host_in_a_store_on_a_network(path: Path, on: OnFilesystem) -> None:
    make(path)
    on("nfs4")

    look = looked(path)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM hosts").fetchone() == (0,)
    assert by_name(look)["hosts"].verdict == "good"


def test_a_store_in_use_is_looked_at_through_its_turnstile(
    path: Path, store: SqliteBackend
) -> None:
    assert "bad" not in verdicts(looked(path)).values()
    assert store.claim([claim(1, "a")])[0].outcome == "won"


def test_the_last_to_close_a_store_does_so_in_turn(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(path)
    Path(f"{path}-turnstile").touch()  # as the first writer does
    log = Path(f"{path}-wal")
    seen: list[tuple[str, bool]] = []

    class Watched(Turnstile):
        def enter(self, wait: float, *, make: bool = True) -> bool:
            seen.append(("in turn", log.exists()))
            return super().enter(wait, make=make)

        def leave(self) -> None:
            seen.append(("next", log.exists()))
            super().leave()

    monkeypatch.setattr(sqlite_setup, "Turnstile", Watched)

    looked(path)

    # Closing brings the log into the database and removes it: what must not happen twice at once.
    assert seen == [("in turn", True), ("next", False)]


@pytest.mark.parametrize("kind", ["tmpfs", "overlay"])
def test_what_is_local_but_not_lasting_is_said_so(path: Path, on: OnFilesystem, kind: str) -> None:
    make(path)
    on(kind)

    check = by_name(looked(path))["filesystem"]

    assert check.verdict == "good"
    assert check.reason.startswith("it is local to this host, and ")


# What is none, or cannot be used


def test_a_store_that_does_not_exist_is_not_made(path: Path) -> None:
    check = the_only_bad(path)

    assert f"leasecron init sqlite:///{path}" in check.reason
    assert not path.exists()


def test_the_command_can_be_pasted_whatever_the_name(tmp_path: Path) -> None:
    check = the_only_bad(tmp_path / "a b'c.db")

    assert f"""leasecron init 'sqlite:///{tmp_path}/a b'"'"'c.db'""" in check.reason


def test_an_empty_file_is_no_store_yet(path: Path) -> None:
    path.touch()

    assert "leasecron init" in the_only_bad(path).reason
    assert path.stat().st_size == 0


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    assert "make it first" in the_only_bad(tmp_path / "missing" / "store.db").reason


def test_a_folder_in_place_of_the_file_is_told(path: Path) -> None:
    path.mkdir()

    assert "it is a folder" in the_only_bad(path).reason


def test_a_file_that_is_no_database_is_told(path: Path) -> None:
    path.write_bytes(b"garbage " * 1000)

    assert "not a database" in the_only_bad(path).reason


def test_a_database_of_another_program_is_told(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t(x)")
        connection.commit()

    assert "another program" in the_only_bad(path).reason


def test_a_newer_schema_is_told(path: Path) -> None:
    make(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")

    check = the_only_bad(path)

    assert check.name == "schema"
    assert "newer leasecron" in check.reason


def test_an_older_schema_is_warned_of_and_left_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(path)
    changes = (*sqlite_schema.CHANGES, lambda connection, now: None)
    monkeypatch.setattr(sqlite_schema, "CHANGES", changes)
    monkeypatch.setattr(sqlite_checks, "CHANGES", changes)

    look = looked(path)

    assert by_name(look)["schema"].verdict == "warning"
    assert look.contents == []
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(changes) - 1,)


@pytest.fixture
def read_only_store() -> Iterator[Path]:
    """Return a store that nobody may write, and be nobody where the tests run as root."""
    folder = Path(tempfile.mkdtemp())
    path = folder / "store.db"
    make(path)
    path.chmod(0o444)
    folder.chmod(0o777)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield path
    if root:
        os.seteuid(0)
    shutil.rmtree(folder)


def test_a_store_that_may_not_be_written_is_told(read_only_store: Path) -> None:
    check = the_only_bad(read_only_store)

    assert "no permission to write" in check.reason
    assert stat.S_IMODE(read_only_store.stat().st_mode) == 0o444


# The write lock


def test_a_write_lock_that_is_not_given_back_is_warned_of(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_PATIENT", 0.02)
    make(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")

        assert by_name(looked(path))["write lock"].verdict == "warning"

    assert by_name(looked(path))["write lock"].verdict == "good"


def test_a_write_lock_that_cannot_be_had_is_bad(path: Path) -> None:
    make(path)
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
        assert looking._check_write(reader).verdict == "bad"


# Leases


def test_live_leases_are_shown_with_age_and_time_left(path: Path, store: SqliteBackend) -> None:
    store.claim([claim(5, "a"), claim(9, "b", job="other\x1b")])

    contents = looked(path).contents

    leases = [check for check in contents if check.name == "lease"]
    assert by_name([*contents])["leases"].found == "2 live"
    assert by_name([*contents])["rows"].found == "2 jobs, 2 runs, 0 results"
    assert [check.found.split(" at ")[0] for check in leases] == ["job", "other\x1b"]
    assert "attempt 1 by instance-a" in leases[0].found
    left = float(leases[0].reason.split()[-3])
    assert 0 < left <= 1000


def test_runs_without_a_live_lease_are_counted(path: Path) -> None:
    clock = HandClock()
    backend = SqliteBackend(path)
    backend.open(clock)
    backend.claim([a_claim(0, "a"), a_claim(0, "b", job="other")])
    backend.release([Ending("other", a_claim(0, "b").slot, "b", "interrupted")])
    backend.close()

    found = by_name(looked(path))

    assert found["leases"].found == "0 live"
    assert found["leases"].reason.startswith("2 unfinished")


def test_a_lease_kept_after_the_end_of_its_run_is_shown(path: Path, store: SqliteBackend) -> None:
    late = claim(5, "a")
    store.claim([late])
    store.finish([Ending(late.job, late.slot, "a", "failed", keep_lease=True)])

    assert "kept by a handler after its run was failed" in by_name(looked(path))["lease"].reason


def test_of_many_leases_the_newest_are_shown(
    path: Path, store: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_contents, "SHOWN", 2)
    store.claim([claim(ago, str(ago), job=f"job-{ago}") for ago in (5, 3, 4)])

    leases = [check for check in looked(path).contents if check.name == "lease"]

    assert [check.found.split()[0] for check in leases] == ["job-3", "job-4", "1"]


def test_counting_many_rows_ends(
    path: Path, store: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_contents, "_MOST", 2)
    store.claim([claim(ago, str(ago)) for ago in (3, 4, 5)])

    assert by_name(looked(path))["rows"].found == "1 jobs, 2 or more runs, 0 results"
