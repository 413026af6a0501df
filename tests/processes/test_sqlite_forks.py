"""A SQLite store over fork: the child never touches what the parent has open."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from contract.driver import Driver, a_claim
from contract.hand_clock import HandClock

from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.errors import SchedulerStateError

ROWS = 3000

FORK_IN_A_TRANSACTION = f"""
import gc, os, sys, threading
from leasecron.backends.sqlite.backend import SqliteBackend

backend = SqliteBackend(sys.argv[1], journal=sys.argv[2])
backend.open()
written, forked = threading.Event(), threading.Event()

def work(connection, moment):
    connection.execute("PRAGMA cache_size = 10")  # so that pages are written before the commit
    values = ((f"job-{{number}}", "x" * 500) for number in range({ROWS}))
    into = "INSERT INTO jobs(name, schedule, first_seen, last_seen) VALUES (?, ?, 0, 0)"
    connection.executemany(into, values)
    written.set()
    forked.wait(30)

def write():
    with backend._store.call() as store:
        store.write(work)

thread = threading.Thread(target=write)
thread.start()
written.wait(30)
if os.fork() == 0:
    if sys.argv[3] == "collect":
        del backend
        gc.collect()
    sys.exit(0)
os.wait()
forked.set()
thread.join()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[Driver]:
    backend = SqliteBackend(path)
    clock = HandClock()
    backend.open(clock)
    yield Driver(backend, clock)
    backend.close()


def in_child(work: str, store: Driver) -> bool:
    """Fork, do what ``work`` names in the child, and say whether it went well."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            globals()[work](store)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def refuse_everything(store: Driver) -> None:
    """Every call raises, and closing does nothing."""
    backend = store.backend
    for call in (
        lambda: backend.open(),
        lambda: store.claim(0, "b"),
        lambda: store.heartbeat(0, "a"),
        lambda: store.finish(0, "a"),
        lambda: store.release(0, "a"),
        lambda: store.unfinished(),
        lambda: backend.history(),
        lambda: backend.suspend(),
    ):
        with pytest.raises(SchedulerStateError, match="before this process was forked"):
            call()
    backend.close()
    backend.forget()
    with pytest.raises(SchedulerStateError):
        backend.open()


def open_anew(store: Driver) -> None:
    """After ``forget`` the store is closed, and can be opened as any other."""
    store.backend.forget()
    with pytest.raises(SchedulerStateError, match="not open"):
        store.unfinished()
    store.backend.open(store.clock)
    assert store.claim(0, "b").outcome == "running"
    store.win(0, "c", job="child")
    store.backend.close()


def open_without_forgetting(store: Driver) -> None:
    """A child whose fork ran no hooks finds a suspended store, which is as good as closed."""
    with pytest.raises(SchedulerStateError, match="not open"):
        store.unfinished()
    store.backend.open(store.clock)
    assert store.claim(0, "b").outcome == "running"
    store.backend.close()


def claim_in_memory(store: Driver) -> None:
    store.backend.forget()
    with pytest.raises(SchedulerStateError):
        store.unfinished()
    store.backend.open(store.clock)
    assert store.claim(0, "b").outcome == "running"


def test_a_child_that_inherits_a_connection_never_uses_it(store: Driver) -> None:
    store.win(0, "a")

    assert in_child("refuse_everything", store)
    assert store.heartbeat(0, "a") == "ok"


@pytest.mark.parametrize("work", ["open_anew", "open_without_forgetting"])
def test_a_child_forked_while_suspended_opens_its_own(store: Driver, work: str) -> None:
    store.win(0, "a")
    store.backend.suspend()

    assert in_child(work, store)
    assert store.heartbeat(0, "a") == "ok"
    assert len(store.unfinished("child")) == (work == "open_anew")


def test_a_memory_store_is_a_copy_in_the_child() -> None:
    backend = MemoryBackend()
    store = Driver(backend, HandClock())
    backend.open(store.clock)
    store.win(0, "a")
    backend.suspend()

    assert in_child("claim_in_memory", store)
    assert store.heartbeat(0, "a") == "ok"


def test_many_forks_while_suspended_leave_the_store_whole(store: Driver, path: Path) -> None:
    for slot in range(20):
        store.win(slot, "a", overlap="allow", lease=1000.0)
        store.backend.suspend()
        assert in_child("open_without_forgetting", store)

    assert len(store.unfinished()) == 20
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("how", ["exit", "collect"])
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_child_that_ends_does_not_close_the_parents_connection(
    path: Path, journal: str, how: str
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_IN_A_TRANSACTION, str(path), journal, how],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (ROWS,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_descriptor_kept_by_a_child_does_not_stop_the_writers(store: Driver, path: Path) -> None:
    store.win(0, "a")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    other = SqliteBackend(path)
    other.open(store.clock)
    assert store.heartbeat(0, "a") == "ok"
    assert other.claim([a_claim(0, "b", job="other")])[0].outcome == "won"
    os.close(writer)
    os.close(reader)
    os.waitpid(pid, 0)
    other.close()
