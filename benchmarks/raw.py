"""The raw limit: the same statements by plain sqlite3, with nothing around them.

The file is one that :class:`SqliteBackend` made, so tables and indexes are the same. Each batch is
one transaction: the reads that decide the claims, the rows, the newest slots of their jobs, the
counter of fences. All parameters are made before the clock starts.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leasecron.backends.rows import keys_of
from leasecron.backends.sqlite.batches import in_batches
from leasecron.backends.sqlite.claims import _STANDINGS
from leasecron.backends.sqlite.runs import _FIRST_ATTEMPTS, _MARKS, _OPEN_ROWS, _SET_NEXT_FENCE
from leasecron.clock import SystemClock
from leasecron.model import Claim, to_ms

_END = "UPDATE runs SET state = 'success', boot = '', lease_mono = 0 WHERE job = ? AND slot = ?"
_BOOT = SystemClock().boot_id()


_Statements = Sequence[tuple[str, Sequence[object]]]


@dataclass(frozen=True, slots=True)
class Batch:
    """The statements of one transaction, with their parameters."""

    reads: _Statements
    writes: _Statements


class RawStore:
    """A store's file, written to by plain sqlite3 with a write-ahead log and synchronous FULL."""

    def __init__(self, file: Path, *, reads: bool = True) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._fence = int(time.time() * 1000)
        self._reads = reads

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def durability(self) -> tuple[str, int]:
        """Return the journal mode, and synchronous as SQLite numbers it: 2 is FULL."""
        (journal,) = self._connection.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = self._connection.execute("PRAGMA synchronous").fetchone()
        return journal, synchronous

    def claim(self, claims: Sequence[Claim]) -> float:
        """Insert the rows of won claims in one transaction; return the seconds that it took."""
        batch = self._prepare(claims)
        execute = self._connection.execute
        began = time.perf_counter()
        execute("BEGIN IMMEDIATE")
        if self._reads:
            for text, values in batch.reads:
                execute(text, values).fetchall()
        for text, values in batch.writes:
            execute(text, values)
        execute("COMMIT")
        return time.perf_counter() - began

    def end(self, claims: Sequence[Claim]) -> None:
        """End the runs in one transaction, so that the next slots of their jobs are free."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_END, [(claim.job, to_ms(claim.slot)) for claim in claims])
        self._connection.execute("COMMIT")

    def _prepare(self, claims: Sequence[Claim]) -> Batch:
        wall, mono = int(time.time() * 1000), int(time.monotonic() * 1000)
        alike = (wall, wall, _BOOT, mono)
        first, self._fence = self._fence, self._fence + len(claims)
        keys = keys_of(claims)
        tokens = [claim.token for claim in claims]
        attempts = (
            *keys,
            tokens,
            range(first, self._fence),
            [claim.instance for claim in claims],
            [claim.trigger for claim in claims],
            [round(claim.lease * 1000) for claim in claims],
        )
        return Batch(
            [
                *in_batches(_STANDINGS, (range(len(claims)), *keys, tokens)),
                *in_batches(_OPEN_ROWS, [keys.jobs]),
                *in_batches(_MARKS, keys),
            ],
            [*in_batches(_FIRST_ATTEMPTS, attempts, alike), (_SET_NEXT_FENCE, (self._fence,))],
        )
