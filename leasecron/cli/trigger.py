"""``leasecron trigger``: have a job run once now, and wait for the end of the run."""

from __future__ import annotations

import signal
import sys

import click

from leasecron.asked import Run
from leasecron.cli.stores import StoreRefused, opened_control, store_option
from leasecron.durations import seconds, text
from leasecron.errors import ConfigurationError, LeasecronError, printable, shown
from leasecron.model import RunResult
from leasecron.scheduler import Scheduler

NOT_ENDED = 3


def _seconds(_ctx: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else seconds(value, what="--timeout")
    except ConfigurationError as error:
        raise click.BadParameter(
            f"{shown(value)}; right is text such as 30s, 10m or 1h30m, from 1ms to ten years"
        ) from error


@click.command()
@click.argument("name")
@store_option
@click.option("--wait", is_flag=True, help="Wait for the end of the run, and say how it ended.")
@click.option(
    "--timeout",
    callback=_seconds,
    metavar="DURATION",
    help="How long --wait waits, such as 30s, 10m or 1h30m; else for as long as it takes.",
)
def trigger(name: str, store: str, timeout: float | None, *, wait: bool) -> None:
    """Have the job NAME run once now.

    An instance of the application that declares the job runs it, within about two seconds; where
    the job forbids overlap, the run waits for the one that goes on. The schedule is not changed.
    Printed are the job and the slot of the run, by which history and logs name it.

    \b
    Examples:
      leasecron trigger report --store sqlite:////var/lib/app/jobs.db
      leasecron trigger report --store postgresql:///app --wait --timeout 10m
      LEASECRON_STORE=redis://localhost/0 leasecron trigger report

    \b
    The exit code is
      0  where the run was asked for; with --wait, where it succeeded
      1  where it failed, was lost or interrupted (--wait)
      2  where it cannot be asked for: there is no such store, no instance
         that runs declares the job, or the job is paused
      3  where it has not ended within --timeout (--wait)

    A run that was asked for goes on when the command does not wait for it any longer, after
    --timeout or Ctrl-C.
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is how long --wait waits: give --wait too")
    with opened_control(store, "trigger") as (scheduler, _backend):
        run = _ask_for(scheduler, name)
        try:
            click.echo(f"asked for a run of job {shown(run.job)}, slot {run.slot.isoformat()}")
            code = _await_end(run, timeout) if wait else 0
        except KeyboardInterrupt:
            click.echo("interrupted: the run is not taken back", err=True)
            code = 128 + signal.SIGINT
    sys.exit(code)


def _ask_for(scheduler: Scheduler, name: str) -> Run:
    try:
        return scheduler.trigger(name)
    except KeyboardInterrupt:
        click.echo("interrupted: the run may have been asked for already", err=True)
        sys.exit(128 + signal.SIGINT)


def _await_end(run: Run, timeout: float | None) -> int:
    """Wait for the end of the run, tell of it, and return the exit code."""
    try:
        result = run.wait(timeout)
    except LeasecronError as error:
        raise StoreRefused(
            f"the run was asked for, and how it ended is not known: {error}"
        ) from error
    if result is None:
        assert timeout is not None
        click.echo(f"not ended within {text(timeout)}: the run is not taken back", err=True)
        return NOT_ENDED
    click.echo(_told(result))
    return 0 if result.status == "success" else 1


def _told(result: RunResult) -> str:
    line = f"{result.status}: attempt {result.attempt}"
    if result.retries:
        line += f", retry {result.retries}"
    line += f", by {printable(result.instance)}, took {text(result.duration)}"
    if result.error is None:
        return line
    error = printable(result.error)
    return f"{line} (before: {error})" if result.status == "success" else f"{line}: {error}"
