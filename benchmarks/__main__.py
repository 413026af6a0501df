"""Claims and whole runs per second, beside plain sqlite3 in the same run; and the import.

    python -m benchmarks

Prints the median and the spread of five rounds after one for warm-up. Ratios can be compared
between machines; the figures themselves are this disk's and this processor's.
"""

from __future__ import annotations

import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from leasecron import Scheduler
from leasecron.backends.sqlite import SqliteBackend
from leasecron.clock import SystemClock
from leasecron.model import Claim, from_seconds, to_ms

ROUNDS = 5
CLAIMS = 5_000
BATCH = 1_000
JOBS = 5_000
STANDARD = "contextvars, dataclasses, inspect, json, logging, queue, sqlite3, typing, zoneinfo"
"""The parts of the standard library that the package needs."""


def raw_claims(folder: Path) -> float:
    """Insert rows of the same shape with plain sqlite3, a transaction a batch."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE runs (job TEXT, slot INTEGER, state TEXT, token TEXT, attempt INTEGER,"
        " lost INTEGER, fence INTEGER, released_fence INTEGER, instance TEXT, trigger TEXT,"
        " claimed_at INTEGER, lease_until INTEGER, boot TEXT, lease_mono INTEGER,"
        " PRIMARY KEY (job, slot))"
    )
    slot = to_ms(datetime.now(UTC))
    lease = (slot, slot + 20_000, "boot", slot)
    started = time.perf_counter()
    for first in range(0, CLAIMS, BATCH):
        rows = [
            (f"job-{number}", slot, "claimed", "0" * 32, 1, 0, number, None, "a", "cron", *lease)
            for number in range(first, first + BATCH)
        ]
        connection.execute("BEGIN IMMEDIATE")
        for row in rows:
            connection.execute("SELECT 1 FROM runs WHERE job = ? AND slot = ?", row[:2]).fetchall()
        connection.executemany(f"INSERT INTO runs VALUES ({','.join('?' * 14)})", rows)
        connection.execute("COMMIT")
    elapsed = time.perf_counter() - started
    connection.close()
    return CLAIMS / elapsed


def backend_claims(folder: Path) -> float:
    """Make the same claims through the backend."""
    backend = SqliteBackend(folder / "claims.db")
    backend.open()
    slot = from_seconds(time.time())
    claims = [
        Claim(f"job-{number}", slot, f"{number:032}", "a", 20.0, "skip", 3, 300.0)
        for number in range(CLAIMS)
    ]
    started = time.perf_counter()
    for first in range(0, CLAIMS, BATCH):
        answers = backend.claim(claims[first : first + BATCH])
        assert all(answer.outcome == "won" for answer in answers)
    elapsed = time.perf_counter() - started
    backend.close()
    return CLAIMS / elapsed


def whole_runs(folder: Path) -> float:
    """Run empty handlers that are all due at one slot: claim, thread, finish, history."""
    clock = SystemClock()
    ended = clock.waker()
    scheduler = Scheduler(folder / "runs.db", max_running=1000, clock=clock)
    scheduler.on("success", lambda event: ended.put(event.at))
    for number in range(JOBS):
        scheduler.every(f"job-{number}", "1h", _nothing, jitter=0, catch_up="2h", max_late="2h")
    started = time.perf_counter()
    scheduler.start()  # the slot at the last full hour is caught up by all of them
    for _ in range(JOBS):
        ended.get(60)
    elapsed = time.perf_counter() - started
    scheduler.stop()
    return JOBS / elapsed


def imports(modules: str) -> float:
    """Return the imports per second of processor time that a new interpreter would make."""
    code = f"import time; began = time.process_time(); import {modules};"
    code += " print(time.process_time() - began)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return 1 / float(done.stdout)


def _nothing() -> None:
    """An empty handler."""


def measure(name: str, benchmark: Callable[[Path], float]) -> float:
    """Print median and spread of a rate, and return the median."""
    rates = []
    for _ in range(ROUNDS + 1):
        with tempfile.TemporaryDirectory() as folder:
            rates.append(benchmark(Path(folder)))
    rates = rates[1:]
    median = statistics.median(rates)
    print(f"{name:<42} {median:>10,.0f}/s  ({min(rates):,.0f} to {max(rates):,.0f})")
    return median


def main() -> None:
    """Measure and print everything."""
    began = datetime.now(UTC)
    raw = measure(f"plain sqlite3, batches of {BATCH}", raw_claims)
    claims = measure(f"SqliteBackend.claim, batches of {BATCH}", backend_claims)
    runs = measure(f"whole runs, {JOBS} due at one slot", whole_runs)
    print(f"claims: {claims / raw:.0%} of plain sqlite3; whole runs: {runs / raw:.0%}")
    standard = measure("import of what the package needs", lambda _: imports(STANDARD))
    package = measure("import of the package", lambda _: imports("leasecron"))
    print(f"import: {standard / package:.1f} times as long as what it needs")
    print(f"took {(datetime.now(UTC) - began) / timedelta(seconds=1):.0f} s")


if __name__ == "__main__":
    main()
