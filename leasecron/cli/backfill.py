"""``leasecron backfill``: have the slots of a range run that never succeeded."""

from __future__ import annotations

import io
import signal
import sys
from datetime import UTC, datetime

import click

from leasecron.backfill import MOST_SLOTS, Backfill, MissingSlots
from leasecron.cli.stores import StoreRefused, opened_control, store_option
from leasecron.errors import ConfigurationError, printable, shown
from leasecron.model import BackfillState

_LARGE = 2**31
"""Slots that a backfill may have that is meant whatever its size."""


def _instant(_ctx: click.Context, _option: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        instant = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{shown(value)}; right is a day or an instant, such as 2026-01-31 or"
            " 2026-01-31T03:00+01:00; without a zone it is UTC"
        ) from error
    return instant if instant.utcoffset() is not None else instant.replace(tzinfo=UTC)


@click.command()
@click.argument("name")
@store_option
@click.option(
    "--start",
    callback=_instant,
    metavar="TIME",
    help="The first instant of the range: 2026-01-31, or 2026-01-31T03:00+01:00; UTC without zone.",
)
@click.option(
    "--end", callback=_instant, metavar="TIME", help="The first instant after it; now without it."
)
@click.option("--dry-run", is_flag=True, help="List the slots, and change nothing.")
@click.option("--yes", is_flag=True, help=f"More than {MOST_SLOTS:,} slots are meant.")
@click.option("--wait", is_flag=True, help="Wait for the end, with a bar that shows how far it is.")
@click.option("--cancel", is_flag=True, help="End the backfill that goes on; a live run goes on.")
def backfill(
    name: str,
    store: str,
    start: datetime | None,
    end: datetime | None,
    *,
    dry_run: bool,
    yes: bool,
    wait: bool,
    cancel: bool,
) -> None:
    """Have every slot of the job NAME run that never succeeded, in a range of time.

    The slots in --start <= slot < --end are run oldest first, one at a time, by the instances of
    the application that declare the job. A slot that fails does not stop the others, and a slot of
    the schedule that comes due meanwhile goes before the next. What succeeded is known as far as
    the history of the job goes back.

    \b
    Examples:
      leasecron backfill report --start 2026-01-01 --end 2026-02-01 --dry-run
      leasecron backfill report --start 2026-01-01 --end 2026-02-01 --wait
      leasecron backfill report --cancel

    \b
    The exit code is
      0  where it was begun; with --wait, where every slot has succeeded
      1  where a slot has failed, or it was cancelled (--wait)
      2  where it cannot be begun: there is no such store, no instance that
         runs declares the job, it is paused, or has a backfill that goes on

    It goes on when the command does not wait for it any longer, after Ctrl-C, and stands still
    while the job is paused. Which slots have failed is what --dry-run lists afterwards.
    """
    if cancel:
        if start or end or dry_run or yes or wait:
            raise click.UsageError("--cancel goes with no other option but --store")
        _cancel(store, name)
        return
    if dry_run and wait:
        raise click.UsageError("--dry-run begins nothing: leave out --wait")
    if start is None:
        raise click.UsageError("say where the range begins, with --start, or --cancel")
    with opened_control(store, "backfill") as (scheduler, _backend):
        most = _LARGE if yes else MOST_SLOTS
        if dry_run:
            slots = scheduler.missing(name, start, end)
            if not yes:
                slots.count(name, most)
            _list(slots)
            return
        if yes:
            _say_size(name, scheduler.missing(name, start, end))
        begun = scheduler.backfill(name, start, end, most=most)
        click.echo(f"begun: {_slots(begun.total)} of job {shown(name)}")
        code = _wait_for(begun) if wait and begun.total else 0
    sys.exit(code)


def _say_size(name: str, slots: MissingSlots) -> None:
    """Say before it begins how large a backfill is, that nobody counts to the end in a moment."""
    try:
        slots.count(name, MOST_SLOTS)
    except ConfigurationError as error:
        click.echo(f"with --yes: {error}", err=True)


def _list(slots: MissingSlots) -> None:
    count = 0
    for slot in slots:
        click.echo(slot.isoformat())
        count += 1
    click.echo(_slots(count), err=True)


def _cancel(store: str, name: str) -> None:
    with opened_control(store, "backfill") as (scheduler, _backend):
        current = scheduler.current_backfill(name)
        if current is None or current.state().ended_at is not None:
            raise StoreRefused(f"no backfill of job {shown(name)} goes on")
        current.cancel()
        click.echo(f"cancelled: {_told(current.state())}")


def _wait_for(begun: Backfill) -> int:
    """Wait for the end, tell of it, and return the exit code."""
    # click prints the label of a bar even where there is no terminal for it.
    target = sys.stderr if sys.stderr.isatty() else io.StringIO()
    with click.progressbar(length=begun.total, label=printable(begun.job), file=target) as bar:

        def show(state: BackfillState) -> None:
            bar.update(state.succeeded + state.failed - bar.pos)

        try:
            ended = begun.wait(progress=show)
        except KeyboardInterrupt:
            click.echo("\ninterrupted: the backfill goes on", err=True)
            return 128 + signal.SIGINT
    assert ended is not None
    click.echo(_told(ended))
    return 0 if ended.succeeded == ended.total else 1


def _told(state: BackfillState) -> str:
    left = state.total - state.succeeded - state.failed
    line = f"{_slots(state.succeeded)} succeeded, {state.failed:,} failed"
    return line if not left else f"{line}, {left:,} not run"


def _slots(count: int) -> str:
    return f"{count:,} slot" + ("" if count == 1 else "s")
