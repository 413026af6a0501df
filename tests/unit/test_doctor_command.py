"""``leasecron doctor`` as a command: what it prints and how it exits."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leasecron.backends.filesystems import Filesystem
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.plain import complete
from leasecron.backends.sqlite import place as sqlite_place
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.cli import main
from leasecron.doctor import latency, locks, races
from leasecron.doctor.examination import examine_store

TRIED = {"folder", "space", "fsync", "create", "link", "flock", "fcntl"}


@pytest.fixture(autouse=True)
def _a_machine_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a quick disk, and two processes of equal speed, whatever else the machine does."""
    monkeypatch.setattr(latency, "measure", lambda path: [0.001])
    monkeypatch.setattr(races, "race", lambda *_: races.judge(4, {0, 2}, {1, 3}))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    backend = SqliteBackend(path)
    backend.open()
    backend.close()
    return path


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def test_a_store_in_order_is_good_and_exits_with_0(store: Path) -> None:
    before = sorted(store.parent.iterdir())

    done = doctor(f"sqlite:///{store}")

    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == f"store sqlite:///{store}"
    assert done.stdout.splitlines()[-1].startswith("good: ")
    assert sorted(store.parent.iterdir()) == before


def test_the_quick_checks_come_first_and_what_it_holds_last(store: Path) -> None:
    said = json.loads(doctor(str(store), "--json").stdout)

    names = [check["name"] for check in said["checks"]]
    backend = SqliteBackend(store)
    backend.open()
    quick = [check.name for check in backend.checks()]
    backend.close()
    assert names[: len(quick)] == quick
    assert set(names) >= TRIED
    assert names[-2:] == ["rows", "leases"]
    assert said["verdict"] == "good"


def test_a_warning_exits_with_1(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "measure", lambda path: [0.5])

    done = doctor(str(store))

    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1].startswith("warning: ")


def test_a_lock_that_does_not_hold_exits_with_2(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "try_lock", lambda *_: ("taken", "taken"))

    done = doctor(str(store), "--json")

    assert done.exit_code == 2
    assert json.loads(done.stdout)["verdict"] == "bad"


def test_a_shared_filesystem_exits_with_1(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_place, "filesystem_of", lambda path: Filesystem("nfs4"))

    assert doctor(f"sqlite:///{store}?journal=delete").exit_code == 2  # it has a log
    with_delete = SqliteBackend(store)
    with_delete.open()
    with_delete.close()
    assert doctor(str(store)).exit_code == 1


def test_a_second_mount_is_tried(store: Path) -> None:
    also = store.parent.with_name("also")
    also.symlink_to(store.parent)

    said = json.loads(doctor(str(store), "--also", str(also), "--json").stdout)

    names = [check["name"] for check in said["checks"]]
    assert {"second mount", "absent names", "link on both", "fcntl on both"} <= set(names)
    also.unlink()


def test_a_store_that_does_not_exist_exits_with_2_and_says_what_to_do(tmp_path: Path) -> None:
    done = doctor(f"sqlite:///{tmp_path}/store.db")

    assert done.exit_code == 2
    assert f"leasecron init sqlite:///{tmp_path}/store.db" in " ".join(done.stdout.split())
    assert [*tmp_path.iterdir()] == []


def test_a_second_mount_that_does_not_exist_is_wrong_usage(store: Path) -> None:
    done = doctor(str(store), "--also", "/no/such/mount")

    assert done.exit_code == 2
    assert "/no/such/mount" in done.stderr


@pytest.mark.parametrize("url", ["", "mysql://host/db", "store.txt", "sqlite:///"])
def test_a_wrong_url_exits_with_2_and_no_traceback(url: str) -> None:
    done = doctor(url)

    assert done.exit_code == 2
    assert done.stdout == ""
    assert "right are" in done.stderr


def test_memory_is_told_to_be_private_to_one_process() -> None:
    done = doctor("memory://")

    assert done.exit_code == 1
    assert "would each run every job" in " ".join(done.stdout.split())


def test_a_store_from_elsewhere_is_asked_for_its_own_checks() -> None:
    class Own(MemoryBackend):
        description = "own://"

    report = examine_store(complete(_Elsewhere(Own()), "lease"))

    assert [check.name for check in report.checks] == ["store", "reach"]
    assert report.exit_code == 1


class _Elsewhere:
    """A backend that is none of ours."""

    def __init__(self, inner: MemoryBackend) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def test_the_signals_are_as_before_afterwards(store: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)

    doctor(str(store))

    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)) == before


@pytest.mark.parametrize(
    ("how", "code"),
    [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGHUP)],
)
def test_a_signal_ends_it_with_nothing_left(
    store: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals, code: int
) -> None:
    before = sorted(store.parent.iterdir())
    monkeypatch.setattr(races, "race", lambda *_: signal.raise_signal(how))

    done = doctor(str(store))

    assert done.exit_code == code
    assert sorted(store.parent.iterdir()) == before


def test_an_interruption_ends_it_with_nothing_left(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(store.parent.iterdir())
    monkeypatch.setattr(races, "race", lambda *_: signal.raise_signal(signal.SIGINT))

    done = doctor(str(store))

    assert done.exit_code == 128 + signal.SIGINT
    assert done.stderr == "interrupted\n"
    assert sorted(store.parent.iterdir()) == before
