"""The plots of the benchmarks, where matplotlib is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measuring import Curve
from benchmarks.plots import draw

pytest.importorskip("matplotlib")


def curve(plot: str, line: str, *x: float) -> Curve:
    return Curve(plot, "A title", "x in words", "y in words", line, tuple((at, 1.0) for at in x))


def test_the_lines_of_one_plot_are_drawn_together_as_svg_and_png(tmp_path: Path) -> None:
    curves = [
        curve("batch", "raw", 1, 5000),
        curve("batch", "ours", 1, 5000),
        curve("late", "a", 1, 2),
    ]

    files = draw(curves, tmp_path / "plots")

    assert [file.name for file in files] == ["batch.svg", "batch.png", "late.svg", "late.png"]
    assert all(file.stat().st_size > 1000 for file in files)
    assert (tmp_path / "plots" / "batch.png").read_bytes().startswith(b"\x89PNG")


def test_an_empty_store_has_its_place_on_an_axis_of_powers_of_ten(tmp_path: Path) -> None:
    files = draw([curve("store", "a", 0, 100_000, 10_000_000)], tmp_path)

    assert files[0].read_text().startswith("<?xml")
