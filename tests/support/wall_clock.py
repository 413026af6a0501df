"""Processes whose wall clock is not the machine's; libfaketime stands before the kernel's.

Their monotonic clock and the dates of the files that they write stay what they are.
"""

import importlib.util
import os
import time
from collections.abc import Mapping
from pathlib import Path

from support.requirements import require


def off_by(seconds: int) -> Mapping[str, str]:
    """Return what a process is started with whose wall clock is ahead by so much, or behind."""
    return {**_library(), "FAKETIME": f"{seconds:+d}s"}


class WallClock:
    """The wall clock of one or more processes, to be stepped while they run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.step(0)

    def step(self, seconds: int) -> float:
        """Set it apart from the true time; return the monotonic time just before."""
        before = time.monotonic()
        new = self._path.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._path)
        return before

    def environment(self) -> Mapping[str, str]:
        """Return what a process with this clock is started with."""
        return {
            **_library(),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
        }


def _library() -> Mapping[str, str]:
    found = importlib.util.find_spec("libfaketime")
    require(found is not None and found.origin, "the package libfaketime is not installed")
    assert found is not None
    assert found.origin is not None
    libraries = sorted(Path(found.origin).parent.glob("vendor/**/libfaketime.so.1"))
    require(libraries, "libfaketime has no library for this system")
    return {
        "LD_PRELOAD": os.fspath(libraries[0]),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Its mend for an old C library ends waits for the interpreter's lock at once: threads then
        # take it from each other for seconds on end, and leases run out meanwhile.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }
