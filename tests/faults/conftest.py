"""Where the stores of an attack are."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = "/dev/shm"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory, where there is such a thing: a slow disk is another test's."""
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        yield Path(folder)
