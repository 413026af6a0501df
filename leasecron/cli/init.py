"""``leasecron init``: make a store before any instance starts."""

from __future__ import annotations

import os

import click

from leasecron.backends.base import Backend
from leasecron.backends.filesystems import filesystem_of
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.lockdir.marker import read_marker
from leasecron.backends.lockdir.names import MARKER
from leasecron.backends.server.protocols import Prepared, ServerStore
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.cli.stores import StoreRefused, named_backend
from leasecron.errors import BackendError, printable


@click.command()
@click.argument("store")
@click.option(
    "--print-sql",
    is_flag=True,
    help="Print what makes a PostgreSQL store, for whoever may execute it, and connect to nothing.",
)
def init(store: str, *, print_sql: bool) -> None:
    """Make STORE, or make sure that it is ready.

    STORE is a URL such as sqlite:////var/lib/app/jobs.db, lockdir:////mnt/nfs/locks,
    postgresql://user@host/database or redis://host/number, or the path of a SQLite file. A lock
    directory must be made this way, once, on one host: an empty directory could as well be a
    network mount that is missing. The folder above is never made. Other stores are made by the
    first instance as well; a schema in PostgreSQL only if its role may make one.

    The exit code is 0, or 2 where there is no usable store in the end.
    """
    named = named_backend(store)
    if print_sql:
        click.echo(_script_of(named), nl=False)
        return
    try:
        backend, there = _to_make(named)
        backend.open()
        backend.close()
    except BackendError as error:
        raise StoreRefused(str(error)) from error
    for warning in backend.warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    name = printable(backend.description)
    if there:
        click.echo(f"the store {name} was there already, and is ready")
    else:
        click.echo(f"made the store {name}")
    if isinstance(backend, LockDirBackend):
        _tell_which(backend.path)


def _tell_which(path: str) -> None:
    """Say what tells this directory from an empty one that stands in for a missing mount."""
    marker, filesystem = read_marker(path), filesystem_of(path)
    if marker is not None:
        click.echo(
            f"its id is {printable(marker.id)}: on every host that uses it, it must be the same"
        )
    if not filesystem.is_network:
        click.echo(
            f"it is on {filesystem.type}, local to this host: several hosts need a directory on a"
            " mount that they share"
        )


def _script_of(backend: Backend) -> str:
    if isinstance(backend, Prepared):
        return backend.script()
    raise StoreRefused(f"{backend.description} is not made by SQL: leave out --print-sql")


def _to_make(backend: Backend) -> tuple[Backend, bool]:
    """Return the backend that makes the store when it is opened, and whether it is there."""
    match backend:
        case SqliteBackend():
            return backend, not backend.is_missing
        case LockDirBackend(path=path):
            return LockDirBackend(path, create=True), os.path.exists(os.path.join(path, MARKER))
        case ServerStore():
            return backend, not getattr(backend, "is_missing", False)
    raise StoreRefused(
        f"{backend.description} cannot be made: it begins and ends with the process that uses it"
    )
