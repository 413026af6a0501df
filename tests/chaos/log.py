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
        known = {name: fact for name, fact in line.items() if fact is not None}
        # A process that is killed may leave the beginning of a line: the next one is not of it.
        os.write(self._file, ("\n" + json.dumps(known)).encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def path_of_part(path: Path, number: int) -> Path:
    """Return where the lines of one part of the swift jobs are; ``path`` has all others."""
    return path.with_name(f"{path.name}-{number}")


def read_lines(path: Path) -> list[Line]:
    """Return what was written, in order of time, without what a killed process left unfinished."""
    whole = (text for text in path.read_text().split("\n") if text.endswith("}"))
    # As one text: its keys are then made once, and not once for each line.
    lines: list[Line] = json.loads(f"[{','.join(whole)}]")
    return sorted(lines, key=lambda line: line["m"])
