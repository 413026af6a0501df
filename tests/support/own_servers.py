"""What befalls a server of a test's own, of whichever kind."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class AnyServer(Protocol):
    """A server that a test has alone."""

    url: str

    def start(self) -> None:
        """Start it again, and return once it lets somebody in."""

    def stop(self) -> None:
        """Shut it down as an administrator does."""

    def kill(self) -> None:
        """Let it die without a word."""

    def suspend(self) -> None:
        """Stop it; its connections stay as they are."""

    def resume(self) -> None:
        """Let it go on."""

    def frozen(self) -> AbstractContextManager[None]:
        """Stop it for a while."""
