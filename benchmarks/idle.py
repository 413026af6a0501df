"""The memory of a process that does nothing: an interpreter, or one with an idle scheduler.

``python -m benchmarks.idle [FILE SECONDS]`` prints bytes. It imports as little as it can, since all
of that counts.
"""

from __future__ import annotations

import os
import sys
import time


def resident() -> int:
    """Return how many bytes this process has in RAM; where that cannot be told, its most so far."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # macOS, which counts bytes
        import resource  # noqa: PLC0415 - not there on every system

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Print the memory, with a file some seconds after a scheduler was started on it."""
    if len(sys.argv) > 1:
        from leasecron import Scheduler  # noqa: PLC0415 - what it takes is to be told apart

        scheduler = Scheduler(sys.argv[1])
        scheduler.every("job", "1h", _nothing)
        scheduler.start()
        time.sleep(float(sys.argv[2]))
    print(resident())


def _nothing() -> None:
    """An empty handler."""


if __name__ == "__main__":
    main()
