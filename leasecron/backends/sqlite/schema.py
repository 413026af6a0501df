"""The tables of a SQLite store, their versions, and how a file is recognised as ours.

``PRAGMA application_id`` says whose the file is and ``PRAGMA user_version`` how new its schema is;
both are read at every open. sqlite-utils brings an older store up to date, and is not even imported
for another one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial

from leasecron.errors import BackendMismatch

APPLICATION_ID = 0x6C656173

# Said word for word by the index and by the queries: otherwise SQLite does not use the index.
OPEN = "(state IN ('claimed', 'released') OR boot IS NOT '')"
ASKED_FOR = "(origin <> 'scheduled' AND state IN ('claimed', 'released'))"

# The rule of rows.replaces.
REPLACES = "attempt > 0 AND origin = 'scheduled'"
_MAY_BE_NEWEST = "(new.attempt > 0 AND new.origin = 'scheduled' OR new.origin = 'backfill')"

Change = Callable[[sqlite3.Connection, int], None]


def _create(connection: sqlite3.Connection, now: int) -> None:
    for statement in (_RUNS_BY_JOB, _RUNS_OPEN, *_OTHERS):
        connection.execute(statement)
    # Fences begin at the time of creation so that they rise across stores as well.
    connection.execute("INSERT INTO meta(key, value) VALUES ('next_fence', ?)", (now,))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _key_by_slot(connection: sqlite3.Connection, now: int) -> None:
    """Reverse the key of ``runs``, and note the newest slot of each job.

    By ``(job, slot)`` each row of a batch went to a page of its own, that of its job. By
    ``(slot, job)`` new rows go to the end, and a batch makes as many pages dirty in a store of
    millions of rows as in an empty one. All rows are copied: up to ten seconds for each million,
    in which whoever opens the store is told that it is being set up, and a log as large as they.
    """
    connection.execute("ALTER TABLE jobs ADD COLUMN newest INTEGER")
    connection.execute(_NOTE_NEWEST, (now, now))
    connection.execute("DROP INDEX runs_open")
    connection.execute("ALTER TABLE runs RENAME TO old_runs")
    connection.execute(_RUNS_BY_SLOT)
    connection.execute("INSERT INTO runs SELECT * FROM old_runs ORDER BY rowid")
    connection.execute("DROP TABLE old_runs")
    connection.execute(_RUNS_OPEN)
    connection.execute(_KEEP_NEWEST)


def _add_control(connection: sqlite3.Connection, _now: int) -> None:
    """Add what retries, pauses, backfills, runs that are asked for and slots that wait need.

    No row is written: one that is without the new columns has what they begin with. All are read
    for the index, up to two seconds for each million. ``paused_until`` of a job is the newest end
    of its pauses, the largest integer while it is paused, and NULL where it never was: so a claim
    sees by the row that it looks at anyway whether pauses matter to it.
    """
    for statement in _CONTROL:
        connection.execute(statement)


_COLUMNS_OF_RUNS = """
        job TEXT NOT NULL,
        slot INTEGER NOT NULL,
        state TEXT NOT NULL,
        token TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        lost INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        released_fence INTEGER,
        instance TEXT NOT NULL,
        trigger TEXT NOT NULL,
        claimed_at INTEGER NOT NULL,
        lease_until INTEGER NOT NULL,
        boot TEXT,
        lease_mono INTEGER NOT NULL,
"""
_RUNS_BY_JOB = f"CREATE TABLE runs ({_COLUMNS_OF_RUNS} PRIMARY KEY (job, slot))"
# It is no WITHOUT ROWID table: pruning walks over its key, which is smaller than the rows.
_RUNS_BY_SLOT = f"CREATE TABLE runs ({_COLUMNS_OF_RUNS} PRIMARY KEY (slot, job))"
_RUNS_OPEN = f"CREATE INDEX runs_open ON runs(job, slot) WHERE {OPEN}"
_OTHERS = (
    """
    CREATE TABLE results (
        fence INTEGER PRIMARY KEY,
        job TEXT NOT NULL,
        slot INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        instance TEXT NOT NULL,
        trigger TEXT NOT NULL,
        status TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        ended_at INTEGER NOT NULL,
        error TEXT
    )
    """,
    "CREATE INDEX results_job ON results(job, fence)",
    """
    CREATE TABLE jobs (
        name TEXT PRIMARY KEY,
        schedule TEXT NOT NULL,
        first_seen INTEGER NOT NULL,
        last_seen INTEGER NOT NULL,
        pruned INTEGER
    )
    """,
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    "CREATE TABLE hosts (host TEXT PRIMARY KEY, boot TEXT, seen INTEGER NOT NULL)",
)
_NOTE_NEWEST = """
    INSERT INTO jobs(name, schedule, first_seen, last_seen, newest)
    SELECT job, '', ?, ?, max(slot) FROM runs GROUP BY job
    ON CONFLICT (name) DO UPDATE SET newest = excluded.newest
