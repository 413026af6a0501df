"""The store of many processes: one SQLite file.

Each call is one short transaction, and everything that a plain read can answer takes no write lock.
On one host a lease survives steps of the wall clock and a suspend. On a filesystem that hosts may
share it works as far as that filesystem's locks do, and judges other hosts' leases by wall clocks.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Literal, TypeVar, get_args

from leasecron.backends.checks import Check
from leasecron.backends.holders import finish, heartbeat, release, retry
from leasecron.backends.modes import PRIVATE, check_mode
from leasecron.backends.rows import Moment, keys_of, unfinished_state
from leasecron.backends.sqlite.asked_for import add_runs, runs_asked_for, state_of, withdraw_runs
from leasecron.backends.sqlite.backfills import (
    advance_backfill,
    begin_backfill,
    cancel_backfill,
    newest_backfill,
    open_backfills,
    succeeded_slots,
)
from leasecron.backends.sqlite.checks import checks_of, not_said_by_open
from leasecron.backends.sqlite.claims import decide_claims, read_claims
from leasecron.backends.sqlite.connection import StoreConnection, Work
from leasecron.backends.sqlite.export import pages, sign_of_life
from leasecron.backends.sqlite.history import insert_owned_results, newest_results
from leasecron.backends.sqlite.jobs import all_jobs, declare_jobs, fix_instants
from leasecron.backends.sqlite.pauses import pause_job, pauses_of, resume_job
from leasecron.backends.sqlite.place import absolute
from leasecron.backends.sqlite.pruning import Pass, find_removals, remove
from leasecron.backends.sqlite.runs import (
    LoadedRuns,
    finish_owned,
    next_fence,
    unfinished_rows,
)
from leasecron.backends.sqlite.setup import Durability, Journal, Settings
from leasecron.backends.transfer import Page
from leasecron.clock import Clock
from leasecron.errors import ConfigurationError, shown
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

_Item = TypeVar("_Item", Claim, LeaseRef, Ending, Retry)
_Answer = TypeVar("_Answer")


class SqliteBackend:
    """A store with leases in a SQLite file.

    ``path`` is made absolute here; any name is a plain file name. The file is created when the
    store is opened, its folder never. ``durability="normal"`` is faster and may lose the last
    commits when the power fails, so that a finished run is run again; it holds with a write-ahead
    log only.
    ``journal="auto"`` is ``wal`` on a local filesystem, and ``delete`` on one that hosts may share.
    ``mode`` is what the file grants when it is made, whatever the umask: 0o660 shares it with its
    group. A file that is there keeps its own, and those beside it follow it. What root makes
    belongs to whom the file, or else its folder, belongs to. Wrong values raise ConfigurationError.
    """

    kind: Literal["lease"] = "lease"
    look_every = 1.0

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "full",
        journal: Journal = "auto",
        mode: int = PRIVATE,
    ) -> None:
        _check_option("durability", durability, get_args(Durability))
        _check_option("journal", journal, get_args(Journal))
        self.path = absolute(path)
        check_mode(mode, "SqliteBackend")
        self.settings = Settings(durability, journal, mode)
        self._store = StoreConnection(self.path, self.settings)
        self._warnings: tuple[str, ...] = ()
        self._pass = Pass()

    @property
    def description(self) -> str:
        return f"sqlite:///{self.path}"

    @property
    def is_missing(self) -> bool:
        """Whether there is no store yet in a folder that is there: opening it makes one.

        A file that may not be looked at is not missing: opening it says what is wrong.
        """
        real = os.path.realpath(self.path)
        try:
            return os.stat(real).st_size == 0
        except FileNotFoundError:
            return os.access(os.path.dirname(real), os.X_OK)
        except OSError:
            return False

    @property
    def warnings(self) -> Sequence[str]:
        return self._warnings

    @property
    def migrating(self) -> bool:
        """Whether ``open`` is bringing a store of an earlier version up to date, in any thread."""
        return self._store.migrating

    def checks(self) -> list[Check]:
        """Return what can be told quickly; what fails is a check too, and not raised."""
        return checks_of(self._store, self.settings)

    def open(self, clock: Clock | None = None) -> None:
        self._store.open(clock)
        # Looked at now and not when asked, which may be in another thread, beside the first calls.
        self._warnings = (*self._store.warnings, *not_said_by_open(self.checks()))

    def close(self) -> None:
        self._store.close()

    def suspend(self) -> None:
        self._store.suspend()

    def forget(self) -> None:
        self._store.forget()

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        if not claims:
            return []
        keys = keys_of(claims)
        with self._store.call() as store:
            seen = store.read(lambda c, now: read_claims(c, now, claims, keys))
            if seen.left:
                store.write(lambda c, now: decide_claims(c, now, claims, keys, seen))
            return [answer for answer in seen.answers if answer is not None]

    def heartbeat(self, leases: Sequence[LeaseRef]) -> list[HeartbeatAnswer]:
        return self._write(leases, lambda c, now: _hold(c, now, leases, heartbeat))

    def finish(self, endings: Sequence[Ending]) -> list[bool]:
        def work(connection: sqlite3.Connection, moment: Moment) -> list[bool]:
            if finish_owned(connection, endings, moment):
                return [True] * len(endings)
            return _hold(connection, moment, endings, finish)

        return self._write(endings, work)

    def release(self, endings: Sequence[Ending]) -> list[bool]:
        return self._write(endings, lambda c, now: _hold(c, now, endings, release))

    def unfinished(self, jobs: Sequence[str]) -> list[LeaseState]:
        return self._read(
            lambda c, now: [unfinished_state(row, now) for row in unfinished_rows(c, jobs)]
        )

    def retry(self, retries: Sequence[Retry]) -> list[bool]:
        return self._write(retries, lambda c, now: _hold(c, now, retries, retry))

    def add_runs(self, runs: Sequence[NewRun]) -> list[bool]:
        return self._write(runs, lambda c, now: add_runs(c, now, runs))

    def withdraw(self, runs: Sequence[NewRun]) -> list[bool]:
        return self._write(runs, lambda c, now: withdraw_runs(c, now, runs))

    def asked_for(self) -> list[LeaseState]:
        return self._read(runs_asked_for)

    def run_state(self, job: str, slot: datetime) -> RunState | None:
        return self._read(lambda c, now: state_of(c, now, job, slot))

    def add_backfill(self, backfill: NewBackfill) -> BackfillState:
        with self._store.call() as store:
            return store.write(lambda c, now: begin_backfill(c, now, backfill))

    def backfills(self) -> list[BackfillState]:
        return self._read(open_backfills)

    def backfill(self, job: str) -> BackfillState | None:
        return self._read(lambda c, now: newest_backfill(c, now, job))

    def succeeded(self, job: str, start: datetime, end: datetime) -> list[datetime]:
        return self._read(lambda c, now: succeeded_slots(c, now, job, start, end))

    def advance(self, asked: Advance) -> AdvanceAnswer:
        with self._store.call() as store:
            return store.write(lambda c, now: advance_backfill(c, now, asked))

    def cancel_backfill(self, job: str, asked_at: datetime) -> bool:
        with self._store.call() as store:
            return store.write(lambda c, now: cancel_backfill(c, now, job, asked_at))

    def fix(self, jobs: Sequence[OneOff]) -> list[datetime]:
        return self._write(jobs, lambda c, now: fix_instants(c, now, jobs))

    def pause(self, job: str, note: str) -> bool:
        with self._store.call() as store:
            return store.write(lambda c, now: pause_job(c, now, job, note))

    def resume(self, job: str) -> bool:
        with self._store.call() as store:
            return store.write(lambda c, now: resume_job(c, now, job))

    def pauses(self, job: str) -> list[Pause]:
        return self._read(lambda c, _now: pauses_of(c, job))

    def jobs(self) -> list[JobState]:
        return self._read(all_jobs)

    def declare(self, jobs: Sequence[Declaration]) -> list[datetime]:
        return self._write(jobs, lambda c, now: declare_jobs(c, now, jobs))

    def save_results(self, results: Sequence[RunResult]) -> None:
        if results:
            with self._store.call() as store:
                store.write(lambda c, _now: insert_owned_results(c, results))

    def history(
        self, job: str | None = None, *, limit: int = 100, before: RunResult | None = None
    ) -> list[RunResult]:
        return self._read(lambda c, _now: newest_results(c, job, limit, before))

    def prune(self, retentions: Sequence[Retention]) -> bool:
        """Go on with the pass over all that is old; True until it has come to its end.

        A pass that is shared, by schedulers of one process, may leave something to the next one.
        """
        if not retentions:
            return False
        with self._store.call() as store:
            found = store.read(lambda c, now: find_removals(c, now, retentions, self._pass))
            if not found.is_empty:
                store.write(lambda c, now: remove(c, now, retentions, found))
            self._pass = found.pass_ or Pass()
            return found.pass_ is not None

    def in_use(self) -> str | None:
        """Say by what an instance shows that it is alive here, if one does."""
        return self._read(sign_of_life)

    def next_fence(self) -> int:
        """Return a number above every fence that this store has given."""
        return self._read(lambda c, _now: next_fence(c))

    def pages(self) -> Iterator[Page]:
        """Yield all that is in the store, a bounded number of rows at a time."""
        return pages(self._store)

    def _read(self, work: Work[_Answer]) -> _Answer:
        with self._store.call() as store:
            return store.read(work)

    def _write(self, items: Sequence[object], work: Work[list[_Answer]]) -> list[_Answer]:
        if not items:
            return []
        with self._store.call() as store:
            return store.write(work)


def _hold(
    connection: sqlite3.Connection,
    moment: Moment,
    items: Sequence[_Item],
    act: Callable[[_Item, int, LoadedRuns, Moment], _Answer],
) -> list[_Answer]:
    table = LoadedRuns(connection, moment)
    keys = keys_of(items)
    table.load(keys)
    answers = [act(item, slot, table, moment) for item, slot in zip(items, keys.slots, strict=True)]
    table.flush()
    return answers


def _check_option(name: str, value: object, right: tuple[str, ...]) -> None:
    if value not in right:
        raise ConfigurationError(
            f"SqliteBackend: {name}={shown(value)} is wrong; right are "
            f"{' and '.join(map(repr, right))}"
        )
