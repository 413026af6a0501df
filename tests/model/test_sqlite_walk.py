"""SQLite does what the model does, wherever chance leads.

A failure is shrunk, and shown as the steps that lead there. Its test has the seed in its name, and
walks the same way each time: ``python -m pytest -m "" "tests/model/test_sqlite_walk.py::NAME"``.
"""

from __future__ import annotations

import pytest

from model.sqlite_walk import SqliteWalk
from model.walking import walk


def test_short_walks() -> None:
    walk(SqliteWalk, 0, examples=30, most_steps=25)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, 5))
def test_long_walks(seed: int) -> None:
    walk(SqliteWalk, seed, examples=300, most_steps=60)