"""
_SET_NEWEST = """
        INSERT INTO jobs(name, schedule, first_seen, last_seen, newest)
        VALUES (new.job, '', new.claimed_at, new.claimed_at, new.slot)
        ON CONFLICT (name) DO UPDATE SET newest = excluded.newest
        WHERE newest IS NULL OR newest < excluded.newest;
"""
# In the file and not in the program: an instance of the version before goes on claiming.
_KEEP_NEWEST = f"CREATE TRIGGER runs_newest AFTER INSERT ON runs BEGIN {_SET_NEWEST} END"
_CONTROL = (
    "ALTER TABLE runs ADD COLUMN retries INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN origin TEXT NOT NULL DEFAULT 'scheduled'",
    "ALTER TABLE runs ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE results ADD COLUMN retries INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE jobs ADD COLUMN paused_until INTEGER",
    "ALTER TABLE jobs ADD COLUMN once_at INTEGER",
    """
    CREATE TABLE backfills (
        job TEXT PRIMARY KEY,
        since INTEGER NOT NULL,
        until INTEGER NOT NULL,
        total INTEGER NOT NULL,
        instance TEXT NOT NULL,
        asked_at INTEGER NOT NULL,
        cursor INTEGER,
        succeeded INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        ended_at INTEGER
    ) WITHOUT ROWID
    """,
    "CREATE INDEX backfills_open ON backfills(job) WHERE ended_at IS NULL",
    """
    CREATE TABLE pauses (
        job TEXT NOT NULL,
        paused_at INTEGER NOT NULL,
        resumed_at INTEGER,
        note TEXT NOT NULL,
        PRIMARY KEY (job, paused_at)
    ) WITHOUT ROWID
    """,
    f"CREATE INDEX runs_asked_for ON runs(slot, job) WHERE {ASKED_FOR}",
    "DROP TRIGGER runs_newest",
    f"""
    CREATE TRIGGER runs_newest AFTER INSERT ON runs
    WHEN {_MAY_BE_NEWEST} BEGIN {_SET_NEWEST} END
    """,
    # A slot that waited is begun by an instance of the version before, too.
    f"""
    CREATE TRIGGER runs_begun AFTER UPDATE OF attempt ON runs
    WHEN old.attempt = 0 AND new.attempt > 0 AND new.origin = 'scheduled' BEGIN {_SET_NEWEST} END
    """,
)

CHANGES: Sequence[Change] = (_create, _key_by_slot, _add_control)
"""Entry n leads from version n to version n + 1."""


def is_current(connection: sqlite3.Connection, path: str) -> bool:
    """Say whether the schema needs no change; raise BackendMismatch for a file that is not ours."""
    version = schema_version(connection, path)
    if version > len(CHANGES):
        raise BackendMismatch(
            f"the store {path} was made by a newer leasecron (schema {version}, this one knows "
            f"{len(CHANGES)}): update leasecron here too"
        )
    return version == len(CHANGES)


def schema_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of the schema, 0 for an empty database."""
    # In this order, what another process commits in between cannot look like a foreign file.
    tables = _number(connection, "SELECT count(*) FROM sqlite_master")
    version = _number(connection, "PRAGMA user_version")
    application = _number(connection, "PRAGMA application_id")
    if application == APPLICATION_ID:
        return version
    if application or version or tables:
        raise BackendMismatch(
            f"the file {path} is a SQLite database of another program; nothing in it was changed"
        )
    return 0


def migrate(
    connection: sqlite3.Connection, now: int, changes: Sequence[Change] | None = None
) -> None:
    """Bring the schema up to date in one transaction: all versions, or none after a crash.

    The caller holds the set-up lock. ``changes`` are :data:`CHANGES`; with fewer of them, the
    store of an older version is made.
    """
    changes = CHANGES if changes is None else changes
    steps = [partial(_step, change, number, now) for number, change in enumerate(changes, start=1)]
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _number(connection, "PRAGMA user_version")
        if version == 0:  # sqlite-utils would cost each process that makes a store 20 MB
            for step in steps:
                step(connection)
        else:
            _apply(connection, steps[version:], version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply(
    connection: sqlite3.Connection, steps: Sequence[Callable[[sqlite3.Connection], None]], made: int
) -> None:
    """Take the steps from version ``made`` on, and note them as sqlite-utils does."""
    from sqlite_utils import Database  # noqa: PLC0415 - slow to import, and needed once per version
    from sqlite_utils.migrations import Migrations  # noqa: PLC0415 - the same

    migrations = Migrations("leasecron")
    for number, step in enumerate(steps, start=made + 1):
        migrations(name=f"version_{number}")(lambda database, step=step: step(database.conn))
    migrations.apply(Database(connection, recursive_triggers=False, execute_plugins=False))


def _step(change: Change, number: int, now: int, connection: sqlite3.Connection) -> None:
    change(connection, now)
    connection.execute(f"PRAGMA user_version = {number}")


def _number(connection: sqlite3.Connection, statement: str) -> int:
    return int(connection.execute(statement).fetchall()[0][0])
