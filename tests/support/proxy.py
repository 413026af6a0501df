"""A connection to a server that a test may cut, in the middle of what goes through it."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

_CHUNK = 65_536
_REQUESTS, _ANSWERS = "cut_requests_after", "cut_answers_after"


class Proxy:
    """Passes on what comes to a listener, and cuts a connection where it is told to.

    ``server`` is the address of one of the same family. ``cut_requests_after`` and
    ``cut_answers_after`` are bytes from the moment that they are set; None means that nothing is
    cut, as it is again after a cut.
    """

    def __init__(self, listener: socket.socket, server: object) -> None:
        self.address: Any = listener.getsockname()
        self.cut_requests_after: int | None = None
        self.cut_answers_after: int | None = None
        self.cuts = 0
        self._server: Any = server
        self._lock = threading.Lock()
        self._listener = listener
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(self._listener.family) as server, suppress(OSError):
            server.connect(self._server)
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for source in ready:
                    data = source.recv(_CHUNK)
                    is_asked = source is client
                    passed = self._allowed(_REQUESTS if is_asked else _ANSWERS, data)
                    (server if is_asked else client).sendall(passed)
                    if len(passed) < len(data) or not data:
                        return

    def _allowed(self, what: str, data: bytes) -> bytes:
        with self._lock:
            left: int | None = getattr(self, what)
            if left is None:
                return data
            if left > len(data):
                setattr(self, what, left - len(data))
                return data
            setattr(self, what, None)
            self.cuts += 1
            return data[:left]


def before_socket(folder: Path, server: Path) -> Proxy:
    """Stand before a server with a socket in the filesystem, by one of that name in a folder."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / server.name))
    listener.listen()
    return Proxy(listener, str(server))


def before_port(port: int) -> Proxy:
    """Stand before a server of this machine, by another port."""
    return Proxy(socket.create_server(("127.0.0.1", 0)), ("127.0.0.1", port))
