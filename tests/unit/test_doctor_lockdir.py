"""What the doctor sees of a lock directory, without changing it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leasecron.backends.checks import Check
from leasecron.backends.filesystems import Filesystem
from leasecron.backends.lockdir import checks as lockdir_checks
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.cli import main
from leasecron.doctor import latency, races
from leasecron.doctor.look_at_lockdir import look_at_lockdir


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "locks"
    assert run("init", path).output.startswith(f"made the store lockdir:///{path}\nits id is ")
    return path


def run(command: str, path: Path, *more: str) -> Result:
    return CliRunner().invoke(main, [command, f"lockdir:///{path}", *more])


def contents(path: Path) -> list[tuple[Path, bytes]]:
    """Return all that is in a directory."""
    return [(p, p.read_bytes() if p.is_file() else b"") for p in sorted(path.rglob("*"))]


def the_only_check(path: Path) -> Check:
    look = look_at_lockdir(LockDirBackend(path))
    assert look.folder is None
    (check,) = look.checks
    assert check.verdict == "bad"
    return check


def verdicts(checks: Sequence[Check]) -> dict[str, str]:
    return {check.name: check.verdict for check in checks}


def test_a_directory_in_order_is_good_and_left_as_it_was(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "measure", lambda path: [0.001])
    monkeypatch.setattr(races, "race", lambda *_: races.judge(4, {0, 2}, {1, 3}))
    before = contents(store)

    done = run("doctor", store, "--json")

    assert done.exit_code == 0
    assert json.loads(done.stdout)["store"] == f"lockdir:///{store}"
    assert contents(store) == before


def test_a_directory_is_made_once(store: Path) -> None:
    before = contents(store)

    done = run("init", store)

    assert done.exit_code == 0
    said = done.output.splitlines()
    assert said[0] == f"the store lockdir:///{store} was there already, and is ready"
    assert said[1].startswith(
        f"its id is {json.loads((store / 'leasecron.json').read_text())['id']}"
    )
    assert contents(store) == before


@pytest.mark.parametrize(("kind", "said"), [("ext4", True), ("nfs4", False)])
def test_who_makes_it_on_a_local_filesystem_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, said: bool
) -> None:
    module = importlib.import_module("leasecron.cli.init")
    monkeypatch.setattr(module, "filesystem_of", lambda path: Filesystem(kind))
    assert ("local to this host" in run("init", tmp_path / "locks").output) is said


def test_a_directory_is_not_made_without_the_one_above(tmp_path: Path) -> None:
    done = run("init", tmp_path / "missing" / "locks")

    assert done.exit_code == 2
    assert "missing" in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_directory_with_files_of_others_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")

    assert run("init", tmp_path).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_missing_directory_is_not_made(tmp_path: Path) -> None:
    check = the_only_check(tmp_path / "locks")

    assert check.name == "directory"
    assert f"leasecron init lockdir:///{tmp_path}/locks" in check.reason
    assert [*tmp_path.iterdir()] == []


def test_a_directory_without_a_marker_is_no_store(tmp_path: Path) -> None:
    assert f"leasecron init lockdir:///{tmp_path}" in the_only_check(tmp_path).reason
    assert run("doctor", tmp_path).exit_code == 2
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("marker", ["", "garbage", '{"format": 99, "id": "a", "created": 1}'])
def test_a_marker_that_is_not_understood_is_told(store: Path, marker: str) -> None:
    (store / "leasecron.json").write_text(marker)

    assert the_only_check(store).name == "format"
    assert run("doctor", store).exit_code == 2


def test_a_mount_without_locks_is_warned_of(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Filesystem("nfs", frozenset({"rw", "nolock"}))
    monkeypatch.setattr(lockdir_checks, "filesystem_of", lambda path: found)

    look = look_at_lockdir(LockDirBackend(store))

    assert look.folder == str(store)
    assert verdicts(look.checks)["filesystem"] == "warning"


def test_it_is_said_that_there_are_no_leases(store: Path) -> None:
    (check,) = look_at_lockdir(LockDirBackend(store)).contents

    assert (check.name, check.found) == ("leases", "none")
    assert "not run again" in check.reason
