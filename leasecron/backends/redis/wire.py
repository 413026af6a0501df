"""One command of a Redis server at a time, with an end to the wait for it.

Connections of redis-py are used as they are, without a client around them, since that would repeat
commands by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from leasecron.backends.redis.scripts import Script
from leasecron.backends.redis.urls import Address, Node


class Wire:
    """A connection to a server; errors are those of redis-py."""

    def __init__(self, address: Address, node: Node | None = None) -> None:
        """Connect, log in and choose the database."""
        self._connection = address.connection(node)
        try:
            self._connection.connect()
        except BaseException:
            self._connection.disconnect()
            raise

    def command(self, *words: str | bytes | int) -> Any:
        """Return what the server answers to a command."""
        self._connection.send_command(*words)
        return self._connection.read_response()

    def run(self, script: Script, keys: Sequence[str], *values: str | bytes | int) -> Any:
        """Execute a script; a server that does not know it, since it was restarted, is told it."""
        try:
            return self.command("EVALSHA", script.digest, len(keys), *keys, *values)
        except NoScriptError:
            return self.command("EVAL", script.text, len(keys), *keys, *values)

    def info(self) -> dict[str, str]:
        """Return what the server says of itself; nothing where it may not be asked."""
        try:
            text = self.command("INFO").decode(errors="replace")
        except ResponseError:
            return {}
        pairs = [line.partition(":") for line in text.splitlines() if not line.startswith("#")]
        return {name: value for name, _, value in pairs}

    def nodes(self) -> list[Node]:
        """Return the nodes of the cluster that the server is one of; none where it will not say."""
        try:
            ranges = self.command("CLUSTER", "SLOTS")
        except ResponseError:
            return []
        found = [
            (node[0].decode() if node[0] else self._connection.host, int(node[1]))
            for each in ranges
            for node in each[2:]
        ]
        return list(dict.fromkeys(found))

    @property
    def descriptor(self) -> int:
        """What can be read once there are notices, or the connection has ended."""
        number: int = self._connection._sock.fileno()  # noqa: SLF001 - it has no name to the public
        return number

    def listen(self, channel: str) -> None:
        """Have notices of a channel come by this connection, and use it for nothing else."""
        self.command("SUBSCRIBE", channel)

    def notices(self) -> list[str]:
        """Return the notices that have come, without waiting."""
        found = []
        while self._connection.can_read(timeout=0):
            kind, _channel, text = self._connection.read_response()
            if kind == b"message":
                found.append(text.decode(errors="replace"))
        return found

    def close(self) -> None:
        """Let go of the connection, without waiting for anything."""
        self._connection.disconnect()
