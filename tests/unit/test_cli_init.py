"""``leasecron init``: what is made, and what is refused with exit code 2 and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leasecron.backends.filesystems import Filesystem
from leasecron.backends.sqlite import place as sqlite_place
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.cli import main


def init(store: str) -> Result:
    return CliRunner().invoke(main, ["init", store])


def refused(store: str) -> str:
    """Return the error of a command that made nothing."""
    done = init(store)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    return done.stderr


@pytest.mark.parametrize("form", ["sqlite:///{}", "{}"])
def test_a_sqlite_store_is_made_and_found_again(tmp_path: Path, form: str) -> None:
    path = tmp_path / "store.db"

    assert init(form.format(path)).output == f"made the store sqlite:///{path}\n"
    made = path.read_bytes()
    again = init(form.format(path))

    assert again.exit_code == 0
    assert again.output == f"the store sqlite:///{path} was there already, and is ready\n"
    assert path.read_bytes() == made
    backend = SqliteBackend(path)
    backend.open()
    backend.close()


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()

    assert init(str(path)).output == f"made the store sqlite:///{path}\n"


def test_a_relative_path_is_said_absolutely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert init("sqlite:///store.db").output == f"made the store sqlite:///{tmp_path}/store.db\n"


def test_what_the_user_should_know_goes_to_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_place, "filesystem_of", lambda path: Filesystem("nfs4"))

    done = init(str(tmp_path / "store.db"))

    assert done.exit_code == 0
    assert done.stdout.startswith("made the store")
    assert done.stderr.startswith("warning: ")
    assert "nfs4" in done.stderr


def test_a_store_in_memory_cannot_be_made() -> None:
    assert "memory://" in refused("memory://")


@pytest.mark.parametrize("store", ["", "sqlite://", "mysql://host/db", "store", "sqlite:///"])
def test_a_wrong_url_is_refused_with_the_right_forms(store: str) -> None:
    assert "right are" in refused(store)


def test_a_folder_is_never_made(tmp_path: Path) -> None:
    assert "make it first" in refused(str(tmp_path / "missing" / "store.db"))
    assert [*tmp_path.iterdir()] == []


def test_a_file_of_another_kind_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("precious " * 1000)

    assert "not a database" in refused(str(path))
    assert path.read_text() == "precious " * 1000
