"""What the figures depend on: the machine, its filesystem, and the versions of all that took part.

Ratios can be compared between machines; the figures themselves are one disk's and one processor's.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.peers import DISTRIBUTIONS
from leasecron import __version__
from leasecron.backends.filesystems import filesystem_of

NOT_INSTALLED = "not installed"
_FSYNCS = 50


def installed(distribution: str) -> str | None:
    """Return the version of a distribution, or None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def describe(folder: Path, command: str) -> dict[str, str]:
    """Return the head of the report; ``folder`` is where the stores are made."""
    facts = {
        "processor": f"{os.cpu_count()} x {_processor()}",
        "kernel": f"{platform.system()} {platform.release()}",
        "stores in": f"{folder} on {filesystem_of(str(folder)).type}",
        "fsync": f"{1000 * _fsync(folder):.2g} ms there, the median of {_FSYNCS}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": sqlite3.sqlite_version,
        "leasecron": __version__,
    }
    facts |= {name: installed(name) or NOT_INSTALLED for name in DISTRIBUTIONS}
    return facts | {"command": command}


def command_line() -> str:
    """Return the command as it can be given again."""
    return " ".join(["python", "-m", "benchmarks", *sys.argv[1:]])


def _fsync(folder: Path) -> float:
    """Return how many seconds the disk takes to have a page for certain."""
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_FSYNCS):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = [line.partition(":") for line in file]
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [value.strip() for name, _, value in lines if name.strip() == "model name"]
    return names[0] if names else platform.machine()
