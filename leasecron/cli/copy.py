"""``leasecron copy``: move what a store knows to a store that more machines can reach."""

from __future__ import annotations

from contextlib import ExitStack

import click

from leasecron.backends.base import Backend
from leasecron.backends.transfer import Source, Target
from leasecron.cli.stores import StoreRefused, named_backend
from leasecron.errors import BackendError, printable


@click.command()
@click.argument("source")
@click.argument("target")
def copy(source: str, target: str) -> None:
    """Copy the jobs, runs and history of the store SOURCE to the store TARGET.

    SOURCE is a SQLite store, TARGET one in a server. Stop all instances first: nothing is copied
    while a lease is alive on the source, or a job was declared or claimed there within two minutes,
    but an instance that only waits is not seen. What
    the target has already stays as it is, so an interrupted copy is simply made again. The fences
    of the target go on above those of the source. The exit code is 0, or 2 where it was refused or
    did not come to its end.
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
            counts = _copied(given, taking)
    except BackendError as error:
        raise StoreRefused(str(error)) from error
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    click.echo(
        f"copied {said} from {printable(given.description)} to {printable(taking.description)}"
    )


def _open(backend: object, stack: ExitStack) -> None:
    store: Backend = backend  # type: ignore[assignment]  # it was made by a URL
    store.open()
    stack.callback(store.close)


def _copied(source: Source, target: Target) -> dict[str, int]:
    _check_unused(source)
    target.raise_fences(source.next_fence())
    counts = {"jobs": 0, "runs": 0, "records": 0}
    for page in source.pages():
        target.absorb(page)
        for what, rows in zip(counts, (page.jobs, page.runs, page.results), strict=True):
            counts[what] += len(rows)
    _check_unused(source)
    return counts


def _check_unused(source: Source) -> None:
    sign = source.in_use()
    if sign is not None:
        raise StoreRefused(
            f"an instance is alive on the source: {printable(sign)}. Stop all, wait two minutes,"
            " and copy then"
        )
