"""Fairness between writers: bounded, and never in the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from leasecron.backends.sqlite.turnstile import Turnstile


def turnstile(path: str, *, mode: int = 0o600) -> Turnstile:
    return Turnstile(path, mode=mode, owner=(os.getuid(), os.getgid()))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db-turnstile")


def test_one_is_let_in_at_a_time(path: str) -> None:
    first, second = turnstile(path), turnstile(path)

    assert first.enter(0.0)
    assert not second.enter(0.01)
    first.leave()
    assert second.enter(0.0)
    second.close()
    assert first.enter(0.0)
    first.close()


def test_a_turnstile_that_cannot_be_opened_lets_nobody_in_and_raises_nothing(
    tmp_path: Path,
) -> None:
    unopened = turnstile(str(tmp_path / "missing" / "turnstile"))

    assert not unopened.enter(0.0)
    unopened.close()


def test_a_closed_turnstile_raises_nothing(path: str) -> None:
    closed = turnstile(path)
    assert closed.enter(0.0)
    closed.close()
    closed.close()

    assert closed.enter(0.0)  # which opens it again
    closed.close()


@pytest.mark.parametrize("umask", [0, 0o077])
def test_the_file_is_as_open_to_others_as_the_database(path: str, umask: int) -> None:
    made = turnstile(path, mode=0o640)
    before = os.umask(umask)
    try:
        assert made.enter(0.0)
    finally:
        os.umask(before)
    made.close()

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640


def test_who_only_reads_makes_no_file(path: str) -> None:
    reader = turnstile(path)
    assert not reader.enter(0.0, make=False)
    reader.close()

    assert not os.path.exists(path)


def test_a_link_that_somebody_put_there_is_not_followed(path: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    os.symlink(elsewhere, path)

    assert not turnstile(path).enter(0.0)
    assert not elsewhere.exists()
