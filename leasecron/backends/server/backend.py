"""What the stores of servers have in common: how they are opened, looked at, heard and pruned.

Calls hand a batch to the server by the column, each a list of JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, Literal

from leasecron.backends.base import PRUNE_BATCH
from leasecron.backends.checks import Check
from leasecron.backends.rows import keys_of, milliseconds
from leasecron.backends.server.connection import ServerConnection, W
from leasecron.backends.server.protocols import Told
from leasecron.clock import Clock
from leasecron.errors import BackendError
from leasecron.model import (
    MAX_RECORDS,
    Claim,
    ClaimAnswer,
    LeaseRef,
    Retention,
    RunResult,
    from_ms,
    to_ms,
)

Columns = tuple[Sequence[Any], ...]

_JOBS_OF_A_PRUNE = 200
_LOOK_EVERY, _LOOK_EVERY_LISTENING = 1.0, 15.0
"""Seconds between two looks for runs that were put in; a notice can be lost with its connection."""
_LONGEST = 1e15
"""Milliseconds: JSON has no infinity, and scripts know numbers of that size without an error."""


class ServerBackend(ABC, Generic[W]):
    """A store with leases in a server, whose clock alone decides."""

    kind: Literal["lease"] = "lease"

    def __init__(self, server: ServerConnection[W]) -> None:
        self._server = server
        self._warnings: tuple[str, ...] = ()
        self._pruned = 0
        self._hearers: list[Told] = []

    @abstractmethod
    def _checks(self, wire: W) -> list[Check]:
        """Ask the server about itself."""

    @abstractmethod
    def _prune(self, columns: Columns, most_records: int, room: int) -> bool:
        """Remove what need not be kept of some jobs; True where some is left."""

    @abstractmethod
    def _notices(self) -> Iterable[str]:
        """Return what others have told of: slots, a space, and jobs."""

    @property
    def description(self) -> str:
        return self._server.description

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.description!r})"

    @property
    def warnings(self) -> Sequence[str]:
        return self._warnings

    def checks(self) -> list[Check]:
        """Return what can be told quickly; that it does not answer is a check too."""
        try:
            with self._server.usable() as wire:
                return self._checks(wire)
        except BackendError as error:
            return [Check("server", "bad", "does not answer", str(error))]

    def open(self, clock: Clock | None = None) -> None:  # noqa: ARG002 - the server's decides
        self._server.open()
        found = self.checks()
        self._warnings = tuple(check.reason for check in found if check.verdict != "good")

    def close(self) -> None:
        self._server.close()

    def suspend(self) -> None:
        self._server.suspend()

    def forget(self) -> None:
        self._server.forget()
        self._hearers = []

    def listening(self) -> int | None:
        """Return a descriptor that can be read once a run was given back, where one listens."""
        return self._server.listening()

    @property
    def look_every(self) -> float:
        """Seconds after which to ask again for runs that were put in."""
        return _LOOK_EVERY if self.listening() is None else _LOOK_EVERY_LISTENING

    def hear(self, told: Told) -> None:
        """Have ``told`` called with each run that others give back, whoever passes it on."""
        self._hearers.append(told)

    def hear_no_more(self, told: Told) -> None:
        """Undo ``hear``; harmless where that was not done."""
        if told in self._hearers:
            self._hearers.remove(told)

    def pass_on(self) -> None:
        """Tell all who hear of the runs that others have given back, without waiting for any."""
        for notice in self._notices():
            text, _, job = notice.partition(" ")
            try:
                slot = from_ms(int(text))
            except (ValueError, OverflowError):  # anybody may say anything on a channel
                continue
            self._tell(job, slot)

    def _tell(self, job: str, slot: datetime) -> None:
        """Tell all who hear in this process of a run that can be taken over."""
        for told in [*self._hearers]:
            told(job, slot)

    def prune(self, retentions: Sequence[Retention]) -> bool:
        """Go on with the pass over all that is old; True until it has come to its end.

        A pass that is shared, by schedulers of one process, may leave something to the next one.
        """
        asked = retentions[self._pruned : self._pruned + _JOBS_OF_A_PRUNE]
        columns = (
            [each.job for each in asked],
            [_bounded(each.runs) for each in asked],
            [each.records for each in asked],
            [_bounded(each.age) for each in asked],
        )
        if asked and self._prune(columns, MAX_RECORDS, PRUNE_BATCH):
            return True
        self._pruned += len(asked)
        if self._pruned < len(retentions):
            return True
        self._pruned = 0
        return False


def columns_of_claims(claims: Sequence[Claim]) -> Columns:
    """Return all that a claim says."""
    return (
        *keys_of(claims),
        [claim.token for claim in claims],
        [claim.instance for claim in claims],
        [milliseconds(claim.lease) for claim in claims],
        [claim.overlap for claim in claims],
        [claim.max_attempts for claim in claims],
        [_bounded(claim.max_late) for claim in claims],
        [claim.mode for claim in claims],
        [claim.trigger for claim in claims],
        [claim.pause_on_failure for claim in claims],
    )


def early(claim: Claim, now: int) -> ClaimAnswer:
    """Return the answer to a claim of a slot that is still to come at a time of the server's."""
    return ClaimAnswer("early", wait=(to_ms(claim.slot) - now) / 1000)


def columns_of_leases(leases: Sequence[LeaseRef]) -> Columns:
    """Return all that a heartbeat says."""
    tokens = [each.token for each in leases]
    return (*keys_of(leases), tokens, [milliseconds(each.lease) for each in leases])


def result_of(values: Iterable[Any], retries: int = 0) -> RunResult:
    """Return a record as it was kept: by its columns, with instants in milliseconds."""
    fence, job, slot, attempt, instance, trigger, status, started_at, ended_at, error = values
    return RunResult(
        job,
        from_ms(slot),
        attempt,
        fence,
        instance,
        trigger,
        status,
        from_ms(started_at),
        from_ms(ended_at),
        max(0, ended_at - started_at) / 1000,
        error,
        retries,
    )


@lru_cache(maxsize=64)  # as many lengths as jobs have options
def _bounded(seconds: float) -> float:
    return max(-_LONGEST, min(_LONGEST, seconds * 1000))
