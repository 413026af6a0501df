"""``python -m benchmarks``: measure, and report beside the targets. Nothing here asserts."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from benchmarks import parts
from benchmarks.machine import command_line, describe
from benchmarks.measuring import Settings
from benchmarks.plots import draw
from benchmarks.report import Part, Report

WIDTH_OF_FILES = 120
"""How wide the table is where it is not written to a terminal."""


@click.command()
@click.argument("names", metavar="[PART]...", nargs=-1, type=click.Choice(parts.PARTS))
@click.option("--list", "listed", is_flag=True, help="Name the parts, and measure nothing.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help="How long a part that counts for a while does so in each round.",
)
@click.option("--quick", is_flag=True, help="Small counts and one round, to try it out.")
@click.option("--json", "as_json", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the stores are made; otherwise in the working directory, for its disk.",
)
def main(
    names: Sequence[str],
    rounds: int,
    seconds: float | None,
    as_json: Path | None,
    plots: Path | None,
    folder: Path | None,
    *,
    listed: bool,
    quick: bool,
) -> None:
    """Measure leasecron beside plain sqlite3 and its peers, all parts or the named ones.

    Every figure is the median of the rounds, after one for warm-up, with the lowest and the
    highest. Progress goes to stderr. A missed target is reported, and is no error.
    """
    if listed:
        _list()
        return
    if plots is not None and importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--plots needs matplotlib: pip install -e '.[bench]'")
    if as_json is not None:
        as_json.parent.mkdir(parents=True, exist_ok=True)  # fails now, and not after the first part
    with _made(folder) as place:
        settings = Settings(place, 1 if quick else rounds, seconds, quick)
        report = Report(describe(place, command_line()), settings.rounds, quick)
        failed = _measure(names or parts.PARTS, settings, report, as_json)
    click.echo(report.as_text(None if sys.stdout.isatty() else WIDTH_OF_FILES))
    if plots is not None:
        draw((curve for part in report.parts for curve in part.measured.curves), plots)
    if failed:
        raise click.ClickException(f"could not be measured: {', '.join(failed)}")


def _list() -> None:
    for name in parts.PARTS:
        click.echo(f"{name:<10} {parts.title(name)}")


@contextmanager
def _made(folder: Path | None) -> Iterator[Path]:
    """Have an absolute folder for the stores; one that was not asked for is removed again."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.absolute()
        return
    with tempfile.TemporaryDirectory(prefix=".benchmarks-", dir=Path.cwd()) as made:
        yield Path(made)


def _measure(
    names: Iterable[str], settings: Settings, report: Report, as_json: Path | None
) -> list[str]:
    """Measure parts into the report; return the names of those that could not be measured."""
    failed = []
    for name in dict.fromkeys(names):
        began = time.monotonic()
        try:
            measured = parts.measure(name, replace(settings, progress=partial(_say, name)))
        except Exception:  # noqa: BLE001 - the others can be measured all the same
            traceback.print_exc()
            failed.append(name)
            continue
        took = time.monotonic() - began
        report.parts.append(Part(name, parts.title(name), measured, took))
        if as_json is not None:  # after each part: the whole of it takes long
            as_json.write_text(report.as_json() + "\n", encoding="utf-8")
        _say(name, f"done in {took:.0f} s")
    return failed


def _say(part: str, text: str) -> None:
    click.echo(f"{part}: {text}", err=True)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
