"""Stores of earlier schema versions are brought up to date, beneath instances that use them.

In version 1 runs were keyed by job and slot; version 2 knows nothing of retries and pauses.
"""

from __future__ import annotations

import os
import queue
import signal
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from contract.driver import LEASE, Driver, at
from contract.hand_clock import START, HandClock
from support.requirements import require

from leasecron import Scheduler, store
from leasecron.backends.sqlite import schema as sqlite_schema
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.schema import CHANGES, Change, migrate
from leasecron.clock import SystemClock, SystemWaker, Waker
from leasecron.errors import BackendError, BackendMismatch
from leasecron.logger import logger
from leasecron.model import NewRun, Retention, Retry, from_ms

BEGAN = round(START * 1000)
TABLES = ("runs", "results", "jobs", "meta", "hosts")
_NEWEST = """
    SELECT name, newest FROM jobs
    WHERE newest IS NOT (SELECT max(slot) FROM runs WHERE job = name)
"""
# As version 2 says it.
_OF_RUNS = (
    *("job", "slot", "state", "token", "attempt", "lost", "fence", "released_fence", "instance"),
    *("trigger", "claimed_at", "lease_until", "boot", "lease_mono"),
)
_PUT = f"""
    INSERT INTO runs({", ".join(_OF_RUNS)}) VALUES ({", ".join("?" * len(_OF_RUNS))})
    ON CONFLICT (slot, job)
    DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _OF_RUNS[2:])}
"""
_FINISH = """
    UPDATE runs SET state = ?, boot = '', lease_mono = 0, lease_until = min(lease_until, ?)
    WHERE job = ? AND slot = ? AND token = ? AND state IN ('claimed', 'released')
"""
_SAVE = """
    INSERT OR IGNORE INTO results(fence, job, slot, attempt, instance, trigger, status, started_at,
    ended_at, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)
"""

Contents = dict[str, list[tuple[Any, ...]]]
Row = tuple[Any, ...]


def a_run(job: str, slot: int, state: str, token: str, **values: Any) -> Row:
    """Return a row whose slot is in seconds after the start, with a lease of LEASE seconds."""
    lease = values.get("lease", LEASE) * 1000
    clock = HandClock()
    return (
        *(job, BEGAN + slot * 1000, state, token, values.get("attempt", 1), values.get("lost", 0)),
        *(BEGAN + 100 + slot, values.get("released_fence"), f"instance-{token}", "scheduled"),
        *(BEGAN + slot * 1000, BEGAN + slot * 1000 + lease),
        *(values.get("boot", clock.boot_id()), round(clock.monotonic() * 1000) + lease),
    )


RUNS = [
    a_run("busy", 0, "success", "a", boot=""),
    a_run("busy", -60, "abandoned", "b", attempt=3, lost=3, boot=""),
    a_run("busy", -30, "replaced", "c", lost=1, boot=""),
    a_run("zombie", 0, "failed", "d"),
    a_run("zombie", -90, "success", "e", boot=""),
    a_run("crashed", 0, "claimed", "f", lease=-5),
    a_run("released", 0, "released", "g", released_fence=BEGAN + 90, boot=""),
    a_run("undeclared", 0, "claimed", "h"),
    a_run("elsewhere", 0, "claimed", "i", boot=None),
]
RESULTS = [
    (BEGAN + 1, "busy", BEGAN, 1, "instance-a", "scheduled", "success", BEGAN, BEGAN + 9, None),
    (BEGAN + 2, "busy", BEGAN, 1, "instance-b", "takeover", "lost", BEGAN, BEGAN + 9, "é\n"),
]
JOBS = [
    ("busy", "every 30s", 1, 2, BEGAN - 90_000),
    *((name, "", 3, 4, None) for name in ("zombie", "crashed", "released", "elsewhere", "idle")),
]


# What version 3 adds to each row.
ADDED: dict[str, Row] = {"runs": (0, "scheduled", 0), "results": (0,), "meta": (), "hosts": ()}


@pytest.fixture(params=range(1, len(CHANGES)))
def old(request: pytest.FixtureRequest) -> int:
    """Return the version of a store that is to be brought up to date."""
    return int(request.param)


@pytest.fixture(params=["wal", "delete"])
def path(tmp_path: Path, request: pytest.FixtureRequest, old: int) -> Path:
    path = tmp_path / "store.db"
    make_old(path, request.param, old)
    return path


def make_old(path: Path, journal: str, old: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        migrate(connection, 1, CHANGES[:1])
        put(connection, "runs", RUNS)
        put(connection, "results", RESULTS)
        put(connection, "jobs", JOBS)
        put(connection, "hosts", [("far", "boot", 5)])
        connection.execute("UPDATE meta SET value = ?", (BEGAN + 1000,))
        migrate(connection, 1, CHANGES[:old])


def put(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    values = ", ".join("?" * len(rows[0]))
    connection.executemany(f"INSERT INTO {table} VALUES ({values})", rows)


def contents(path: Path) -> Contents:
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr)
            for table in TABLES
        }


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return bool(connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)])


