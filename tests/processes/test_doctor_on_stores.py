"""The doctor as a command of its own, on stores that others use and on two mounts of one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.instances import LIMIT, Instances
from support.instances import spawned_instances as instances
from support.mounts import TwoMounts, two_mounts

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.doctor.trials import SCRATCH

__all__ = ["instances", "two_mounts"]

PROGRAM = """
scheduler = new_scheduler()
scheduler.every("tick", "100ms", note)

@scheduler.every("long", "30d", catch_up="30d", jitter=0)
def long(ctx):
    gates["long"].wait()

serve(scheduler)
"""


def doctor(store: str, *more: str) -> subprocess.Popen[str]:
    """Begin an examination."""
    return subprocess.Popen(
        [sys.executable, "-m", "leasecron", "doctor", store, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def said(process: subprocess.Popen[str]) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Return the exit code, the checks by name and the verdict."""
    out, errors = process.communicate(timeout=LIMIT)
    assert errors == ""
    report = json.loads(out)
    checks = {check["name"]: check for check in report["checks"]}
    assert all(set(check) == {"name", "verdict", "found", "reason"} for check in checks.values())
    return process.returncode, checks, report["verdict"]


@pytest.mark.slow
def test_a_store_in_use_is_examined_and_nobody_is_disturbed(instances: Instances) -> None:
    both = instances.spawn_all(2, PROGRAM)
    instances.wait_until(lambda: any(one.said("start", job="long") for one in both))
    before = sorted(instances.folder.iterdir())

    code, checks, verdict = said(doctor(instances.url, "--json"))

    assert verdict in {"good", "warning"}, checks  # the disk of a busy machine may be slow
    assert code == {"good": 0, "warning": 1}[verdict]
    assert checks["journal"]["found"] == "wal"
    assert checks["fcntl"]["verdict"] == "good"
    assert checks["lease"]["found"].startswith("long at ")  # the oldest, so in the last line
    assert sorted(instances.folder.iterdir()) == before
    ran = len(instances.log.lines("tick"))
    instances.wait_until(lambda: len(instances.log.lines("tick")) >= ran + 5)
    slots = [line.slot for line in instances.log.lines("tick")]
    assert len(slots) == len(set(slots))
    assert [one.said("error", "failure", "interrupted") for one in both] == [[], []]
    assert [one.said("skip", reason="late") for one in both] == [[], []]
    for one in both:
        one.tell('gates["long"].set()')
    assert instances.store.integrity() == "ok"


@pytest.fixture(params=["sqlite", "lockdir"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """Return the URL of a store and the folder in which it is tried."""
    folder = tmp_path / "store"
    folder.mkdir()
    if request.param == "sqlite":
        backend: SqliteBackend | LockDirBackend = SqliteBackend(folder / "store.db")
    else:
        backend = LockDirBackend(folder, create=True)
    backend.open()
    backend.close()
    return backend.description, folder


OTHER_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize(
    "how",
    [signal.SIGINT, *(pytest.param(how, marks=pytest.mark.slow) for how in OTHER_SIGNALS)],
)
def test_a_doctor_that_is_stopped_leaves_nothing(
    store: tuple[str, Path], how: signal.Signals
) -> None:
    url, folder = store
    before = sorted(folder.rglob("*"))
    process = doctor(url)
    deadline = time.monotonic() + LIMIT
    while not [*folder.glob(f"{SCRATCH}*/first/*/0")]:
        assert process.poll() is None
        assert time.monotonic() < deadline

    process.send_signal(how)
    out, errors = process.communicate(timeout=LIMIT)

    assert process.returncode == 128 + how
    assert out == ""
    assert "Traceback" not in errors
    assert sorted(folder.rglob("*")) == before


@pytest.mark.slow
def test_two_mounts_with_caches_and_locks_of_their_own_are_told_apart(
    two_mounts: TwoMounts,
) -> None:
    backend = LockDirBackend(two_mounts.first, create=True)
    backend.open()
    backend.close()

    code, checks, verdict = said(
        doctor(backend.description, "--also", str(two_mounts.second), "--json")
    )

    assert checks["second mount"]["verdict"] == "good"
    assert checks["second mount"]["found"].startswith("fuse")
    # One winner each, though an absent name is believed in for seconds there.
    assert checks["create on both"]["found"].startswith("500 slots, ")
    assert checks["link on both"]["found"].startswith("500 slots, ")
    assert float(checks["absent names"]["found"].split()[2]) > 1.0
    assert checks["flock on both"]["verdict"] == "warning"
    assert "both processes had the lock" in checks["flock on both"]["found"]
    assert (code, verdict) == (1, "warning")
    assert not [name for name in os.listdir(two_mounts.behind) if name.startswith(SCRATCH)]


@pytest.mark.slow
def test_a_sqlite_store_on_two_mounts_without_common_locks_is_not_to_be_trusted(
    two_mounts: TwoMounts, tmp_path: Path
) -> None:
    made = SqliteBackend(two_mounts.behind / "store.db", journal="delete")
    made.open()
    made.close()

    code, checks, _verdict = said(
        doctor(f"{two_mounts.first}/store.db", "--also", str(two_mounts.second), "--json")
    )

    assert checks["filesystem"]["verdict"] == "warning"
    assert checks["fcntl"]["verdict"] == "good"
    assert checks["fcntl on both"]["verdict"] == "bad"
    assert code == 2
