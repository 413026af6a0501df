"""What the stores in a server have beside what every store has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol, TypeGuard, runtime_checkable

from leasecron.backends.checks import Check


@runtime_checkable
class ServerStore(Protocol):
    """A store that need not be open to be looked at, by a connection of its own."""

    @property
    def description(self) -> str:
        """Name the store, without any password."""

    def examine(self) -> Sequence[Check]:
        """Look at the server and the store, and change nothing; what is wrong is an answer."""


Told = Callable[[str, datetime], None]
"""Takes the job and the slot of a run that can be begun or taken over, from whichever thread."""


class Telling(Protocol):
    """A store that tells at once of runs that were given back or asked for."""

    def hear(self, told: Told) -> None:
        """Have ``told`` called with each run that others give back or ask for."""

    def hear_no_more(self, told: Told) -> None:
        """Undo :meth:`hear`; harmless where that was not done."""


class Notifying(Telling, Protocol):
    """A store that hears from others of such runs, and passes it on; for store threads only."""

    def listening(self) -> int | None:
        """Return a descriptor that can be read once there is something to be told, if there is one.

        It may be another one after each call of the store.
        """

    def pass_on(self) -> None:
        """Tell all who hear of what has come, without waiting for more.

        Several schedulers of a process may share the store, and any of them has the notices of all.
        """


def tells(backend: object) -> TypeGuard[Telling]:
    """Say whether a store is :class:`Telling`.

    Its methods are looked for by name: one that is wrapped has them by way of ``__getattr__``,
    which ``isinstance`` does not ask from Python 3.12 on.
    """
    return hasattr(backend, "hear") and hasattr(backend, "hear_no_more")


def notifies(backend: object) -> TypeGuard[Notifying]:
    """Say whether a store is :class:`Notifying`."""
    return tells(backend) and hasattr(backend, "listening") and hasattr(backend, "pass_on")


@runtime_checkable
class Prepared(Protocol):
    """A store that somebody with more rights may have to make."""

    def script(self) -> str:
        """Return what makes the store, for the server's own tools."""
