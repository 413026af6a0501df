"""Which locks a stopped process has on a store, and whether they keep others from it."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from support.stopped import wait_until_stopped

from chaos.faults import StoreFaults
from chaos.locks import Lock, are_told, keep_others_out, locks_of
from chaos.log import Log
from chaos.place import Place
from leasecron import SqliteBackend

pytestmark = pytest.mark.skipif(not are_told(), reason="the kernel does not tell of locks")

CONNECTED = """
import sqlite3, sys, time
path = sys.argv[1]
connection = sqlite3.connect(path, isolation_level=None, timeout=20)
connection.execute("SELECT * FROM jobs").fetchall()
{then}
print("ready", flush=True)
time.sleep(60)
"""
READS = 'connection.execute("BEGIN"); connection.execute("SELECT * FROM jobs").fetchall()'
WRITES = 'connection.execute("BEGIN IMMEDIATE")'
HAS_ITS_TURN = """
from leasecron.backends.sqlite.turnstile import Turnstile
turnstile = Turnstile(path + "-turnstile", mode=0o600, owner=(-1, -1))
assert turnstile.enter(1.0)
"""
TAKES_IT_AGAIN_AND_AGAIN = """
import threading
def work():
    other = sqlite3.connect(path, isolation_level=None, timeout=20)
    while True:
        other.execute("BEGIN IMMEDIATE")
        other.execute("COMMIT")
threading.Thread(target=work, daemon=True).start()
"""

Stopped = Callable[[str], int]


@pytest.fixture(params=["wal", "delete"])
def journal(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(tmp_path: Path, journal: str) -> Iterator[Path]:
    """A store that somebody else has open too."""
    path = tmp_path / "store" / "leasecron.db"
    path.parent.mkdir()
    backend = SqliteBackend(path, journal="wal" if journal == "wal" else "delete")
    backend.open()
    yield path
    backend.close()


@pytest.fixture
def stopped(database: Path) -> Iterator[Stopped]:
    """Start a process that does something to the store, and stop it then; return its pid."""
    with ExitStack() as stack:

        def start(then: str) -> int:
            command = [sys.executable, "-c", CONNECTED.format(then=then), str(database)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGSTOP)
            wait_until_stopped(process.pid)
            return process.pid

        yield start


def can_write(database: Path) -> bool:
    with closing(sqlite3.connect(database, isolation_level=None, timeout=0.0)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE meta SET value = value + 1")
            connection.execute("COMMIT")
        except sqlite3.OperationalError:
            return False
    return True


@pytest.mark.parametrize(
    ("then", "kept_out"),
    [
        (WRITES, {"wal", "delete"}),
        (READS, {"delete"}),
        (HAS_ITS_TURN, set()),
        ("", set()),
    ],
)
def test_who_keeps_others_from_writing_is_known_by_its_locks(
    database: Path, stopped: Stopped, journal: str, then: str, kept_out: set[str]
) -> None:
    locks = locks_of(stopped(then), database)
    assert keep_others_out(locks, database) == (journal in kept_out)
    assert can_write(database) == (journal not in kept_out)


def test_its_turn_is_told_too(database: Path, stopped: Stopped) -> None:
    locks = locks_of(stopped(HAS_ITS_TURN), database)
    assert Lock("leasecron.db-turnstile", True, 0, 0) in locks


@pytest.mark.parametrize("journal", ["wal"], indirect=True)
def test_what_brings_the_log_back_keeps_nobody_from_writing(database: Path) -> None:
    index = "leasecron.db-shm"
    others = [Lock("leasecron.db", False, 1073741826, 1073742335), Lock(index, False, 128, 128)]
    assert not keep_others_out([*others, Lock(index, True, 121, 121)], database)
    assert keep_others_out([*others, Lock(index, True, 120, 121)], database)


@pytest.mark.parametrize("journal", ["wal"], indirect=True)
@pytest.mark.parametrize(("then", "held"), [(WRITES, True), (READS, False)])
def test_a_lock_is_known_while_the_folder_is_elsewhere(
    tmp_path: Path, database: Path, stopped: Stopped, then: str, held: bool
) -> None:
    pid = stopped(then)
    database.parent.rename(tmp_path / "aside")
    assert keep_others_out(locks_of(pid, database), database) == held
    (tmp_path / "aside").rename(database.parent)


@pytest.mark.parametrize("journal", ["wal"], indirect=True)
def test_the_locks_of_one_that_was_stopped_while_it_took_them_stay_as_they_are(
    database: Path, stopped: Stopped
) -> None:
    for _ in range(5):
        pid = stopped(TAKES_IT_AGAIN_AND_AGAIN)
        locks = locks_of(pid, database)
        assert can_write(database) == (not keep_others_out(locks, database))
        assert locks_of(pid, database) == locks
        os.kill(pid, signal.SIGKILL)


def test_one_that_has_died_holds_nothing(database: Path, stopped: Stopped) -> None:
    pid = stopped(WRITES)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    wait_until_stopped(pid)
    assert locks_of(pid, database) == []


def test_a_store_without_leases_has_no_such_locks(tmp_path: Path) -> None:
    faults = StoreFaults(Place(f"lockdir:///{tmp_path / 'store'}", "auto"), Log(tmp_path / "log"))
    locks = faults.locks_of(os.getpid())
    assert not faults.is_held_by(locks)
