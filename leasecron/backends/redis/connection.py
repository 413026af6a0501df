"""The connection of a Redis store: to which server, and what is found out about it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from redis import exceptions

from leasecron.backends.redis.errors import Emptied, leaves_unknown, translated
from leasecron.backends.redis.scripts import OLDER, VERSION, Script, keys_of, script
from leasecron.backends.redis.urls import CALL, Address, Node
from leasecron.backends.redis.wire import Wire
from leasecron.backends.server.connection import ServerConnection
from leasecron.errors import BackendError, BackendMismatch, BackendUnavailable

OLDEST = 6
"""The oldest server whose scripts are enough."""

_REDIRECTIONS = 3


class RedisConnection(ServerConnection[Wire]):
    """The server of a URL, or in a cluster the node that has the store.

    A cluster keeps all of a store at one node. Whoever is asked first names it; if it falls, its
    neighbours know who has taken its place.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address.description)
        self.keys = keys_of(address.prefix)
        self.script_of: Callable[[str], Script] = script
        self._address = address
        self._node: Node | None = None
        self._nodes: Sequence[Node] = ()

    def run(self, operation: str, payload: str) -> Any:
        """Execute the script of an operation."""
        with self.usable() as wire:
            return wire.run(self.script_of(operation), self.keys, VERSION, payload.encode())

    def _heard(self, listener: Wire) -> list[str]:
        return listener.notices()

    def _new_listener(self) -> Wire | None:
        if not self._address.listens:
            return None
        listener = Wire(self._address, self._node)
        try:
            listener.listen(self.keys[0])
        except BaseException:
            listener.close()
            raise
        return listener

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self.description, lambda: self._times > 0)

    def _is_gone(self, error: BaseException) -> bool:
        return leaves_unknown(error)

    def _connected(self) -> Wire:
        deadline = time.monotonic() + CALL
        failed: Exception | None = None
        for node in dict.fromkeys((self._node, None, *self._nodes)):
            try:
                return self._connected_to(node)
            except exceptions.AuthenticationError:
                raise
            except (exceptions.ConnectionError, exceptions.TimeoutError) as error:
                failed = failed or error
            if time.monotonic() >= deadline:
                break
        assert failed is not None
        raise failed

    def _connected_to(self, node: Node | None) -> Wire:
        """Connect to a node, or else to the one that it names."""
        for _ in range(_REDIRECTIONS):
            wire = Wire(self._address, node)
            try:
                self._make_ready(wire)
            except exceptions.MovedError as error:
                wire.close()
                node = (error.host or self._host_of(node), error.port)
            except BaseException:
                wire.close()
                raise
            else:
                self._node = node
                return wire
        raise BackendUnavailable(f"the nodes of the store {self.description} do not agree on it")

    def _host_of(self, node: Node | None) -> str:
        return node[0] if node else str(self._address.options.get("host", "localhost"))

    def _make_ready(self, wire: Wire) -> None:
        found = wire.info()
        is_clustered = found.get("cluster_enabled") == "1"
        if found.get("role") == "slave" and not is_clustered:
            text = f"the store {self.description} can only be read: its server is a replica"
            raise BackendUnavailable(text) if self._times else BackendError(text)
        version = found.get("redis_version", "")
        number = re.match("[0-9]+", version)
        if number and int(number[0]) < OLDEST:
            raise BackendError(
                f"the store {self.description} needs Redis {OLDEST} or newer, or Valkey, and the"
                f" server is of version {version}"
            )
        self._prepare(wire)
        if is_clustered:
            self._nodes = wire.nodes()

    def _prepare(self, wire: Wire) -> None:
        try:
            answer = wire.run(self.script_of("ready"), self.keys, VERSION, *OLDER)
        except exceptions.ReadOnlyError as error:
            if self._times:
                raise
            text = f"the store {self.description} can only be read: {error}"
            raise BackendError(text) from error
        found, is_new = answer[0].decode(errors="replace"), answer[1]
        if found != str(VERSION):
            raise BackendMismatch(
                f"the store {self.description} was made by another version of leasecron (layout"
                f" {found}, this one knows {VERSION}): update leasecron here too"
            )
        if is_new and self._times:
            raise Emptied(self.description)
