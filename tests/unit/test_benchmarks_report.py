"""The report of the benchmarks: its table, its JSON, and how numbers look in it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from benchmarks import machine, report
from benchmarks.measuring import Curve, Figure, Measured
from benchmarks.report import Part, Report, number, rows, target, with_unit

FAST = Figure("claims, 1,000 a call", "/s", (61_000.4, 59_000.0, 70_000.0), at_least=60_000)
SLOW = Figure("of plain sqlite3", "%", (33.61, 30.0, 40.0), at_least=50)
PLAIN = Figure("an [empty] interpreter", "MB", (9.9,))
CURVE = Curve(
    "claims-by-batch", "Claims", "batch", "claims a second", "raw", ((1, 7.0), (10, 50.0))
)
CLAIMS = Part("claims", "Claims a second.", Measured((FAST, SLOW), (CURVE,), ("a note",)), 12.34)
FOOTPRINT = Part("footprint", "Memory.", Measured((PLAIN,)), 1.0)
REPORT = Report({"processor": "2 x none", "Python": "3.11"}, 3, parts=[CLAIMS, FOOTPRINT])


@pytest.fixture(params=["rich", "plain"])
def drawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The report as text, in both ways in which the table is drawn."""
    if request.param == "plain":
        monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    else:
        pytest.importorskip("rich")
    return REPORT.as_text(120)


def test_the_rows_show_median_spread_target_and_whether_it_is_met() -> None:
    assert rows(REPORT.parts) == [
        ("claims", FAST.what, "61,000/s (59,000 to 70,000)", ">= 60,000/s", "yes"),
        ("claims", SLOW.what, "33.6% (30 to 40)", ">= 50%", "no"),
        ("footprint", PLAIN.what, "9.9 MB", "", ""),
    ]


def test_the_text_has_the_machine_all_rows_and_the_notes(drawn: str) -> None:
    assert drawn.startswith("processor  2 x none\nPython     3.11\n")
    for row in rows(REPORT.parts):
        assert all(cell in drawn for cell in row[1:])
    assert drawn.endswith("claims: a note")
    assert report.QUICK not in drawn


def test_a_quick_report_says_so() -> None:
    text = Report({"Python": "3.11"}, 1, quick=True, parts=[CLAIMS]).as_text(120)
    assert report.QUICK in text
    assert not any(sign in text for sign in (">=", "<=", "yes"))  # it is not judged by targets


def test_the_table_keeps_to_its_width() -> None:
    pytest.importorskip("rich")
    long = Measured((Figure("word " * 60, "/s", (1.0,)),))

    text = Report({"Python": "3.11"}, 1, parts=[Part("claims", "", long, 0.0)]).as_text(80)

    assert max(map(len, text.splitlines())) <= 80


def test_the_json_has_every_value_of_every_round() -> None:
    said = json.loads(REPORT.as_json())

    assert said["machine"] == {"processor": "2 x none", "Python": "3.11"}
    assert (said["rounds"], said["quick"]) == (3, False)
    claims, footprint = said["parts"]
    assert (claims["name"], claims["title"], claims["took"]) == ("claims", "Claims a second.", 12.3)
    assert claims["figures"][0] == {
        "what": FAST.what,
        "unit": "/s",
        "values": [61_000.4, 59_000.0, 70_000.0],
        "median": 61_000.4,
        "low": 59_000.0,
        "high": 70_000.0,
        "at_least": 60_000,
        "at_most": None,
        "met": True,
    }
    assert claims["curves"][0]["points"] == [[1, 7.0], [10, 50.0]]
    assert claims["notes"] == ["a note"]
    assert footprint["figures"][0]["met"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1234, "0.123"), (1.0, "1"), (9.96, "9.96"), (33.61, "33.6"), (1234.5, "1,234"), (0.0, "0")],
)
def test_a_number_has_three_digits_and_a_large_one_all_before_the_point(
    value: float, text: str
) -> None:
    assert number(value) == text


def test_a_unit_stands_apart_unless_it_is_a_sign() -> None:
    assert [with_unit(2.0, unit) for unit in ("/s", "x", "%", "ms")] == ["2/s", "2x", "2%", "2 ms"]


def test_a_target_may_have_two_bounds() -> None:
    assert target(Figure("ratio", "%", (1.0,), 85, 115)) == ">= 85% and <= 115%"


def test_the_head_names_what_the_figures_depend_on(tmp_path: Path) -> None:
    said = machine.describe(tmp_path, "python -m benchmarks")

    assert {"processor", "kernel", "stores in", "Python", "SQLite", "leasecron"} <= said.keys()
    assert str(tmp_path) in said["stores in"]
    assert said["command"] == "python -m benchmarks"


def test_a_distribution_that_is_missing_has_no_version() -> None:
    assert machine.installed("leasecron-no-such-thing") is None
    assert machine.installed("leasecron") is not None
