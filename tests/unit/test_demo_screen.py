import builtins
import io
import sys
from typing import Any

import pytest
from rich.console import Console

from leasecron.cli import demo_screen
from leasecron.cli.demo import HINT, choose_screen
from leasecron.cli.demo_board import Board
from leasecron.cli.demo_check import JobRow
from leasecron.cli.demo_drawing import DrawnScreen
from leasecron.cli.demo_messages import Message
from leasecron.cli.demo_screen import PlainScreen

ROWS = [JobRow("tick", 9, 9, {"A": 4, "C": 5}, 0), JobRow("export", 1, 1, {"C": 1}, 1)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = builtins.__import__

    def refusing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "rich" or name == "leasecron.cli.demo_drawing":
            raise ModuleNotFoundError(f"No module named {name!r}")
        return genuine(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)


def test_a_terminal_gets_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose_screen(), DrawnScreen)


def test_a_terminal_that_cannot_draw_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(choose_screen(), PlainScreen)


def test_what_is_no_terminal_gets_plain_lines_and_no_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(choose_screen(), PlainScreen)
    assert capsys.readouterr().out == ""


def test_without_rich_there_are_plain_lines_and_one_hint(
    without_rich: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    screen = choose_screen()
    assert isinstance(screen, PlainScreen)
    assert terminal.getvalue() == HINT + "\n"
    assert "pip install 'leasecron[cli]'" in HINT


def test_the_plain_table_has_its_columns_aligned() -> None:
    file = io.StringIO()
    with PlainScreen(file) as screen:
        screen.draw(Board("A"))
        screen.table(ROWS)
    assert file.getvalue().splitlines() == [
        "job     slots  ran once  finished by  lost attempts",
        "tick    9      9         A 4, C 5     0",
        "export  1      1         C 1          1",
    ]


def test_the_picture_shows_each_instance_the_log_and_the_table() -> None:
    file = io.StringIO()
    board = Board("ABC")
    console = Console(file=file, force_terminal=True, width=120, height=50, color_system=None)
    with DrawnScreen(console) as screen:
        board.apply(Message(instance="A", kind="ready"))
        board.apply(
            Message(instance="A", kind="start", job="export", attempt=1, detail="scheduled")
        )
        board.apply(Message(instance="B", kind="skip", job="export", holder="A", detail="taken"))
        board.ended("C", "killed")
        screen.say("12:00:02.013  A  won  export")
        screen.draw(board)
    screen.table(ROWS)
    screen.say("right: each slot ran once")
    shown = file.getvalue()
    for text in ("stands by for", "export @", "killed", "A  won  export", "A 4, C 5", "right: "):
        assert text in shown


def test_the_last_line_is_drawn_though_frames_are_limited() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=120, height=50, color_system=None)
    with DrawnScreen(console) as screen:
        screen.say("first")
        screen.draw(Board("A"))
        screen.say("last of all")
        screen.draw(Board("A"))
    assert "last of all" in file.getvalue()


def test_a_screen_offers_the_same_columns_drawn_and_plain() -> None:
    assert all(len(demo_screen.row_cells(row)) == len(demo_screen.HEADINGS) for row in ROWS)
