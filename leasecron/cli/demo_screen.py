"""Where the demo is shown, and the plain way of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self, TextIO

from leasecron.cli.demo_board import Board
from leasecron.cli.demo_check import JobRow
from leasecron.errors import printable

HEADINGS = ("job", "slots", "ran once", "finished by", "lost attempts")


class Screen(Protocol):
    """Where the demo is shown."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def say(self, line: str) -> None:
        """Add a line to the log."""

    def draw(self, board: Board) -> None:
        """Bring the picture of the instances up to date."""

    def table(self, rows: Sequence[JobRow]) -> None:
        """Show the closing table."""


class PlainScreen:
    """Writes each line as it comes, for files, pipes and terminals without rich."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave what is written as it is."""

    def say(self, line: str) -> None:
        """Write a line."""
        print(printed(line), file=self._file, flush=True)

    def draw(self, board: Board) -> None:
        """Show nothing: the lines have told it."""

    def table(self, rows: Sequence[JobRow]) -> None:
        """Write the closing table in columns."""
        cells = [HEADINGS, *(row_cells(row) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self.say("  ".join(padded).rstrip())


def printed(text: str) -> str:
    """Return lines as they are shown; what an instance wrote before it ended may hold anything."""
    return "\n".join(map(printable, text.split("\n")))


def row_cells(row: JobRow) -> tuple[str, ...]:
    """Return a row of the closing table as text."""
    finished_by = ", ".join(f"{name} {count}" for name, count in row.by.items())
    return row.job, str(row.slots), str(row.once), finished_by, str(row.lost_attempts)
