"""What a store must offer. Every method takes a sequence and is one transaction.

A backend starts no thread, emits no event and logs nothing. A driver's error leaves it as
:class:`BackendUnavailable` (transient) or :class:`BackendError`, with the driver's own as
``__cause__``. An answer such as ``lost`` or False means that the token no longer owns the run: an
outcome, not an error. "Now" is read once, after the write lock is held.

A backend from elsewhere may leave out ``description``, ``warnings``, ``checks``, ``declare``,
``prune``, ``suspend`` and ``forget``; :mod:`leasecron.backends.plain` says what that means.

One backend object may serve several schedulers of one process: calls are locked, and ``open`` and
``close`` are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from leasecron.backends.checks import Check
from leasecron.clock import Clock
from leasecron.errors import BackendUnavailable
from leasecron.model import (
    Advance,
    AdvanceAnswer,
    BackfillState,
    Claim,
    ClaimAnswer,
    Declaration,
    Ending,
    HeartbeatAnswer,
    JobState,
    LeaseRef,
    LeaseState,
    NewBackfill,
    NewRun,
    OneOff,
    Pause,
    Retention,
    Retry,
    RunResult,
    RunState,
)

PRUNE_BATCH = 1000
"""Rows that one ``prune`` removes at most, so that no transaction is long."""


class OneUnavailable(BackendUnavailable):
    """One item of a call met a fault of its own, while the store as a whole can be used.

    The store thread asks for each item alone, and for the one that fails again later.
    """


class StoreEmptied(BackendUnavailable):
    """A store that was there has lost all that it knew, and begins anew at the next call."""


class Backend(Protocol):
    """What both kinds of store have."""

    @property
    def kind(self) -> Literal["lease", "claim-only"]:
        """What the scheduler chooses its runner by."""

    @property
    def description(self) -> str:
        """Name the store for log lines and errors: its kind and absolute place."""

    @property
    def warnings(self) -> Sequence[str]:
        """What ``open`` found that the user should know; logged once at ``start()``.

        It says too why :meth:`checks` are not good, where opening has not said so already.
        """

    def checks(self) -> Sequence[Check]:
        """Look at the open store for less than 100 ms in all, and change nothing.

        What is wrong with it is an answer, and not raised.
        """

    def open(self, clock: Clock | None = None) -> None:
        """Make the store usable; raise where it is not."""

    def close(self) -> None:
        """Undo one ``open``; the last one lets go of the store. Harmless when not open."""

    def suspend(self) -> None:
        """Let go of all that a fork could harm; the next call takes it up again by itself.

        For the moment before a fork. The store stays open, and is never created anew.
        """

    def forget(self) -> None:
        """Be unopened again, in a child that was forked while the store was suspended.

        A child of a process that did not suspend it can never use it: every call there, ``open``
        included, raises :class:`SchedulerStateError`.
        """

    def declare(self, jobs: Sequence[Declaration]) -> list[datetime]:
        """Note that the jobs exist; return when each was first seen in this store."""

    def save_results(self, results: Sequence[RunResult]) -> None:
        """Add records to the history; a second time without effect."""

    def history(
        self, job: str | None = None, *, limit: int = 100, before: RunResult | None = None
    ) -> list[RunResult]:
        """Return records, newest first; with ``before`` only those that come after it there."""

    def prune(self, retentions: Sequence[Retention]) -> bool:
        """Remove what need not be kept, a bounded number of rows; True when some are left."""


class ClaimOnlyBackend(Backend, Protocol):
    """A store that knows who won a slot, and nothing of leases."""

    @property
    def kind(self) -> Literal["claim-only"]:
        """What the scheduler chooses its runner by."""

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        """Answer each claim with ``won``, ``done``, ``late`` or ``early``.

        A claim in mode takeover wins nothing that is free: it asks whether its own token has won.
        """


class LeaseBackend(Backend, Protocol):
    """A store with leases: claims run out, are renewed, and are taken over."""

    @property
    def kind(self) -> Literal["lease"]:
        """What the scheduler chooses its runner by."""

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        """Decide each claim by the claim table; see :mod:`leasecron.backends.claims`.

        A store with a clock of its own answers ``early``, and when to ask again, to a claim in mode
        claim whose run nobody has begun and whose slot is more than a second ahead of that clock.
        """

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        """Renew leases that are alive and still have their token. One that is over is lost."""

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        """Record the end of runs; False where the token no longer owns the run."""

    def release(self, endings: Sequence[Ending]) -> list[bool]:
        """Give runs back so that a backup can make the next attempt at once."""

    def unfinished(self, jobs: Sequence[str]) -> list[LeaseState]:
        """Return the runs of these jobs that have not ended, oldest slot first."""


class ControlBackend(LeaseBackend, Protocol):
    """A store with leases in which runs are also retried and asked for, and jobs paused."""

    @property
    def look_every(self) -> float | None:
        """Seconds after which to call :meth:`asked_for` again; None: whoever hears is told of all.

        Other processes tell of nothing, or may fail to.
        """

    def retry(self, retries: Sequence[Retry]) -> list[bool]:
        """Keep how often runs are tried again; False where the lease is over or another's."""

    def add_runs(self, runs: Sequence[NewRun]) -> list[bool]:
        """Put in runs that nobody has begun; False where there is another run at that slot.

        Repeated, it has no effect and says the same.
        """

    def withdraw(self, runs: Sequence[NewRun]) -> list[bool]:
        """Take back runs that were put in; False where one has been begun or is not there."""

    def asked_for(self) -> list[LeaseState]:
        """Return the runs that were put in and have not ended, of all jobs, oldest slot first.

        Asked every second or so, and so quick where nothing has changed.
        """

    def run_state(self, job: str, slot: datetime) -> RunState | None:
        """Return how a run stands, or None where the store does not know it."""

    def add_backfill(self, backfill: NewBackfill) -> BackfillState:
        """Begin a backfill unless one of the job goes on; return the one that goes on then.

        Whoever hears is told of it, by its start.
        """

    def backfills(self) -> list[BackfillState]:
        """Return the backfills that go on, by job; as quickly as :meth:`asked_for`."""

    def backfill(self, job: str) -> BackfillState | None:
        """Return the newest backfill of a job, whether it goes on or not."""

    def succeeded(self, job: str, start: datetime, end: datetime) -> list[datetime]:
        """Return the slots in ``start <= slot < end`` that succeeded, as far as that is known."""

    def advance(self, asked: Advance) -> AdvanceAnswer:
        """Go on with a backfill; see :mod:`leasecron.backends.backfills`."""

    def cancel_backfill(self, job: str, asked_at: datetime) -> bool:
        """End the backfill that was asked for then; a live run of it goes on.

        False where it does not go on, also if a later one does.
        """

    def fix(self, jobs: Sequence[OneOff]) -> list[datetime]:
        """Return the instant of each job, which is the one that was given first."""

    def pause(self, job: str, note: str) -> bool:
        """Let no claim of the job win from now on; False where the store does not know the job.

        A job that is paused keeps its pause as it is.
        """

    def resume(self, job: str) -> bool:
        """End a pause, if there is one; False where the store does not know the job."""

    def pauses(self, job: str) -> list[Pause]:
        """Return what the store knows of a job's pauses, newest first."""

    def jobs(self) -> list[JobState]:
        """Return the jobs that were ever declared, by name."""
