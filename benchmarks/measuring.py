"""What a part of the benchmarks is asked for and what it returns.

A figure is never one reading: it keeps the value of every round, and shows the median beside the
lowest and the highest. A ratio is computed round by round, from two figures that were taken next to
each other, and only then summed up.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity over the rounds, without the one for warm-up.

    ``unit`` is such as ``/s``, ``ms``, ``%`` or ``x``. The median is held against the target, which
    is ``at_least`` or ``at_most``; a figure without either is for orientation.
    """

    what: str
    unit: str
    values: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    @property
    def met(self) -> bool | None:
        """Say whether the median meets the target; None without one."""
        if self.at_least is None and self.at_most is None:
            return None
        above = self.at_least is None or self.median >= self.at_least
        return above and (self.at_most is None or self.median <= self.at_most)


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot. ``plot`` is the file name of the plot without its suffix."""

    plot: str
    title: str
    x: str
    y: str
    line: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a part found. Notes are sentences, such as that a peer is not installed."""

    figures: tuple[Figure, ...]
    curves: tuple[Curve, ...] = ()
    notes: tuple[str, ...] = ()


def _silent(text: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asked for.

    ``seconds`` is how long a part that counts for a while does so in each round; None leaves it to
    the part. ``quick`` is for trying a part out: its figures are worth little.
    """

    folder: Path
    rounds: int = 5
    seconds: float | None = None
    quick: bool = False
    progress: Callable[[str], None] = _silent

    def count(self, full: int) -> int:
        """Return ``full``, or with ``quick`` a tenth of it, at least 1."""
        return max(1, full // 10) if self.quick else full

    @contextmanager
    def store(self, name: str) -> Iterator[Path]:
        """Make a fresh folder for stores, and remove it afterwards with all that is in it."""
        made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


def rounds(settings: Settings, measure: Callable[[], T]) -> list[T]:
    """Measure once for warm-up and then for each round; return what the rounds gave."""
    settings.progress("warm-up")
    measure()
    values: list[T] = []
    for number in range(1, settings.rounds + 1):
        settings.progress(f"round {number} of {settings.rounds}")
        values.append(measure())
    return values
