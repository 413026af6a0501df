"""The store that a command is given, and what is wrong with it."""

from __future__ import annotations

import click

from leasecron.backends.base import Backend
from leasecron.backends.urls import backend_for
from leasecron.errors import ConfigurationError


class StoreRefused(click.ClickException):
    """The command cannot be done with this store; the message says why and what to do."""

    exit_code = 2


def named_backend(store: str) -> Backend:
    """Return the backend that a URL or path names, not opened."""
    try:
        return backend_for(store)
    except ConfigurationError as error:
        raise StoreRefused(str(error)) from error
