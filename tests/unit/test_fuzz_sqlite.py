"""A SQLite store whose file holds anything: the documented errors only, and never a hang.

Each test draws the same damage each time. More of it: ``pytest -m slow``; other damage, or a
failure again: ``--hypothesis-seed=N`` with the seed that a failure prints.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from contract.driver import a_claim, at
from contract.hand_clock import HandClock
from fuzz_support import Damage, damaged, deep, fast, scratch
from hypothesis import given
from hypothesis import strategies as st

from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.schema import APPLICATION_ID
from leasecron.doctor.examination import _look_at
from leasecron.errors import BackendError
from leasecron.model import (
    Advance,
    Declaration,
    Ending,
    LeaseRef,
    NewBackfill,
    NewRun,
    Retention,
    Retry,
    RunResult,
)

LIMIT = 20.0
"""Seconds that all calls of a test may take together, on a machine that does much else."""


def record(fence: int) -> RunResult:
    return RunResult(
        job="job",
        slot=at(0),
        attempt=1,
        fence=fence,
        instance="instance-a",
        trigger="scheduled",
        status="success",
        started_at=at(1),
        ended_at=at(2),
        duration=1.0,
        error="é",
    )


@functools.cache
def template() -> bytes:
    """Return the file of a store with runs in several states, records, a pause and a backfill."""
    with scratch() as folder:
        backend = SqliteBackend(folder / "store.db")
        backend.open(HandClock())
        backend.declare([Declaration("job", "every 10s")])
        claims = [a_claim(slot, "a", max_late=1e12, overlap="allow") for slot in range(3)]
        fences = [answer.fence for answer in backend.claim(claims)]
        backend.finish([Ending("job", at(0), "a", "success")])
        backend.release([Ending("job", at(1), "a", "interrupted")])
        backend.save_results([record(fence) for fence in fences if fence is not None])
        backend.add_runs([NewRun("job", at(slot), "asker") for slot in (3, 9)])
        backend.pause("job", "a note")
        backend.resume("job")
        begun = backend.add_backfill(NewBackfill("job", at(-9), at(0), 1, "asker"))
        assert backend.advance(Advance("job", begun.asked_at, None, at(-9))) == "waiting"
        backend.close()
        return (folder / "store.db").read_bytes()


def tried(call: Callable[[], Any]) -> Any:
    """Return what a call answers, None where the answer is a documented error."""
    try:
        return call()
    except BackendError as error:
        text = str(error)
    assert text.isprintable()
    assert len(text) < 11_000
    return None


def use(path: Path) -> None:
    """Make every call of the store."""
    backend = SqliteBackend(path)
    _look_at(SqliteBackend(path))
    try:
        backend.open(HandClock())
    except BackendError:
        return
    lease = LeaseRef("job", at(2), "a", 20.0)
    ending = Ending("job", at(2), "a", "success")
    retentions = [Retention("job", 0.0, 0, 0.0), Retention("new", 1e9, 9, 1e9)]
    tried(backend.checks)
    for name in (None, "job"):
        for result in tried(partial(backend.history, name)) or []:
            assert isinstance(result, RunResult)
            repr(result)
    tried(lambda: backend.unfinished(["job", "new"]))
    tried(lambda: backend.declare([Declaration("job", "every 10s"), Declaration("new", "")]))
    for mode in ("claim", "takeover"):
        claims = [a_claim(n, "b", max_late=1e12, mode=mode) for n in range(5)]
        tried(partial(backend.claim, claims))
    tried(lambda: backend.heartbeat([lease]))
    tried(lambda: backend.retry([Retry("job", at(2), "a", 1)]))
    asked = [NewRun(job, at(9), "asker") for job in ("job", "new")]
    tried(lambda: backend.add_runs(asked))
    tried(backend.asked_for)
    tried(lambda: backend.run_state("job", at(0)))
    tried(lambda: backend.withdraw(asked))
    tried(lambda: backend.pause("job", "é"))
    tried(lambda: backend.resume("job"))
    tried(lambda: backend.pauses("job"))
    tried(backend.jobs)
    for state in (*(tried(backend.backfills) or ()), tried(lambda: backend.backfill("job"))):
        if state is not None:
            tried(partial(backend.advance, Advance("job", state.asked_at, state.cursor, None)))
            tried(partial(backend.cancel_backfill, "job", state.asked_at))
    tried(lambda: backend.succeeded("job", at(-9), at(9)))
    tried(lambda: backend.add_backfill(NewBackfill("job", at(-9), at(0), 1, "asker")))
    tried(lambda: [*backend.pages()])
    tried(lambda: backend.finish([ending]))
    tried(lambda: backend.release([ending]))
    tried(lambda: backend.save_results([record(1)]))
    tried(lambda: backend.prune(retentions))
    backend.suspend()
    tried(backend.history)
    backend.close()


def check(files: dict[str, bytes], change: Callable[[Path], None] | None = None) -> None:
    begun = time.monotonic()
    with scratch() as folder:
        path = folder / "inside" / "store.db"
        path.parent.mkdir()
        for ending, content in files.items():
            path.with_name(f"store.db{ending}").write_bytes(content)
        if change is not None:
            change(path)
        use(path)
        assert [*folder.iterdir()] == [path.parent]
    assert time.monotonic() - begun < LIMIT


# Bytes

ENDINGS = st.sampled_from(["", "-wal", "-journal", "-shm"])


def check_bytes(damage: Damage, ending: str) -> None:
    whole = template()
    check({"": whole, ending: damage(whole)} if ending else {"": damage(whole)})


@fast
@given(damaged(), ENDINGS)
def test_a_damaged_file_is_a_documented_error(damage: Damage, ending: str) -> None:
    check_bytes(damage, ending)


@pytest.mark.slow
@pytest.mark.timeout(600)
@deep
@given(damaged(), ENDINGS)
def test_much_damage_is_a_documented_error(damage: Damage, ending: str) -> None:
    check_bytes(damage, ending)


@pytest.mark.parametrize("size", [1, 15, 16, 99, 100, 512, 4095, 4096, 4097, 8192])
def test_a_file_that_was_cut_off_is_a_documented_error(size: int) -> None:
    check({"": template()[:size]})


def test_damage_for_which_sqlite_has_no_words_in_utf8_is_a_documented_error() -> None:
    whole = template()
    assert b"tablejobsjobs" in whole
    check({"": whole.replace(b"tablejobsjobs", b"tablejob\xacjobs")})


# Values, in a file that is sound

TABLES = {
    "runs": ["job", "slot", "state", "token", "attempt", "lost", "fence", "released_fence",
             "instance", "trigger", "claimed_at", "lease_until", "boot", "lease_mono", "retries",
             "origin", "cancelled"],
    "results": ["fence", "job", "slot", "attempt", "instance", "trigger", "status", "started_at",
                "ended_at", "error", "retries"],
    "jobs": ["name", "schedule", "first_seen", "last_seen", "pruned", "newest", "paused_until"],
    "pauses": ["job", "paused_at", "resumed_at", "note"],
    "backfills": [
        "job", "since", "until", "total", "instance", "asked_at", "cursor", "succeeded", "failed",
        "ended_at",
    ],
    "meta": ["key", "value"],
    "hosts": ["host", "boot", "seen"],
}  # fmt: skip
COLUMNS = [(table, name) for table, names in TABLES.items() for name in names]
VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=20),
    st.binary(max_size=20), st.sampled_from([0, -1, 2**63 - 1, -(2**63), 10**15, "", "success"]),
)  # fmt: skip
CHANGES = st.lists(st.tuples(st.sampled_from(COLUMNS), VALUES), min_size=1, max_size=4)


Changes = list[tuple[tuple[str, str], Any]]


def changed(changes: Changes, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for (table, name), value in changes:
            with contextlib.suppress(sqlite3.IntegrityError):  # a key is a number in any case
                connection.execute(f"UPDATE OR IGNORE {table} SET {name} = ?", (value,))


def check_values(changes: Changes) -> None:
    check({"": template()}, partial(changed, changes))


@fast
@given(CHANGES)
def test_values_of_another_kind_are_a_documented_error(changes: Changes) -> None:
    check_values(changes)


@pytest.mark.parametrize(
    "changed", [("pauses", "paused_at"), ("pauses", "resumed_at"), ("backfills", "asked_at")]
)
@pytest.mark.parametrize("value", [-62_135_596_800_001, 2**63 - 1, "soon"])
def test_an_instant_that_is_none_is_a_documented_error(
    changed: tuple[str, str], value: object
) -> None:
    check_values([(changed, value)])


@pytest.mark.slow
@pytest.mark.timeout(600)
@deep
@given(CHANGES)
def test_many_values_of_another_kind_are_a_documented_error(
    changes: Changes,
) -> None:
    check_values(changes)


@pytest.mark.parametrize(
    "statement",
    [
        *(f"DROP TABLE {table}" for table in TABLES),
        *(f"DELETE FROM {table}" for table in ("runs", "results", "jobs", "meta", "pauses")),
        "ALTER TABLE runs RENAME COLUMN lost TO found",
        "ALTER TABLE results ADD COLUMN other",
        "DROP INDEX runs_open",
        "DROP INDEX runs_asked_for",
        "PRAGMA user_version = 2147483647",
        "PRAGMA user_version = -1",
        "PRAGMA user_version = 0",
        "PRAGMA application_id = 1",
        "PRAGMA encoding = 'UTF-16'",
        "CREATE TRIGGER loud BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'a\n\x1b[2J'); END",
        "CREATE VIEW other AS SELECT * FROM absent",
    ],
)
def test_another_schema_is_a_documented_error(statement: str) -> None:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(statement)

    check({"": template()}, change)


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le"])
def test_a_database_of_another_program_is_a_documented_error(encoding: str) -> None:
    def change(path: Path) -> None:
        path.unlink()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA encoding = '{encoding}'")
            connection.execute("CREATE TABLE runs (job)")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("PRAGMA user_version = 1")

    check({"": b""}, change)
