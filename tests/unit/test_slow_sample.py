"""The slow tests that every change must pass are named by what they are called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_test_of_the_sample_is_there() -> None:
    lines = (ROOT / ".ci" / "slow-sample").read_text().splitlines()
    sample = [line for line in lines if not line.startswith("#")]
    assert sample
    collecting = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "slow", *sample]
    done = subprocess.run(collecting, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(sample)} tests collected" in done.stdout
