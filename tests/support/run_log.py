"""The file to which handlers append a line for each run, from whatever process they are in."""

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from leasecron import RunContext
from leasecron.model import to_ms


@dataclass(frozen=True, slots=True)
class Line:
    """One call of a handler. ``slot`` is Unix milliseconds; the clocks were read in the handler."""

    job: str
    slot: int
    attempt: int
    pid: int
    wall: float
    monotonic: float


class RunLog:
    """Lines are written by one ``write`` with O_APPEND, so those of several processes never mix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def append(self, ctx: RunContext) -> None:
        """Note that the handler was called; for handlers."""
        facts = (ctx.job, to_ms(ctx.slot), ctx.attempt, os.getpid(), time.time(), time.monotonic())
        os.write(self._file, (" ".join(map(str, facts)) + "\n").encode())

    def lines(self, job: str | None = None) -> list[Line]:
        """Return what was written so far, of one job or of all."""
        found = []
        # A line that is being written may be seen in part; it is the last one.
        whole = self.path.read_text().rpartition("\n")[0]
        for text in whole.splitlines():
            name, slot, attempt, pid, wall, monotonic = text.split()
            line = Line(name, int(slot), int(attempt), int(pid), float(wall), float(monotonic))
            if job in (None, name):
                found.append(line)
        return found

    def slots(self, job: str) -> list[int]:
        """Return the slots of a job that have a line, ascending, each as often as it has one."""
        return sorted(line.slot for line in self.lines(job))

    def doubles(self) -> list[tuple[str, int]]:
        """Return the runs that have more than one line."""
        counted = Counter((line.job, line.slot) for line in self.lines())
        return [run for run, count in counted.items() if count > 1]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def slots_between(first: int, last: int, step: int) -> list[int]:
    """Return the slots from ``first`` to ``last``, both included, in milliseconds."""
    return list(range(first, last + 1, step))
