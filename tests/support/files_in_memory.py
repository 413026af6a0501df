"""Where the files of fast tests lie; a conftest.py imports the hook."""

import os
from pathlib import Path

import pytest

_ROOT = "PYTEST_DEBUG_TEMPROOT"
_MEMORY = Path("/dev/shm")


def pytest_configure(config: pytest.Config) -> None:
    """Put the files of fast tests in memory, where it takes no time to sync them.

    Slow tests are left on a disk, which is what they are about.
    """
    if config.option.markexpr.startswith("not slow") and os.access(_MEMORY, os.W_OK):
        os.environ.setdefault(_ROOT, str(_MEMORY))
