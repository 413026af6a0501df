"""A Valkey server of a test's own, which it may kill, freeze and start again."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.servers import started_redis
from support.stopped import wait_until_stopped

_READY = 60.0
"""Seconds for which a busy machine may read what was kept."""


class OwnValkey:
    """A server that keeps what it has answered, at one port of this machine, and runs already."""

    def __init__(self, **settings: object) -> None:
        self.server = started_redis(**settings)
        self.port: int = self.server.port
        self.folder: Path = self.server.data_dir
        self.url = f"redis://{self.server.host}:{self.port}"

    def start(self) -> None:
        """Start it again, with what it had kept, and return once it lets somebody in."""
        self.server.start(_READY)

    def stop(self) -> None:
        """Shut it down as an administrator does."""
        self.server.stop()

    def kill(self) -> None:
        """Let it die without a word."""
        self.server.terminate()

    def suspend(self) -> None:
        """Stop it; its connections stay as they are."""
        os.kill(self._pid, signal.SIGSTOP)
        wait_until_stopped(self._pid)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self._pid, signal.SIGCONT)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop it for a while."""
        self.suspend()
        try:
            yield
        finally:
            self.resume()

    @property
    def _pid(self) -> int:
        pid: int = self.server._process.pid
        return pid


@contextmanager
def own_valkey(**settings: object) -> Iterator[OwnValkey]:
    """Run a server for a while."""
    server = OwnValkey(**settings)
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.folder, ignore_errors=True)
