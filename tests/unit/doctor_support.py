"""What the tests of the doctor on SQLite stores share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from contract.driver import a_claim

from leasecron.backends.checks import Check
from leasecron.backends.filesystems import Filesystem
from leasecron.backends.sqlite import place as sqlite_place
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.clock import SystemClock
from leasecron.doctor import look_at_sqlite as looking
from leasecron.doctor.look_at_sqlite import look_at_sqlite
from leasecron.doctor.looks import Look
from leasecron.model import Claim, from_seconds

OnFilesystem = Callable[..., None]
DAY = 86400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteBackend]:
    """A store that is open, and on the clock of this machine."""
    backend = SqliteBackend(path, durability="normal")
    backend.open()
    yield backend
    backend.close()


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> OnFilesystem:
    """Return a function that puts every store on a filesystem of this type."""

    def put(kind: str, *options: str) -> None:
        found = Filesystem(kind, frozenset(options))
        monkeypatch.setattr(sqlite_place, "filesystem_of", lambda path: found)
        monkeypatch.setattr(looking, "filesystem_of", lambda path: found)

    return put


def make(path: Path) -> None:
    """Make a store, and leave it closed."""
    backend = SqliteBackend(path)
    backend.open()
    backend.close()


def claim(ago: float, token: str, job: str = "job", lease: float = 1000.0) -> Claim:
    """Return the claim of a slot that was due so many seconds ago."""
    slot = from_seconds(round(SystemClock().wall() - ago))
    made = a_claim(0, token, job=job, lease=lease, max_late=DAY, overlap="allow")
    return replace(made, slot=slot)


def by_name(look: Look | list[Check]) -> Mapping[str, Check]:
    checks = [*look.checks, *look.contents] if isinstance(look, Look) else look
    return {check.name: check for check in checks}


def verdicts(look: Look | list[Check]) -> dict[str, str]:
    return {name: check.verdict for name, check in by_name(look).items()}


def looked(path: Path) -> Look:
    return look_at_sqlite(SqliteBackend(path))


def the_only_bad(path: Path) -> Check:
    """Return the one bad check of a store that is not to be tried further."""
    look = looked(path)
    assert look.folder is None
    (check,) = [check for check in look.checks if check.verdict == "bad"]
    return check
