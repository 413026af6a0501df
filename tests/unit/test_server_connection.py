"""The connection that the store of a server has in a process, with servers that are made up."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from leasecron.backends.server.connection import ServerConnection

DESCRIPTOR = 7


class Line:
    """A connection that has no descriptor any more once it is closed, as drivers have it."""

    is_closed = False

    @property
    def descriptor(self) -> int:
        if self.is_closed:
            raise OSError("the connection is closed")
        return DESCRIPTOR

    def close(self) -> None:
        self.is_closed = True


class Connection(ServerConnection[Line]):
    def _connected(self) -> Line:
        return Line()

    def _new_listener(self) -> Line:
        return Line()

    def _translated(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _is_gone(self, error: BaseException) -> bool:
        return isinstance(error, OSError)

    def _heard(self, listener: Line) -> list[str]:
        return []


def test_a_listener_that_another_thread_is_closing_has_its_descriptor_to_the_end() -> None:
    connection = Connection("made://up")
    assert connection.listening() is None
    connection.open()
    assert connection._listener is not None

    connection._listener.close()
    assert connection.listening() == DESCRIPTOR
    connection.close()
    assert connection.listening() is None
