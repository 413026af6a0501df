"""A connection to a server that a test may cut, in the middle of what goes through it."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from pathlib import Path

_CHUNK = 65_536
_REQUESTS, _ANSWERS = "cut_requests_after", "cut_answers_after"


class Proxy:
    """Passes on what comes to a socket in a folder, and cuts a connection where it is told to.

    ``cut_requests_after`` and ``cut_answers_after`` are bytes from the moment that they are set.
    """

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder = folder
        self.cut_requests_after: int | None = None
        self.cut_answers_after: int | None = None
        self.cuts = 0
        self._server = server
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / server.name))
        self._listener.listen()
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
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(str(self._server))
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
