"""The demo drawn in a terminal. Importing this module needs rich."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from leasecron.cli.demo_board import Board, Row, run_text
from leasecron.cli.demo_check import JobRow
from leasecron.cli.demo_messages import Run
from leasecron.cli.demo_screen import HEADINGS, printed, row_cells

_MOST_LINES = 14
_ABOVE_LINES = 11  # rows of the terminal that the instances and the frames take
_FRAME = 0.1
_STATE_STYLES = {"up": "green", "killed": "bold red", "stopped": "dim"}
_LINE_STYLES = {"  KILLED  ": "bold red", "  takes over  ": "bold green", "  error  ": "red"}


class DrawnScreen:
    """A row for each instance, and the latest lines below."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False)
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._board: Board | None = None
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._refresh()
        self._live.stop()

    def say(self, line: str) -> None:
        """Add a line to the log; below the closed picture, print it."""
        line = printed(line)
        if self._live.is_started:
            self._lines.append(line)
        else:
            self._console.print(Text(line))

    def draw(self, board: Board) -> None:
        """Draw the instances and the log, at most ten times in a second."""
        self._board = board
        if time.monotonic() - self._drawn_at >= _FRAME:
            self._refresh()

    def _refresh(self) -> None:
        self._drawn_at = time.monotonic()
        if self._board is not None:
            self._live.update(Group(_instances(self._board), self._log()), refresh=True)

    def _log(self) -> Panel:
        room = max(3, min(_MOST_LINES, self._console.height - _ABOVE_LINES))
        lines = [_line(line) for line in self._lines][-room:]
        return Panel(Group(*lines), height=room + 2)

    def table(self, rows: Sequence[JobRow]) -> None:
        """Print the closing table below the picture."""
        table = Table(*HEADINGS)
        for row in rows:
            table.add_row(*row_cells(row))
        self._console.print(table)


def _line(line: str) -> Text:
    style = next((style for verb, style in _LINE_STYLES.items() if verb in line), "")
    return Text(line, style=style, no_wrap=True, overflow="ellipsis")


def _instances(board: Board) -> Table:
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column("instance")
    table.add_column("state", min_width=7)
    table.add_column("runs", min_width=17, no_wrap=True)
    table.add_column("stands by for", min_width=17, no_wrap=True)
    for heading in ("won", "heartbeats", "skips"):
        table.add_column(heading, min_width=len(heading), justify="right")
    for row in board.rows.values():
        table.add_row(*_instance_cells(row))
    return table


def _instance_cells(row: Row) -> tuple[Text | str, ...]:
    return (
        row.name,
        Text(row.state, style=_STATE_STYLES.get(row.state, "")),
        Text(_runs_text(row.running), style="bold"),
        _runs_text(row.standing_by),
        str(row.won),
        str(row.heartbeats),
        str(row.skips),
    )


def _runs_text(runs: Iterable[Run]) -> str:
    return "\n".join(run_text(run) for run in sorted(runs))
