"""The store that a command is given, and what is wrong with it."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import click

from leasecron.backends.base import Backend, ControlBackend
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.plain import check_control
from leasecron.backends.urls import backend_for
from leasecron.errors import ConfigurationError, LeasecronError
from leasecron.scheduler import Scheduler

store_option = click.option(
    "--store",
    required=True,
    metavar="URL",
    envvar="LEASECRON_STORE",
    show_envvar=True,
    help="The store of the application: the URL or path that its scheduler is given.",
)


class StoreRefused(click.ClickException):
    """The command cannot be done with this store; the message says why and what to do."""

    exit_code = 2


def named_backend(store: str) -> Backend:
    """Return the backend that a URL or path names, not opened."""
    try:
        return backend_for(store)
    except ConfigurationError as error:
        raise StoreRefused(str(error)) from error


@contextmanager
def opened_control(store: str, command: str) -> Iterator[tuple[Scheduler, ControlBackend]]:
    """Open a store that is there, for a command that acts on its jobs; never make one.

    Errors of this package become :class:`StoreRefused`, and Ctrl-C the exit code that shells expect
    of it.
    """
    backend = named_backend(store)
    try:
        check_control(backend, command)
        _check_there(backend)
        scheduler = Scheduler(backend)
        # Until the end: a scheduler that does not run opens its store for each question anew, and
        # would make one in place of a file that is removed meanwhile.
        backend.open(scheduler.clock)
        try:
            yield scheduler, cast("ControlBackend", backend)
        finally:
            backend.close()
    except LeasecronError as error:
        raise StoreRefused(str(error)) from error
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(128 + signal.SIGINT)


def _check_there(backend: Backend) -> None:
    if isinstance(backend, MemoryBackend):
        raise StoreRefused(
            f"{backend.description} begins and ends with the process that uses it: no command"
            " reaches it from outside"
        )
    if getattr(backend, "is_missing", False):
        raise StoreRefused(
            f"there is no store {backend.description}: name the one that the application uses. It"
            " is made when a scheduler first starts on it, or by leasecron init"
            f" {shlex.quote(backend.description)}"
        )
