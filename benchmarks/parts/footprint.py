"""Footprint: what an import costs, and the memory of a scheduler that has nothing to do.

An import is measured in fresh interpreters, beside empty ones that are started in turn: what it
adds, by the wall clock and in processor time. Memory is what a process has in RAM.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.measuring import Figure, Measured, Settings, rounds

PAIRS = 10
IDLE = 2.0  # seconds after start()
_MB = 1_000_000
_ROOT = Path(__file__).parents[2]


def measure(settings: Settings) -> Measured:
    """Measure the import, and the memory of an idle scheduler."""
    found = rounds(settings, partial(_round, settings))
    wall, processor, empty, idle, maker = zip(*found, strict=True)
    what = "import of leasecron, beyond an empty interpreter:"
    return Measured(
        (
            Figure(f"{what} wall", "ms", wall, at_most=100),
            Figure(f"{what} processor", "ms", processor),
            Figure("memory of an empty interpreter", "MB", empty),
            Figure("memory of an idle scheduler, one job, SQLite", "MB", idle, at_most=30),
            Figure("the same where it has made the store", "MB", maker, at_most=30),
        )
    )


def _round(settings: Settings) -> tuple[float, ...]:
    pairs = settings.count(PAIRS)
    spent = {"pass": (0.0, 0.0), "import leasecron": (0.0, 0.0)}
    for _ in range(pairs):
        for code, before in spent.items():
            wall, processor = _interpreter(code)
            spent[code] = (before[0] + wall, before[1] + processor)
    (wall, processor), (with_wall, with_processor) = spent.values()
    added = (1000 * (with_wall - wall) / pairs, 1000 * (with_processor - processor) / pairs)
    with settings.store("footprint") as folder:
        seconds = IDLE / 10 if settings.quick else IDLE
        scheduler = (str(folder / "idle.db"), str(seconds))
        maker, idle = _memory(*scheduler), _memory(*scheduler)
    return (*added, _memory(), idle, maker)


def _interpreter(code: str) -> tuple[float, float]:
    """Run code in a fresh interpreter; return the seconds of wall and of processor that it took."""
    before = _processor_of_children()
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=_ROOT, check=True)
    return time.perf_counter() - began, _processor_of_children() - before


def _processor_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _memory(*arguments: str) -> float:
    command = [sys.executable, "-m", "benchmarks.idle", *arguments]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout) / _MB
