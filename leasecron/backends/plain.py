"""Backends from elsewhere that have what a store is about, and none of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from leasecron.backends.base import Backend
from leasecron.backends.checks import Check
from leasecron.clock import Clock, SystemClock
from leasecron.errors import ConfigurationError, shown
from leasecron.model import Declaration, Retention, from_seconds

_CLAIM_ONLY = ("open", "close", "claim", "save_results", "history")
_LEASE = ("heartbeat", "finish", "release", "unfinished")
REQUIRED = {"claim-only": _CLAIM_ONLY, "lease": (*_CLAIM_ONLY, *_LEASE)}
CONTROL = (
    "retry",
    "add_runs",
    "withdraw",
    "asked_for",
    "run_state",
    "add_backfill",
    "backfills",
    "backfill",
    "succeeded",
    "advance",
    "cancel_backfill",
    "fix",
    "pause",
    "resume",
    "pauses",
    "jobs",
    "look_every",
)
OPTIONAL = ("description", "warnings", "checks", "declare", "prune", "suspend", "forget")


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

    def checks(self) -> Sequence[Check]:
        return []

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


def has_control(backend: Backend) -> bool:
    """Say whether runs in this store can be retried and asked for, and jobs paused."""
    return backend.kind == "lease" and all(hasattr(backend, name) for name in CONTROL)


def check_control(backend: Backend, what: str) -> None:
    """Raise :class:`ConfigurationError`, beginning with ``what``, for a store without control."""
    if not has_control(backend):
        raise ConfigurationError(
            f"{what} needs a store such as sqlite:////path/to/file.db, postgresql://host/database,"
            f" redis://host/number or memory://; {backend.description} cannot do it"
        )


def complete(backend: object, kind: str) -> Backend:
    """Return a backend of this kind with all that a scheduler uses.

    Raises :class:`ConfigurationError` for one that lacks what a store of its kind is about.
    """
    missing = [name for name in REQUIRED[kind] if not callable(getattr(backend, name, None))]
    if missing:
        raise ConfigurationError(
            f"store {shown(backend)} is no {kind} store: it has no {', '.join(missing)}"
        )
    if all(hasattr(backend, name) for name in OPTIONAL):
        return cast("Backend", backend)
    return cast("Backend", _Completed(backend))
