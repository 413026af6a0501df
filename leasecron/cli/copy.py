"""``leasecron copy``: move what a store knows to a store that more machines can reach."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack

import click

from leasecron.backends.base import Backend
from leasecron.backends.transfer import Source, Target
from leasecron.cli.stores import StoreRefused, named_backend
from leasecron.errors import BackendError, printable

Counts = Counter[str]


@click.command()
@click.argument("source")
@click.argument("target")
def copy(source: str, target: str) -> None:
    """Copy the jobs, runs and history of the store SOURCE to the store TARGET.

    SOURCE is a SQLite store, TARGET one in a server. Stop all instances first: nothing is copied
    while a lease is alive on the source, or a job was seen there within two minutes. What the
    target has already stays as it is, so an interrupted copy is simply made again. The fences of
    the target go on above those of the source.

    The exit code is 0, 1 where records of the history had to be left out, since the target has
    others with their fences, or 2 where it was refused or did not come to its end.
    """
    given, taking = named_backend(source), named_backend(target)
    if not isinstance(given, Source):
        raise StoreRefused(f"{given.description} cannot be copied from: a SQLite store can")
    if not isinstance(taking, Target):
        raise StoreRefused(f"{taking.description} cannot be copied to: a store in a server can")
    if getattr(given, "is_missing", False):
        raise StoreRefused(f"{given.description} is not there: nothing was copied")
    try:
        with ExitStack() as stack:
            _open(given, stack)
            _open(taking, stack)
            read, new, clashing = _copied(given, taking)
    except BackendError as error:
        raise StoreRefused(str(error)) from error
    source, target = printable(given.description), printable(taking.description)
    click.echo(f"copied {_counted(new)} from {source} to {target}")
    read["records"] -= clashing
    there = {what: count - new[what] for what, count in read.items()}
    if any(there.values()):
        click.echo(f"there already, and not changed: {_counted(there)}")
    if clashing:
        click.echo(
            f"left out: {clashing:,} records, since {target} has records of other runs with the"
            f" same fences, from another source; they are still in {source}",
            err=True,
        )
        sys.exit(1)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def _open(backend: object, stack: ExitStack) -> None:
    store: Backend = backend  # type: ignore[assignment]  # it was made by a URL
    store.open()
    stack.callback(store.close)


def _copied(source: Source, target: Target) -> tuple[Counts, Counts, int]:
    """Return how much was read, how much of it was new, and how many records clashed."""
    _check_unused(source)
    target.raise_fences(source.next_fence())
    read: Counts = Counter(jobs=0, runs=0, records=0)
    new: Counts = Counter(jobs=0, runs=0, records=0)
    clashing = 0
    for page in source.pages():
        taken = target.absorb(page)
        read.update(jobs=len(page.jobs), runs=len(page.runs), records=len(page.results))
        new.update(jobs=taken.jobs, runs=taken.runs, records=taken.results)
        clashing += taken.clashing
    _check_unused(source)
    return read, new, clashing


def _check_unused(source: Source) -> None:
    sign = source.in_use()
    if sign is not None:
        raise StoreRefused(
            f"an instance is alive on the source: {printable(sign)}. Stop all, wait two minutes,"
            " and copy then"
        )
