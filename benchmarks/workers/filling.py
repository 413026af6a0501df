"""Fills a SQLite store with runs that ended days ago, and says when it is done.

The rows are such as runs leave, a minute apart for each job. Nothing waits for the disk meanwhile.
"""

from __future__ import annotations

import sqlite3

from benchmarks.workers import child
from benchmarks.workers.claims import now_ms
from leasecron.backends.rows import LEASE_ENDED
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.model import Declaration

_CHUNK = 100_000
_DAYS_AGO = 2
_DAY_MS = 24 * 3600 * 1000
_MINUTE_MS = 60_000
_NUMBERS = """
    WITH RECURSIVE numbers(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n < :last)
"""
_SLOT = f":begin + n / :jobs * {_MINUTE_MS}"
_RUNS = f"""
    INSERT INTO runs(
        job, slot, state, token, attempt, lost, fence, released_fence, instance, trigger,
        claimed_at, lease_until, boot, lease_mono
    ) {_NUMBERS} SELECT
        'job-' || (n % :jobs), {_SLOT}, 'success', lower(hex(randomblob(16))),
        1, 0, :fence + n, NULL,
        'host-' || (n % 7) || '-4711-abcd', 'scheduled', {_SLOT} + 120, {_SLOT} + 1120, :ended, 0
    FROM numbers
"""
_RESULTS = f"""
    INSERT INTO results(
        fence, job, slot, attempt, instance, trigger, status, started_at, ended_at, error
    ) {_NUMBERS} SELECT
        :fence + n, 'job-' || (n % :jobs), {_SLOT}, 1,
        'host-' || (n % 7) || '-4711-abcd', 'scheduled', 'success', {_SLOT} + 120, {_SLOT} + 1120,
        NULL
    FROM numbers
"""
_NEWEST = """
    UPDATE jobs SET newest = found.newest
    FROM (SELECT job, max(slot) AS newest FROM runs GROUP BY job) AS found WHERE name = found.job
"""
_FENCE = "SELECT value FROM meta WHERE key = 'next_fence'"
_NEXT_FENCE = "UPDATE meta SET value = value + ? WHERE key = 'next_fence'"


def main() -> None:
    """Make the store, declare its jobs and put the rows in."""
    given = child.arguments()
    backend = SqliteBackend(given["store"])
    backend.open()
    backend.declare([Declaration(f"job-{n}", "every 1m") for n in range(given["jobs"])])
    backend.close()
    if given["runs"]:
        _fill(given["store"], given["runs"], given["jobs"])
    child.say(filled=given["runs"])


def _fill(store: str, runs: int, jobs: int) -> None:
    connection = sqlite3.connect(store, isolation_level=None)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -200000")  # KiB: an index has a page for each job
    values = {
        "begin": now_ms() - _DAYS_AGO * _DAY_MS - runs // jobs * _MINUTE_MS,
        "jobs": jobs,
        "fence": connection.execute(_FENCE).fetchall()[0][0],
        "ended": LEASE_ENDED,
    }
    for first in range(0, runs, _CHUNK):
        bounds = {"first": first, "last": min(first + _CHUNK, runs) - 1}
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_RUNS, values | bounds)
        connection.execute(_RESULTS, values | bounds)
        connection.execute("COMMIT")
    connection.execute(_NEWEST)
    connection.execute(_NEXT_FENCE, (runs,))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


if __name__ == "__main__":
    main()
