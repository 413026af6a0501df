"""``leasecron doctor``: say whether a store can be trusted on this machine."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from leasecron.cli.stores import StoreRefused, named_backend
from leasecron.doctor.examination import examine_store
from leasecron.errors import LeasecronError


@click.command()
@click.argument("store")
@click.option(
    "--also",
    metavar="PATH",
    type=click.Path(exists=True, file_okay=False),
    help="A second mount of the store's directory: tries what holds between the two.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and no table.")
def doctor(store: str, also: str | None, *, as_json: bool) -> None:
    """Say whether STORE can be trusted on this machine, by trying.

    STORE is a URL such as sqlite:////var/lib/app/jobs.db, lockdir:////mnt/nfs/locks,
    postgresql://user@host/database or redis://host/number, or the path of a SQLite file.

    For a store in files, two processes race and lock in a folder beside them, which is removed
    again; it takes some seconds, and with --also up to a minute more. A server is asked about its
    settings, its clock and how quick it is. The store itself is neither made nor changed, and
    instances may use it meanwhile.

    The exit code is 0 where all is good, 1 where there are warnings, and 2 where the store is not
    to be trusted, or is not there yet.
    """
    try:
        with _signals_raise():
            report = examine_store(named_backend(store), also)
    except LeasecronError as error:
        raise StoreRefused(str(error)) from error
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(128 + signal.SIGINT)
    width = shutil.get_terminal_size().columns
    click.echo(report.as_json() if as_json else report.as_table(width))
    sys.exit(report.exit_code)


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Let what would end the process raise in it instead, so that the folder is removed."""
    old = {
        number: signal.signal(number, lambda received, _frame: sys.exit(128 + received))
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
