"""Versions of the schema: brought up to date at once or not at all, and read cheaply."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from contract.driver import a_claim
from contract.hand_clock import START, HandClock

from leasecron.backends.sqlite import schema as sqlite_schema
from leasecron.backends.sqlite.asked_for import _ASKED_FOR
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.batches import with_rows
from leasecron.backends.sqlite.claims import _STANDINGS
from leasecron.backends.sqlite.pauses import _IN_PAUSES, _OLD
from leasecron.backends.sqlite.runs import _FINISH, _KNOWN, _MARKS, _OPEN_ROWS, _ROWS
from leasecron.backends.sqlite.schema import CHANGES, Change, migrate
from leasecron.errors import BackendError


class PowerCut(Exception):
    """Ends a migration where a crash would."""


def make_old_store(path: Path, version: int) -> None:
    """Make the store of an earlier version of leasecron."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, 1, CHANGES[:version])


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def add_column(name: str) -> Change:
    def change(connection: sqlite3.Connection, now: int) -> None:
        connection.execute(f"ALTER TABLE jobs ADD COLUMN {name} INTEGER DEFAULT {now}")

    return change


def power_cut(connection: sqlite3.Connection, now: int) -> None:
    raise PowerCut


def with_changes(monkeypatch: pytest.MonkeyPatch, *more: Change) -> None:
    monkeypatch.setattr(sqlite_schema, "CHANGES", (*CHANGES, *more))


@pytest.mark.parametrize("version", range(1, len(CHANGES) + 1))
def test_a_store_of_an_earlier_version_is_brought_up_to_date(path: Path, version: int) -> None:
    make_old_store(path, version)
    backend = SqliteBackend(path)

    backend.open()

    assert backend.claim([a_claim(0, "a", max_late=1e12)])[0].outcome == "won"
    backend.close()
    assert version_of(path) == len(CHANGES)


def test_later_changes_keep_what_is_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    backend = SqliteBackend(path)
    backend.open(clock)
    (first,) = backend.claim([a_claim(0, "a")])
    backend.close()
    with_changes(monkeypatch, add_column("one"), add_column("two"))

    backend.open(clock)

    (again,) = backend.claim([a_claim(0, "a")])
    assert again == first
    backend.close()
    assert version_of(path) == len(CHANGES) + 2


def test_a_crash_between_two_changes_leaves_the_old_version(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old_store(path, len(CHANGES))
    with monkeypatch.context() as crashing:
        with_changes(crashing, add_column("one"), power_cut)
        with pytest.raises(PowerCut):
            SqliteBackend(path).open()
        assert version_of(path) == len(CHANGES)
    with_changes(monkeypatch, add_column("one"), add_column("two"))

    backend = SqliteBackend(path)
    backend.open()

    assert version_of(path) == len(CHANGES) + 2
    backend.close()


def test_a_crash_while_a_store_is_created_leaves_an_empty_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as crashing:
        with_changes(crashing, power_cut)
        with pytest.raises(PowerCut):
            SqliteBackend(path).open()
    assert version_of(path) == 0

    backend = SqliteBackend(path)
    backend.open()

    assert version_of(path) == len(CHANGES)
    backend.close()


def test_a_store_migrated_while_it_was_suspended_is_not_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = SqliteBackend(path)
    backend.open()
    backend.suspend()
    with monkeypatch.context() as newer:
        with_changes(newer, add_column("one"))
        other = SqliteBackend(path)
        other.open()
        other.close()

    with pytest.raises(BackendError, match="newer leasecron"):
        backend.unfinished(["job"])
    backend.close()


def test_a_store_that_another_process_creates_meanwhile_is_no_foreign_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sqlite_schema._number
    asked: list[str] = []

    def create_after_the_first(connection: sqlite3.Connection, statement: str) -> int:
        found = real(connection, statement)
        asked.append(statement)
        if len(asked) == 1:
            make_old_store(path, len(CHANGES))
        return found

    path.touch()
    with monkeypatch.context() as racing:
        racing.setattr(sqlite_schema, "_number", create_after_the_first)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            sqlite_schema.is_current(connection, str(path))

    assert len(asked) > 1


def test_fences_begin_at_the_time_of_creation(path: Path) -> None:
    clock = HandClock()
    backend = SqliteBackend(path)
    backend.open(clock)
    clock.advance(100)

    (answer,) = backend.claim([a_claim(100, "a")])

    assert answer.fence == round(START * 1000)
    backend.close()


def test_a_current_store_is_opened_without_the_slow_imports(path: Path) -> None:
    backend = SqliteBackend(path)
    backend.open()
    backend.close()
    program = (
        "import sys; from leasecron.backends.sqlite.backend import SqliteBackend\n"
        "assert not {'sqlite_utils', 'filelock', 'portalocker'} & set(sys.modules)\n"
        f"backend = SqliteBackend({str(path)!r}); backend.open()\n"
        "assert not {'sqlite_utils', 'filelock'} & set(sys.modules)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=False
    )

    assert done.stderr == b""
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("query", "columns", "plan"),
    [
        (_STANDINGS, 4, "SEARCH runs USING INDEX sqlite_autoindex_runs_1 (slot=? AND job=?)"),
        (_OPEN_ROWS, 1, "SEARCH runs USING INDEX runs_open (job=?)"),
        (_ROWS, 2, "SEARCH runs USING INDEX sqlite_autoindex_runs_1 (slot=? AND job=?)"),
        (_MARKS, 2, "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (name=?)"),
        (_FINISH, 3, "SEARCH runs USING INDEX sqlite_autoindex_runs_1 (slot=? AND job=?)"),
        (_KNOWN, 2, "SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1 (slot=? AND job=?)"),
        (_KNOWN, 2, "SEARCH runs USING INDEX runs_open (job=?)"),
        (_IN_PAUSES, 2, "SEARCH pauses USING PRIMARY KEY (job=? AND paused_at<?)"),
        (_OLD, 2, "SEARCH pauses USING PRIMARY KEY (job=?)"),
    ],
)
@pytest.mark.parametrize("rows", [1, 512])
def test_the_queries_of_a_claim_use_their_index(
    path: Path, rows: int, query: str, columns: int, plan: str
) -> None:
    make_old_store(path, len(CHANGES))
    text = with_rows(query, rows, columns)
    with closing(sqlite3.connect(path)) as connection:
        asked = connection.execute(f"EXPLAIN QUERY PLAN {text}", (1,) * text.count("?"))
        steps = asked.fetchall()

    assert plan in [step[3] for step in steps]


def test_what_was_asked_for_is_found_by_an_index_that_holds_nothing_else(path: Path) -> None:
    make_old_store(path, len(CHANGES))
    with closing(sqlite3.connect(path)) as connection:
        steps = connection.execute(f"EXPLAIN QUERY PLAN {_ASKED_FOR}").fetchall()

    assert [step[3] for step in steps] == ["SCAN runs USING INDEX runs_asked_for"]
