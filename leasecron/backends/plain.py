"""Backends from elsewhere that have what a store with leases is about, and none of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from leasecron.backends.base import LeaseBackend
from leasecron.clock import Clock, SystemClock
from leasecron.errors import ConfigurationError
from leasecron.model import Declaration, Retention, from_seconds

REQUIRED = (
    "open",
    "close",
    "claim",
    "heartbeat",
    "finish",
    "release",
    "unfinished",
    "save_results",
    "history",
)
OPTIONAL = ("description", "warnings", "declare", "prune", "suspend", "forget")


class _Defaults:
    """What is done in place of a backend that leaves it out.

    Nothing is pruned, a job is first seen when this process first declares it, and a fork finds
    whatever the backend has open.
    """

    warnings: Sequence[str] = ()

    def __init__(self, description: str) -> None:
        self.description = description
        self.clock: Clock = SystemClock()
        self._first_seen: dict[str, datetime] = {}

    def declare(self, jobs: Sequence[Declaration]) -> list[datetime]:
        now = from_seconds(self.clock.wall())
        return [self._first_seen.setdefault(declared.job, now) for declared in jobs]

    def prune(self, _retentions: Sequence[Retention]) -> bool:
        return False

    def suspend(self) -> None:
        """Nothing is known of a connection."""

    def forget(self) -> None:
        """Nothing is known of a connection."""


class _Completed:
    """A backend, and the defaults for what it has not."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._defaults = _Defaults(repr(backend))

    def open(self, clock: Clock | None = None) -> None:
        if clock is not None:
            self._defaults.clock = clock
        self._backend.open(clock)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend if hasattr(self._backend, name) else self._defaults, name)


def complete(backend: object) -> LeaseBackend:
    """Return a backend with all that a scheduler uses.

    Raises :class:`ConfigurationError` for one that lacks what a store with leases is about.
    """
    missing = [name for name in REQUIRED if not callable(getattr(backend, name, None))]
    if missing:
        raise ConfigurationError(
            f"store {backend!r} is no store with leases: it has no {', '.join(missing)}"
        )
    if all(hasattr(backend, name) for name in OPTIONAL):
        return cast("LeaseBackend", backend)
    return cast("LeaseBackend", _Completed(backend))
