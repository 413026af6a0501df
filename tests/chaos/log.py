"""The log of a chaos run: what handlers, instances and the driver saw, as lines of JSON."""

import json
import os
import time
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Log:
    """A line is one ``write`` with O_APPEND, so those of several processes never mix.

    Each has the monotonic time, which no step of a wall clock touches, and who wrote it: ``life``
    is the number of a process, which unlike its pid is not given again.
    """

    def __init__(self, path: Path, life: int = 0) -> None:
        self._life = life
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def note(self, what: str, **facts: object) -> None:
        """Append a line; a time or a life that is given replaces the writer's own."""
        line = {"what": what, "m": time.monotonic(), "life": self._life, **facts}
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_lines(path: Path) -> list[Line]:
    """Return what was written, in order of time."""
    with path.open() as file:
        lines = [json.loads(text) for text in file]
    return sorted(lines, key=lambda line: line["m"])
