"""``python -m benchmarks``: measure, and report beside the targets. Nothing here asserts."""

from __future__ import annotations

import importlib.util
import math
import signal
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

WIDTH_OF_FILES = 100
"""How wide the table is where it is not written to a terminal."""


def _refuse_nan(_context: click.Context, _option: object, value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is no number of seconds")
    return value


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", metavar="[PART]...", nargs=-1, type=click.Choice(parts.PARTS))
@click.option("--list", "listed", is_flag=True, help="Name the parts, and measure nothing.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 3600, min_open=True),
    callback=_refuse_nan,
    help="How long claims, writers, lateness, standby, leases and armed count in each round.",
)
@click.option("--quick", is_flag=True, help="Small counts and one round, to try it out.")
@click.option(
    "--json",
    "as_json",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file for all figures, written after each part.",
)
@click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for the plots of claims, writers, lateness and size, as SVG and PNG.",
)
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
    for name, wanted in (("--json", as_json and as_json.parent), ("--plots", plots)):
        _try_out(name, wanted)  # fails now, and not after an hour
    _try_out("--folder", folder)
    with _ended_by_sigterm(), _made(folder) as place:
        settings = Settings(place, 1 if quick else rounds, seconds, quick)
        report = Report(describe(place, command_line()), settings.rounds, quick)
        failed = _measure(names or parts.PARTS, settings, report, as_json)
    click.echo(report.as_text(None if sys.stdout.isatty() else WIDTH_OF_FILES))
    if plots is not None:
        draw((curve for part in report.parts for curve in part.measured.curves), plots)
    if failed:
        raise click.ClickException(f"could not be measured: {', '.join(failed)}")


def _try_out(option: str, folder: Path | None) -> None:
    """Make a folder that was asked for, and a file in it."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise click.UsageError(f"{option}: nothing can be written in {folder}: {error}") from error


def _list() -> None:
    for name in parts.PARTS:
        click.echo(f"{name:<10} {parts.title(name)}")


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """End as Ctrl-C does, so that nothing is left behind."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _made(folder: Path | None) -> Iterator[Path]:
    """Have an absolute folder for the stores; one that was not asked for is removed again."""
    if folder is not None:
        yield folder.absolute()
        return
    with tempfile.TemporaryDirectory(prefix=".benchmarks-", dir=Path.cwd()) as made:
        yield Path(made)


def _measure(
    names: Iterable[str], settings: Settings, report: Report, as_json: Path | None
) -> list[str]:
    """Measure parts into the report; return the names of those that could not be measured."""
    failed = []
    wanted = [*dict.fromkeys(names)]
    for number, name in enumerate(wanted, start=1):
        say = partial(_say, f"{name} ({number} of {len(wanted)})")
        began = time.monotonic()
        try:
            measured = parts.measure(name, replace(settings, progress=say))
        except Exception:  # noqa: BLE001 - the others can be measured all the same
            traceback.print_exc()
            failed.append(name)
            continue
        took = time.monotonic() - began
        report.parts.append(Part(name, parts.title(name), measured, took))
        if as_json is not None:  # after each part: the whole of it takes long
            _write(as_json, report.as_json() + "\n")
        say(f"done in {took:.0f} s")
    return failed


def _write(file: Path, text: str) -> None:
    """Write a file; a full disk costs neither the parts to come nor the table."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        click.echo(f"{file} could not be written: {error}", err=True)


def _say(part: str, text: str) -> None:
    click.echo(f"{part}: {text}", err=True)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
