"""Fairness between writers: bounded, and never in the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from leasecron.backends.turnstile import Turnstile


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db-turnstile")


def test_one_is_let_in_at_a_time(path: str) -> None:
    first, second = Turnstile(path, mode=0o600), Turnstile(path, mode=0o600)

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
    turnstile = Turnstile(str(tmp_path / "missing" / "turnstile"), mode=0o600)

    assert not turnstile.enter(0.0)
    turnstile.close()


def test_a_closed_turnstile_raises_nothing(path: str) -> None:
    turnstile = Turnstile(path, mode=0o600)
    turnstile.close()
    turnstile.close()

    assert not turnstile.enter(0.0)


def test_the_file_is_no_more_open_to_others_than_the_database(path: str) -> None:
    Turnstile(path, mode=0o640).close()

    assert stat.S_IMODE(os.stat(path).st_mode) & ~0o640 == 0
