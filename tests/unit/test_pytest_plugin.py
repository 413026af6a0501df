"""The fixture that makes simulated clusters for the tests of applications."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leasecron.testing import Cluster


def test_the_fixture_makes_clusters(leasecron_cluster: Callable[..., Cluster]) -> None:
    one = leasecron_cluster(2, "memory://", 7)
    assert (len(one.schedulers), one.clock.seed) == (2, 7)
    assert leasecron_cluster(seed=8).clock.seed == 8
    assert leasecron_cluster().clock.seed == 0


FAILING = """
def test_it(leasecron_cluster):
    cluster = leasecron_cluster(2)
    cluster.every("sync", "1m", lambda: None)
    cluster.start()
    cluster.advance(120)
    assert not cluster.attempts
"""


def test_a_failed_test_names_the_seed_that_replays_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "--leasecron-seed=41", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "replay with --leasecron-seed=41: Cluster(2, 'memory://', seed=41)" in done.stdout
    assert "Thread" not in done.stderr
