"""What was measured, as a table for people and as JSON for programs."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.measuring import Figure, Measured

HEADINGS = ("part", "what", "median (low to high)", "target", "met")
WRAPPED = "what"
_MET = {True: "yes", False: "no", None: ""}
QUICK = "quick: small counts and one round, to try it out; these figures are worth little"


@dataclass(frozen=True, slots=True)
class Part:
    """One part as it was measured, and how many seconds that took."""

    name: str
    title: str
    measured: Measured
    took: float


@dataclass(frozen=True, slots=True)
class Report:
    """All that was measured, and on what."""

    machine: Mapping[str, str]
    rounds: int
    quick: bool = False
    parts: list[Part] = field(default_factory=list)

    def as_json(self) -> str:
        """Return one object: machine, rounds, quick, parts."""
        parts = [
            {
                "name": part.name,
                "title": part.title,
                "took": round(part.took, 1),
                "figures": [_plain(figure) for figure in part.measured.figures],
                "curves": [asdict(curve) for curve in part.measured.curves],
                "notes": list(part.measured.notes),
            }
            for part in self.parts
        ]
        return json.dumps(
            {
                "machine": dict(self.machine),
                "rounds": self.rounds,
                "quick": self.quick,
                "parts": parts,
            },
            indent=2,
        )

    def as_text(self, width: int | None = None) -> str:
        """Return the head, the table and the notes; the table is drawn with rich where it is."""
        width_of_names = max(map(len, self.machine))
        lines = [f"{name:<{width_of_names}}  {value}" for name, value in self.machine.items()]
        lines += ["", *([QUICK, ""] if self.quick else [])]
        drawn = _with_rich if importlib.util.find_spec("rich") else _plainly
        lines += [drawn(rows(self.parts, judged=not self.quick), width)]
        lines += [f"{part.name}: {note}" for part in self.parts for note in part.measured.notes]
        return "\n".join(lines)


def rows(parts: Sequence[Part], *, judged: bool = True) -> list[tuple[str, ...]]:
    """Return the cells of the table; the targets are for full counts, and else not judged by."""
    return [
        (
            part.name,
            figure.what,
            spread(figure),
            target(figure) if judged else "",
            _MET[figure.met] if judged else "",
        )
        for part in parts
        for figure in part.measured.figures
    ]


def spread(figure: Figure) -> str:
    """Return the median, and between which values it lies where there are several."""
    if len(figure.values) == 1:
        return with_unit(figure.median, figure.unit)
    between = f"{number(figure.low)} to {number(figure.high)}"
    return f"{with_unit(figure.median, figure.unit)} ({between})"


def target(figure: Figure) -> str:
    """Return the target in words; nothing where a figure has none."""
    bounds = ((">=", figure.at_least), ("<=", figure.at_most))
    return " and ".join(
        f"{sign} {with_unit(bound, figure.unit)}" for sign, bound in bounds if bound is not None
    )


def with_unit(value: float, unit: str) -> str:
    """Return a number and its unit, which stands close to it where it is a sign."""
    return f"{number(value)}{unit}" if unit in ("/s", "x", "%") else f"{number(value)} {unit}"


def number(value: float) -> str:
    """Return three digits of a number, and of a large one all before the point."""
    if abs(value) >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _plain(figure: Figure) -> dict[str, Any]:
    summed = {"median": figure.median, "low": figure.low, "high": figure.high}
    return asdict(figure) | summed | {"met": figure.met}


def _plainly(cells: Sequence[tuple[str, ...]], _width: int | None) -> str:
    table = [HEADINGS, *cells]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in table
    )
    return "\n".join(line.rstrip() for line in padded) + "\n"


def _with_rich(cells: Sequence[tuple[str, ...]], width: int | None) -> str:
    from rich.console import Console  # noqa: PLC0415 - the extra that brings it may be missing
    from rich.table import Table  # noqa: PLC0415 - the same
    from rich.text import Text  # noqa: PLC0415 - the same

    table = Table()
    for heading in HEADINGS:
        table.add_column(heading, no_wrap=heading != WRAPPED)
    part = ""
    for name, *line in cells:
        if part and name != part:
            table.add_section()
        table.add_row(*(Text(cell) for cell in ("" if name == part else name, *line)))
        part = name
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()
