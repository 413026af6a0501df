"""The report of an examination: its verdict, its exit code, its table and its JSON."""

from __future__ import annotations

import json

import pytest

from leasecron.backends.checks import Check, Verdict
from leasecron.doctor.report import Report

GOOD = Check("journal", "good", "wal", "nobody waits")
WARNING = Check("filesystem", "warning", "nfs4", "hosts may share it")
BAD = Check("fcntl", "bad", "both had it", "two would write at once")


@pytest.mark.parametrize(
    ("checks", "verdict", "code"),
    [
        ([GOOD], "good", 0),
        ([GOOD, WARNING, GOOD], "warning", 1),
        ([BAD, GOOD, WARNING], "bad", 2),
    ],
)
def test_the_worst_check_decides(checks: list[Check], verdict: Verdict, code: int) -> None:
    report = Report("sqlite:////a.db", checks)

    assert (report.verdict, report.exit_code) == (verdict, code)
    assert report.as_table(80).splitlines()[-1].startswith(f"{verdict}: ")


def test_the_json_is_one_object_with_store_verdict_and_checks() -> None:
    said = json.loads(Report("sqlite:////a.db", [GOOD, WARNING]).as_json())

    assert said["store"] == "sqlite:////a.db"
    assert said["verdict"] == "warning"
    assert said["checks"][0] == {
        "name": "journal",
        "verdict": "good",
        "found": "wal",
        "reason": "nobody waits",
    }
    assert len(said["checks"]) == 2


def test_the_table_has_a_line_for_each_check_in_columns() -> None:
    lines = Report("sqlite:////a.db", [GOOD, WARNING]).as_table(80).splitlines()

    assert lines[0] == "store sqlite:////a.db"
    assert lines[2] == "good     journal     wal: nobody waits"
    assert lines[3] == "warning  filesystem  nfs4: hosts may share it"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_table_keeps_to_the_width_of_the_terminal(width: int) -> None:
    long = Check("filesystem", "warning", "nfs4 (" + "option, " * 30 + ")", "word " * 50 + "end")

    lines = Report("sqlite:////a.db", [long]).as_table(width).splitlines()

    assert max(map(len, lines[2:-2])) <= width
    assert "".join("".join(lines[2:-2]).split()).endswith("wordend")


def test_a_terminal_of_no_width_gets_a_table_all_the_same() -> None:
    assert "nobody waits" in " ".join(Report("x", [GOOD]).as_table(0).split())


def test_no_name_of_a_job_reaches_the_terminal_as_a_command() -> None:
    odd = Check("lease", "good", "a\x1b[2Jb\nc\udc80", "held")

    table = Report("x\x07", [odd]).as_table(80)

    assert r"a\x1b[2Jb\nc\udc80" in table
    assert r"x\x07" in table
    assert all(character.isprintable() or character == "\n" for character in table)
    assert json.loads(Report("x", [odd]).as_json())["checks"][0]["found"] == odd.found
