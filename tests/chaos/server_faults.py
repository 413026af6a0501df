"""What befalls the server of a chaos run, one thing at a time."""

import time
from collections.abc import Callable, Sequence

from chaos.locks import Lock
from chaos.log import Log
from chaos.plan import Kind
from chaos.server_place import ServerPlace


class ServerFaults:
    """Begins and ends what the server suffers, and writes it down.

    That is written twice: as long as anybody may notice anything of it, and as ``down`` for the
    time in which nobody can have got an answer, for the checker is strict about that.
    """

    def __init__(self, place: ServerPlace, log: Log) -> None:
        self._place = place
        self._log = log
        self._now: Kind | None = None
        self._since = 0.0
        self._down_since = 0.0

    def begin(self, kind: Kind) -> bool:
        """Let it befall the server; False where another thing has not ended."""
        if self._now is not None:
            return False
        server = self._place.server
        begin: dict[Kind, Callable[[], None]] = {
            "server-kill": server.kill,
            "server-restart": server.stop,
            "server-freeze": server.suspend,
        }
        self._now, self._since = kind, time.monotonic()
        begin[kind]()
        self._down_since = time.monotonic()
        return True

    def end(self) -> None:
        """End what has befallen it, if anything has."""
        if self._now is None:
            return
        server = self._place.server
        down_until = time.monotonic()
        if self._now == "server-freeze":
            server.resume()
        else:
            server.start()
        until = time.monotonic()
        self._log.note("fault", kind="down", since=self._down_since, until=down_until)
        self._log.note("fault", kind=self._now, since=self._since, until=until)
        self._now = None

    def locks_of(self, pid: int) -> list[Lock]:
        """Return none: a call is one statement, which ends whatever becomes of who has sent it."""
        return []

    def is_held_by(self, locks: Sequence[Lock]) -> bool:
        """Say no, for that reason."""
        return False