def open_once(path: Path) -> None:
    backend = SqliteBackend(path)
    backend.open()
    backend.close()


@pytest.fixture
def opened(path: Path) -> Iterator[Driver]:
    clock = HandClock()
    backend = SqliteBackend(path)
    backend.open(clock)
    yield Driver(backend, clock)
    backend.close()


def check_complete(path: Path, before: Contents) -> None:
    """Say that the store is of the present version and has all that it had."""
    after = contents(path)
    assert version(path) == len(CHANGES)
    for table, added in ADDED.items():
        assert after[table] == [row + added for row in before[table]], table
    jobs = {row[0]: row[:5] for row in before["jobs"]}
    assert {row[0] for row in after["jobs"]} == {*jobs, "undeclared"}
    assert all(row[:5] == jobs[row[0]] for row in after["jobs"] if row[0] in jobs)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(_NEWEST).fetchall() == []
    assert is_sound(path)


def test_nothing_is_lost_and_the_newest_slots_are_noted(path: Path) -> None:
    before = contents(path)

    open_once(path)

    check_complete(path, before)


def test_runs_go_on_as_they_were(opened: Driver) -> None:
    assert opened.heartbeat(0, "h", job="undeclared") == "ok"
    assert opened.claim(0, "x", job="undeclared").outcome == "running"
    assert opened.claim(0, "x", job="zombie").outcome == "done"
    assert opened.claim(10, "x", job="zombie").outcome == "overlap"
    assert opened.claim(0, "x", job="elsewhere").outcome == "running"
    assert [opened.take_over(slot, "x", job="busy").holder for slot in (0, -60, -30)] == [
        *("instance-a", "instance-b", "instance-c")
    ]
    crashed, released = (opened.take_over(0, "x", job=job) for job in ("crashed", "released"))
    assert [(lost.fence, lost.status) for lost in crashed.closed] == [(BEGAN + 100, "lost")]
    assert (released.outcome, released.attempt, released.closed) == ("won", 2, ())
    assert (crashed.fence, released.fence) == (BEGAN + 1000, BEGAN + 1001)


def test_marks_hold_as_they_did(opened: Driver) -> None:
    assert opened.claim(-90, "x", job="busy").outcome == "done"  # pruned
    assert opened.claim(-89, "x", job="busy").outcome == "won"

    opened.clock.advance(1e6)
    opened.backend.prune([Retention(job, 0.0, 1000, 1e9) for job in ("busy", "zombie")])
    assert opened.claim(0, "x", job="busy", max_late=1e9).holder == "instance-a"
    assert opened.claim(0, "x", job="zombie", max_late=1e9).holder == "instance-d"
    assert opened.claim(-90, "x", job="zombie", max_late=1e9).holder is None


