"""The commands print nothing that a terminal obeys."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from nasty_texts import NASTY, is_harmless
from rich.console import Console

from leasecron.backends.checks import Check
from leasecron.cli import main
from leasecron.cli.demo_board import Board
from leasecron.cli.demo_drawing import DrawnScreen
from leasecron.cli.demo_messages import Message
from leasecron.cli.demo_screen import PlainScreen
from leasecron.doctor.report import Report


def invoked(*arguments: str) -> str:
    done = CliRunner().invoke(main, [*arguments])
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 2
    assert is_harmless(done.output)
    return done.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor", NASTY],
        ["doctor", "memory://", "--also", NASTY],
        ["doctor", "memory://", NASTY],
        ["doctor", f"--{NASTY}"],
        ["init", NASTY],
        ["init", f"sqlite:////tmp/{NASTY}/x.db"],
        ["init", f"lockdir:////tmp/{NASTY}/x"],
        ["init", f"-{NASTY}"],
        ["demo", "--seconds", NASTY],
        ["demo", f"--{NASTY}"],
        [NASTY],
        [f"--{NASTY}"],
    ],
)
def test_a_command_prints_no_argument_raw(arguments: list[str]) -> None:
    assert "Error: " in invoked(*arguments)


@pytest.mark.parametrize("store", [f"sqlite:////tmp/{NASTY}/x.db", f"lockdir:////tmp/{NASTY}"])
def test_a_store_that_is_not_there_is_named_in_printable_text(store: str) -> None:
    assert "bad: do not trust this store" in invoked("doctor", store)


@pytest.mark.parametrize("form", ["{}/{}.db", "lockdir:///{}/{}"])
def test_a_store_that_is_made_is_named_in_printable_text(tmp_path: Path, form: str) -> None:
    nasty = NASTY.replace("/", "")[:80]
    for _ in range(2):
        done = CliRunner().invoke(main, ["init", form.format(tmp_path, nasty)])
        assert done.exit_code == 0
        assert is_harmless(done.output)
        assert len(done.output.splitlines()) <= 3


def test_a_report_of_the_doctor_is_printable() -> None:
    report = Report(NASTY, [Check("lease", "good", f"job {NASTY}", NASTY)])
    assert is_harmless(report.as_table(80))
    assert report.as_json().isascii()
    assert is_harmless(report.as_json())


@pytest.mark.parametrize("kind", ["ready", "start", "success", "failure", "skip", "error"])
def test_a_line_of_the_demo_is_one_line(kind: Any) -> None:
    board = Board(["A"])
    message = Message(instance="A", kind=kind, job=NASTY, holder=NASTY, detail=NASTY)
    line = board.apply(message)
    assert line is not None
    assert line.isprintable()


def test_both_screens_of_the_demo_show_lines_in_printable_text() -> None:
    plain, drawn = io.StringIO(), io.StringIO()
    PlainScreen(plain).say(NASTY)
    DrawnScreen(Console(file=drawn, width=500)).say(NASTY)
    for written in (plain, drawn):
        assert is_harmless(written.getvalue())
        assert "\\x1b[2J" in written.getvalue()
