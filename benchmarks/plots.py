"""Plots of the curves that the parts return, as SVG and as PNG."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.measuring import Curve

_FORMATS = ("svg", "png")
_NUMBER = "{x:,.10g}"
_ROOM_ABOVE = 1.05
_FAR_APART = 10  # a line so many times as high as another: by powers of ten both can be seen
_WIDE = 50  # a longer way from the least to the greatest is drawn by powers of ten


def draw(curves: Iterable[Curve], folder: Path) -> list[Path]:
    """Draw a plot for each name that the curves give; return the files. Needs matplotlib."""
    plots: dict[str, list[Curve]] = {}
    for curve in curves:
        plots.setdefault(curve.plot, []).append(curve)
    folder.mkdir(parents=True, exist_ok=True)
    return [path for name, lines in plots.items() for path in _draw(name, lines, folder)]


def _draw(name: str, lines: list[Curve], folder: Path) -> list[Path]:
    # Not pyplot: that would choose a window system and keep every plot that it made.
    from matplotlib.figure import Figure  # noqa: PLC0415 - the extra that brings it may be missing

    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    for line in lines:
        x, y = zip(*line.points, strict=True)
        axes.plot(x, y, label=line.line, marker="o" if len(x) <= 20 else None)
    _scale(axes, [x for line in lines for x, _y in line.points])
    axes.set(title=lines[0].title, xlabel=lines[0].x, ylabel=lines[0].y)
    highest = [max(y for _x, y in line.points) for line in lines]
    if max(highest) > _FAR_APART * min(highest):  # else the lower line would lie on the axis
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, _ROOM_ABOVE * max(highest))
    axes.xaxis.set_major_formatter(_NUMBER)
    axes.yaxis.set_major_formatter(_NUMBER)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    files = [folder / f"{name}.{form}" for form in _FORMATS]
    for file in files:
        figure.savefig(file, dpi=144)
    return files


def _scale(axes: Any, values: list[float]) -> None:
    least = min((value for value in values if value > 0), default=0.0)
    if not least or max(values) < _WIDE * least:
        return
    if min(values) > 0:
        axes.set_xscale("log")
    else:  # an empty store has a place of its own, left of the powers of ten
        axes.set_xscale("symlog", linthresh=least, linscale=0.5)
