"""A server of a chaos run's own, as its store, and a way to it on which connections are cut."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from support.own_servers import AnyServer
from support.postgres_server import own_server
from support.proxy import Proxy, before_port, before_socket
from support.valkey_server import own_valkey

from chaos.plan import Kind

_SETTINGS = ("max_wal_size=128MB", "checkpoint_timeout=30s")
"""So that a PostgreSQL server that was killed has little to do when it comes back."""


class ServerPlace:
    """A server that is there for one run, and is gone with all that it kept.

    What it has answered it keeps when it is killed; of Redis only ``appendfsync always`` does that.
    """

    leases = has_clock = True

    def __init__(self, kind: Literal["postgres", "redis"]) -> None:
        self.kind = kind
        self.server: AnyServer
        self.direct = self._cut = ""
        self._proxy: Proxy
        self._log: Path

    def __str__(self) -> str:
        return f"{self.kind}, a server of its own"

    def url_of(self, number: int) -> str:
        """Return the URL for an instance: for every other one that on which it may be cut off."""
        return self._cut if number % 2 else self.direct

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have it there."""
        with self._postgres() if self.kind == "postgres" else self._redis():
            try:
                yield
            finally:
                self._proxy.close()

    def kinds(self) -> tuple[list[Kind], list[str]]:
        """Return what can befall it, and what cannot and why."""
        kinds: list[Kind] = ["server-kill", "server-restart", "server-freeze"]
        return [*kinds, "freeze", "cut-request", "cut-answer"], []

    def cut(self, kind: Kind, after: int) -> bool:
        """Cut a connection after so many bytes; False where the last cut is still to come."""
        direction = "cut_requests_after" if kind == "cut-request" else "cut_answers_after"
        if getattr(self._proxy, direction) is not None:
            return False
        setattr(self._proxy, direction, after)
        return True

    def keep(self, folder: Path) -> None:
        """Copy what tells of it."""
        shutil.copy(self._log, folder / "server-log")

    @contextmanager
    def _postgres(self) -> Iterator[None]:
        with own_server(*_SETTINGS) as self.server, tempfile.TemporaryDirectory() as folder:
            self._log = self.server.folder / "log"
            self._proxy = before_socket(Path(folder), self.server.folder / ".s.PGSQL.5432")
            self.direct = f"{self.server.url}&schema=chaos"
            self._cut = f"postgresql://postgres@/postgres?host={folder}&schema=chaos"
            yield

    @contextmanager
    def _redis(self) -> Iterator[None]:
        with own_valkey() as self.server:
            self._log = self.server.folder / "valkey.log"
            self._proxy = before_port(self.server.port)
            self.direct = self.server.url
            self._cut = f"redis://127.0.0.1:{self._proxy.address[1]}"
            yield
