"""A lock directory does what its model does, wherever chance leads.

A failure is shrunk, and shown as the steps that lead there. Its test has the seed in its name, and
walks the same way each time: ``python -m pytest -m "" "tests/model/test_lockdir_walk.py::NAME"``.
"""

from __future__ import annotations

import pytest

from model.lockdir_walk import LockDirWalk
from model.walking import walk


def test_short_walks() -> None:
    walk(LockDirWalk, 0, examples=20, most_steps=25)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, 5))
def test_long_walks(seed: int) -> None:
    walk(LockDirWalk, seed, examples=200, most_steps=60)
