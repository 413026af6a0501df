"""pgbouncer before a PostgreSQL server, so that each transaction may have another session."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.postgres_server import OwnServer
from support.requirements import require

_PORT = 6432
_READY = 20.0

_SETTINGS = """
[databases]
postgres = host={server} port=5432 dbname=postgres user=postgres

[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 2
ignore_startup_parameters = {ignored}
"""


@contextmanager
def pooled(server: OwnServer, *, ignored: str) -> Iterator[str]:
    """Run a pooler with two sessions; yield the URL of the database behind it."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    require(program, "pgbouncer is not installed")
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="leasecron-pooler-") as name:
        folder = Path(name)
        folder.chmod(0o777)  # the pooler is of the server's user, and makes its socket there
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(server=server.folder, folder=folder, port=_PORT, ignored=ignored)
        )
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, str(settings)], stdout=log, stderr=log, user=server.user
            )
        try:
            _wait_for(folder / f".s.PGSQL.{_PORT}", process, folder / "log")
            yield f"postgresql://postgres@/postgres?host={folder}&port={_PORT}"
        finally:
            process.kill()
            process.wait()


def _wait_for(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY
    while True:
        with socket.socket(socket.AF_UNIX) as tried:
            if tried.connect_ex(str(path)) == 0:
                return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)
