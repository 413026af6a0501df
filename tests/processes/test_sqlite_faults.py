"""What stopped, killed and starved processes do to others on the same SQLite file: little."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from contract.driver import Driver
from contract.hand_clock import HandClock

from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.errors import BackendUnavailable

HOLD_THE_WRITE_LOCK = """
import sys, time
from leasecron.backends.sqlite.backend import SqliteBackend

backend = SqliteBackend(sys.argv[1])
backend.open()

def work(connection, moment):
    into = "INSERT INTO jobs(name, schedule, first_seen, last_seen)"
    connection.execute(f"{into} VALUES ('half', '', 0, 0)")
    print("holding", flush=True)
    sys.stdin.readline()

with backend._store.call() as store:
    store.write(work)
print("done", flush=True)
"""

WATCH_FILES = """
import json, os, sys
from contract.driver import a_claim
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.model import Declaration, Ending, LeaseRef, Retention

opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" else None)
backend = SqliteBackend(sys.argv[1], journal=sys.argv[2])
for _ in range(2):
    backend.open()
    backend.declare([Declaration("job", "daily")])
    for slot in range(20):
        claim = a_claim(slot, "a", max_late=1e12)
        backend.claim([claim])
        backend.heartbeat([LeaseRef("job", claim.slot, "a", 20.0)])
        backend.finish([Ending("job", claim.slot, "a", "success")])
        backend.suspend()
    backend.prune([Retention("job", 0.0, 0, 0.0)])
    backend.history()
    backend.close()
print(json.dumps([os.fsdecode(name) for name in opened if isinstance(name, (str, bytes))]))
"""

FILL_THE_DISK = """
import os, resource, sys
from contract.driver import a_claim
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.errors import BackendUnavailable

path = sys.argv[1]
backend = SqliteBackend(path, journal=sys.argv[2])
backend.open()
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

def claim(slot):
    claims = [a_claim(slot, "a", job=f"job-{slot}-{n}", max_late=1e12) for n in range(50)]
    return {answer.outcome for answer in backend.claim(claims)}

assert claim(0) == {"won"}
sizes = [os.stat(path + end).st_size for end in ("", "-wal") if os.path.exists(path + end)]
resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) + 8192, hard))
won, refused = [], []
for slot in range(1, 40):
    try:
        claim(slot)
        won.append(slot)
    except BackendUnavailable as error:
        assert path in str(error), error
        refused.append(slot)
assert refused, "the disk never was full"
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert claim(refused[-1]) == {"won"}
assert all(claim(slot) == {"won"} for slot in won), "the same token is answered as before"
print(len(refused))
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


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Have another process that is in the middle of a transaction that writes."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_WRITE_LOCK, str(path)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "holding\n"
        yield child
        child.kill()


def run_program(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.slow
def test_a_stopped_writer_makes_calls_fail_soon_and_only_until_it_goes_on(
    store: Driver, path: Path
) -> None:
    store.win(0, "a")
    with holder(path) as child:
        child.send_signal(signal.SIGSTOP)
        waited = []
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(BackendUnavailable, match="locked"):
                store.heartbeat(0, "a")
            waited.append(time.monotonic() - began)
        assert store.claim(0, "b").outcome == "running"
        child.send_signal(signal.SIGCONT)
        output, _errors = child.communicate("go on\n")
        assert output == "done\n"

    assert min(waited) < 1.0  # what a loaded machine adds is not the store's
    assert store.heartbeat(0, "a") == "ok"


def test_a_killed_writer_leaves_nothing_behind(store: Driver, path: Path) -> None:
    store.win(0, "a")
    with holder(path) as child:
        child.kill()
        child.wait()

        assert store.heartbeat(0, "a") == "ok"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM jobs").fetchall() == [("job",)]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_writers_killed_at_any_moment_leave_the_store_whole(store: Driver, path: Path) -> None:
    for slot in range(5):
        with holder(path) as child:
            child.kill()
        store.win(slot, "a", overlap="allow")
    store.backend.close()
    store.backend.open(store.clock)

    assert len(store.unfinished()) == 5


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_the_files_of_the_database_are_opened_by_sqlite_alone(path: Path, journal: str) -> None:
    opened = json.loads(run_program(WATCH_FILES, str(path), journal))

    beside = {Path(name).name for name in opened if name.startswith(str(path))}
    assert beside == {"store.db-setup.lock", "store.db-turnstile"}


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_full_disk_is_an_outage_that_ends(path: Path, journal: str) -> None:
    assert int(run_program(FILL_THE_DISK, str(path), journal)) > 0

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