def test_an_earlier_program_refuses_the_new_version(
    path: Path, old: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_once(path)
    before = contents(path)
    monkeypatch.setattr(sqlite_schema, "CHANGES", CHANGES[:old])

    found = rf"newer leasecron \(schema {len(CHANGES)}, this one knows {old}\)"
    with pytest.raises(BackendMismatch, match=found):
        open_once(path)

    assert contents(path) == before


class PowerCut(Exception):
    """Ends a migration where a crash would."""


class Failing:
    """A connection whose n-th statement, counted from 0, does not come about."""

    def __init__(self, connection: sqlite3.Connection, left: int) -> None:
        self._connection = connection
        self._left = left

    def execute(self, *given: Any) -> sqlite3.Cursor:
        if not self._left:
            raise PowerCut
        self._left -= 1
        return self._connection.execute(*given)


def test_a_crash_at_any_statement_leaves_the_old_version(
    path: Path, old: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(path)
    for number in range(100):

        def cut(connection: sqlite3.Connection, now: int, left: int = number) -> None:
            CHANGES[old](Failing(connection, left), now)  # type: ignore[arg-type]

        with monkeypatch.context() as cutting:
            changes = (*CHANGES[:old], cut, *CHANGES[old + 1 :])
            cutting.setattr(sqlite_schema, "CHANGES", changes)
            try:
                open_once(path)
            except PowerCut:
                pass
            else:
                break
        assert version(path) == old
        assert contents(path) == before
    assert number > 5
    check_complete(path, before)


def test_a_process_that_is_killed_at_the_end_of_it_leaves_the_old_version(
    path: Path, old: int
) -> None:
    require(hasattr(os, "fork"), "needs processes that can be forked")
    before = contents(path)
    child = os.fork()
    if not child:
        try:
            migrate_and_die(path, old)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL

    assert version(path) == old
    assert is_sound(path)
    assert contents(path) == before
    open_once(path)
    check_complete(path, before)


def migrate_and_die(path: Path, old: int) -> None:
    """Migrate and die before the commit, when pages have been written already."""

    def killed(connection: sqlite3.Connection, now: int) -> None:
        connection.execute("PRAGMA cache_size = 1")
        CHANGES[old](connection, now)
        os.kill(os.getpid(), signal.SIGKILL)

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, 1, (*CHANGES[:old], killed))


def test_an_instance_that_was_running_before_goes_on_and_its_claims_are_noted(path: Path) -> None:
    """In a rolling deploy the first new instance changes the schema beneath those that run."""
    with closing(sqlite3.connect(path, isolation_level=None)) as before:
        before.execute("SELECT count(*) FROM runs").fetchall()
        backend = SqliteBackend(path)
        backend.open(HandClock())
        for slot in (60, 30):
            for job in ("busy", "new"):
                before.execute(_PUT, a_run(job, slot, "claimed", f"{job} {slot}"))
        backend.close()
        newest = before.execute("SELECT name, newest FROM jobs WHERE name IN ('busy', 'new')")
        assert dict(newest.fetchall()) == dict.fromkeys(("busy", "new"), BEGAN + 60_000)
        assert before.execute(_NEWEST).fetchall() == []


def test_an_instance_of_version_2_begins_runs_that_wait(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as before:
        before.execute("SELECT count(*) FROM runs").fetchall()
        backend = SqliteBackend(path)
        backend.open(HandClock())
        store = Driver(backend, HandClock())
        backend.add_runs([NewRun("busy", at(61), "asker"), NewRun("new", at(61), "asker")])
        assert store.claim(60, "w", job="undeclared", overlap="queue").outcome == "overlap"

        for job, slot in (("busy", 61), ("undeclared", 60)):
            before.execute(_PUT, a_run(job, slot, "claimed", f"old {job}", boot=None))

        newest = dict(before.execute("SELECT name, newest FROM jobs").fetchall())
        assert [newest.get(job) for job in ("busy", "new", "undeclared")] == [
            *(BEGAN, None, BEGAN + 60_000)
        ]
        assert [(run.job, run.attempt) for run in backend.asked_for()] == [("busy", 1), ("new", 0)]
        assert store.take_over(61, "x", job="busy").outcome == "running"
        backend.close()


def test_an_instance_of_version_2_goes_on_with_its_statements(path: Path) -> None:
    """They name their columns, and what they leave out begins as in a new row."""
    with closing(sqlite3.connect(path, isolation_level=None)) as before:
        before.execute("SELECT count(*) FROM runs").fetchall()
        backend = SqliteBackend(path)
        store = Driver(backend, HandClock())
        backend.open(store.clock)
        fence = store.win(60, "a", job="new")
        backend.retry([Retry("new", at(60), "a", 2)])

        renewed = a_run("new", 60, "claimed", "a", lease=10 * LEASE, boot=None)
        before.execute(_PUT, (*renewed[:6], fence, *renewed[7:]))
        store.clock.advance(5 * LEASE)
        assert store.claim(60, "b", job="new").outcome == "running"
        assert store.claim(60, "a", job="new").retries == 2
        before.execute(_FINISH, ("success", BEGAN, "new", BEGAN + 60_000, "a"))
        assert store.claim(60, "b", job="new").outcome == "done"
        before.execute(_SAVE, (fence, "new", BEGAN + 60_000, 1, "i", "scheduled", "success", 1, 2))
        (record,) = backend.history("new")
        assert (record.retries, record.ended_at) == (0, from_ms(2))
        before.execute("DELETE FROM runs WHERE slot = ? AND job = 'new'", (BEGAN + 60_000,))
        assert backend.run_state("new", at(60)) is None
        backend.close()


def migrate_late_by(change: Change, old: int, monkeypatch: pytest.MonkeyPatch) -> SystemClock:
    """Have ``change`` made once a start has waited for too long, and has said so.

    Returns the clock of that start: by it the wait is over as soon as the change has begun.
    """
    begun, told = threading.Event(), threading.Event()

    def waits(connection: sqlite3.Connection, now: int) -> None:
        begun.set()
        assert told.wait(30)
        change(connection, now)

    class Impatient(SystemWaker):
        def get(self, timeout: float | None = None) -> Any:
            if timeout == store.OPEN_WAIT:
                assert begun.wait(30)
                raise queue.Empty
            return super().get(timeout)

    class Clock(SystemClock):
        def waker(self) -> Waker:
            return Impatient()

    changes = (*CHANGES[:old], waits, *CHANGES[old + 1 :])
    monkeypatch.setattr(sqlite_schema, "CHANGES", changes)
    monkeypatch.setattr(logger, "warning", lambda *_: told.set())
    return Clock()


def test_a_start_waits_for_a_migration_however_long_it_takes(
    path: Path, old: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = migrate_late_by(CHANGES[old], old, monkeypatch)
    with Scheduler(path, clock=clock):
        assert version(path) == len(CHANGES)


def test_a_migration_that_fails_is_the_error_of_the_start_that_waited_for_it(
    path: Path, old: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_connection: sqlite3.Connection, _now: int) -> None:
        raise sqlite3.DatabaseError("no such page")

    clock = migrate_late_by(fails, old, monkeypatch)
    with pytest.raises(BackendError, match="no such page"):
        Scheduler(path, clock=clock).start()
    assert version(path) == old
