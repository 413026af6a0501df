"""From what a user writes for a store to the backend."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from leasecron.backends.base import Backend
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.plain import REQUIRED, complete
from leasecron.backends.redaction import shown_url
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.errors import ConfigurationError, shown

RIGHT_FORMS = (
    "right are sqlite:////absolute/path.db, sqlite:///relative/path.db, a path that ends in .db,"
    " .sqlite or .sqlite3, lockdir:////absolute/path/of/a/directory,"
    " postgresql://user:password@host/database, redis://user:password@host/number, memory://,"
    " or a backend object"
)
_ENDINGS = (".db", ".sqlite", ".sqlite3")
_SQLITE = "sqlite:///"
_LOCKDIR = "lockdir:///"
_POSTGRES = ("postgresql://", "postgres://", "postgresql+psycopg://")
_REDIS = ("redis://", "rediss://", "valkey://", "valkeys://")
_MODE = re.compile("0?[0-7]{3}")


def backend_for(store: object) -> Backend:
    """Return the backend that ``store`` names; raises :class:`ConfigurationError`.

    URLs follow SQLAlchemy: three slashes and then the path, so four for an absolute one. Nothing in
    a path is decoded; ``?durability=``, ``?journal=`` and ``?mode=`` (octal) are options.
    """
    if isinstance(store, os.PathLike):
        return _from_path(os.fspath(store), store)
    if not isinstance(store, str):
        kind = getattr(store, "kind", None)
        if isinstance(kind, str) and kind in REQUIRED and not isinstance(store, type):
            return complete(store, kind)
        raise ConfigurationError(f"store {shown(store)} is not a store; {RIGHT_FORMS}")
    if store == "memory://":
        return MemoryBackend()
    if store.startswith(_SQLITE):
        path, _, query = store.removeprefix(_SQLITE).partition("?")
        if not path:
            raise ConfigurationError(f"store {shown(store)} names no file; {RIGHT_FORMS}")
        return SqliteBackend(path, **_options(store, query))
    if store.startswith(_LOCKDIR):
        path = store.removeprefix(_LOCKDIR)
        if not path:
            raise ConfigurationError(f"store {shown(store)} names no directory; {RIGHT_FORMS}")
        if "?" in path:
            raise ConfigurationError(
                f"store {shown(store)}: a lock directory has no options; one whose path has a"
                " question mark is named by LockDirBackend(path)"
            )
        return LockDirBackend(path)
    if store.startswith(_POSTGRES):
        with _optional(store, "postgres"):
            from leasecron.backends.postgres.backend import PostgresBackend  # noqa: PLC0415 - optional
        return PostgresBackend(store)
    if store.startswith(_REDIS):
        with _optional(store, "redis"):
            from leasecron.backends.redis.backend import RedisBackend  # noqa: PLC0415 - optional
        return RedisBackend(store)
    if "://" in store or store.startswith(("sqlite:", "lockdir:")):
        raise ConfigurationError(f"store {shown_url(store)} is not a URL of a store; {RIGHT_FORMS}")
    return _from_path(store, store)


def _from_path(path: str | bytes, store: object) -> Backend:
    if not isinstance(path, str) or not path.lower().endswith(_ENDINGS):
        named = shown_url(store) if isinstance(store, str) else shown(store)
        raise ConfigurationError(f"store {named} is not the path of a store; {RIGHT_FORMS}")
    return SqliteBackend(path)


@contextmanager
def _optional(store: str, extra: str) -> Iterator[None]:
    """Say how to get the driver of a server where it cannot be imported."""
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"store {shown_url(store)} needs a driver that cannot be imported ({error}): right is"
            f" pip install 'leasecron[{extra}]'"
        ) from error


def _options(store: str, query: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in query.split("&") if query else []:
        name, _, value = part.partition("=")
        wrong = name == "mode" and not _MODE.fullmatch(value)
        if name not in {"durability", "journal", "mode"} or name in options or wrong:
            raise ConfigurationError(
                f"store {shown(store)}: {shown(part)} is not an option; right are durability=full"
                " or normal, journal=auto, wal or delete, and mode=0660 or another file mode"
            )
        options[name] = int(value, 8) if name == "mode" else value
    return options
