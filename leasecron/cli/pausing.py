"""``leasecron pause`` and ``leasecron resume``: whether runs of a job begin."""

from __future__ import annotations

import click

from leasecron.backends.base import ControlBackend
from leasecron.cli.stores import opened_control, store_option
from leasecron.errors import printable, shown
from leasecron.jobs import check_name
from leasecron.model import Pause


def _utf8(_ctx: click.Context, _option: click.Parameter, note: str) -> str:
    """Refuse bytes that are no text: not every store can keep what Python makes of them."""
    try:
        note.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter(f"{shown(note)}; right is text in UTF-8") from error
    return note


@click.command()
@click.argument("name")
@store_option
@click.option(
    "--note", default="", callback=_utf8, metavar="TEXT", help="Why, in up to 1,000 characters."
)
def pause(name: str, store: str, note: str) -> None:
    """Let no run of the job NAME begin until it is resumed.

    This holds for all instances of the application at once, and across their restarts. A run that
    goes on is left alone. Slots of the pause are skipped, and not caught up after it.

    \b
    Example:
      leasecron pause report --store sqlite:////var/lib/app/jobs.db --note "bank closed"
      leasecron resume report --store sqlite:////var/lib/app/jobs.db

    A job that is paused already keeps its pause and the note of it. The exit code is 0 where the
    job is paused in the end, and 2 where there is no such store, or no such job in it.
    """
    with opened_control(store, "pause") as (scheduler, backend):
        before = _pause_of(backend, name)
        scheduler.pause(name, note)
        lasting = _pause_of(backend, name)
    if before is None or before != lasting:
        since = f" {_since(lasting)}" if lasting is not None else ""
        click.echo(f"job {shown(name)} is paused{since}")
    else:
        click.echo(f"job {shown(name)} was paused already, {_since(before)}; this pause goes on")


@click.command()
@click.argument("name")
@store_option
def resume(name: str, store: str) -> None:
    """Let runs of the job NAME begin again, after a pause.

    \b
    Example:
      leasecron resume report --store sqlite:////var/lib/app/jobs.db

    The next run is that of the next slot. The exit code is 0, also where the job is not paused, and
    2 where there is no such store, or no such job in it.
    """
    with opened_control(store, "resume") as (scheduler, backend):
        before = _pause_of(backend, name)
        scheduler.resume(name)
    if before is None:
        click.echo(f"job {shown(name)} is not paused")
    else:
        click.echo(f"job {shown(name)} is resumed; it was paused {_since(before)}")


def _pause_of(backend: ControlBackend, name: str) -> Pause | None:
    """Return the pause of a job that lasts."""
    check_name(name)
    newest = next(iter(backend.pauses(name)), None)
    return newest if newest is not None and newest.resumed_at is None else None


def _since(pause: Pause) -> str:
    note = f" ({printable(pause.note)})" if pause.note else ""
    return f"since {pause.paused_at.isoformat()}{note}"
