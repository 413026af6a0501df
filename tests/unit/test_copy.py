"""``leasecron copy``: what is moved from a SQLite store to a server, and when it is refused."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from contract.driver import Driver, a_claim, at
from contract.hand_clock import START, HandClock
from support.stores import PostgresView, RedisView

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.sqlite import export as sqlite_export
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.urls import backend_for
from leasecron.cli import main
from leasecron.model import Declaration, NewRun, Pause, Retention, Retry


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Driver]:
    """A store of long ago: a day is past since anybody used it."""
    clock = HandClock()
    backend = SqliteBackend(tmp_path / "store.db")
    backend.open(clock)
    backend.declare([Declaration("job", "daily"), Declaration("pruned", "daily")])
    yield Driver(backend, clock)
    backend.close()


View = PostgresView | RedisView
Backend = PostgresBackend | RedisBackend


@pytest.fixture(params=[PostgresView, RedisView], ids=["postgres", "redis"])
def view(request: pytest.FixtureRequest) -> Iterator[View]:
    view: View = request.param()
    yield view
    view.drop()


@pytest.fixture
def target(view: View) -> Iterator[Backend]:
    """What the view shows, not opened."""
    backend = backend_for(view.url)
    assert isinstance(backend, Backend)
    yield backend
    backend.close()


def copied(source: Driver, view: View) -> Result:
    assert isinstance(source.backend, SqliteBackend)
    return CliRunner().invoke(main, ["copy", source.backend.path, view.url])


def all_runs(path: str) -> list[dict[str, object]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(
            "SELECT job, slot, state, token, attempt, lost, fence, released_fence, instance,"
            " trigger, claimed_at, lease_until, boot IS '' AS lease_ended FROM runs ORDER BY slot"
        ).fetchall()
    return [dict(row) for row in found]


def filled(source: Driver) -> None:
    """Have something of all that there can be."""
    fence = source.win(0, "a")
    source.finish(0, "a")
    source.save(0, fence)
    fence = source.win(10, "b")
    source.release(10, "b")
    source.save(10, fence, "interrupted", error="stopped: ü \0 'quoted'")
    source.win(20, "c", job="over")
    source.backend.claim([a_claim(0, f"m{n}", job=f"many-{n}") for n in range(1500)])
    source.win(0, "d", job="pruned")
    source.finish(0, "d", job="pruned")
    source.win(100, "e", job="pruned")
    source.finish(100, "e", job="pruned")
    source.clock.advance(4 * 86_400)
    source.backend.prune([Retention("pruned", 86_400.0, 10, 86_400.0)])


def test_pauses_and_what_is_new_of_runs_are_handed_over(source: Driver) -> None:
    backend = source.backend
    assert isinstance(backend, SqliteBackend)
    fence = source.win(0, "a", overlap="cancel")
    backend.retry([Retry("job", at(0), "a", 2)])
    source.claim(10, "b", overlap="cancel")
    source.save(0, fence, retries=2)
    backend.add_runs([NewRun("job", at(0.5), "asker")])
    for job in ("job", "pruned"):
        backend.pause(job, "first")
        source.clock.advance(5)
        backend.resume(job)
        source.clock.advance(5)
    backend.pause("job", "sécond")

    pages = [*backend.pages()]

    runs = [(row.slot, row) for page in pages for row in page.runs]
    first, asked, waiting = (row for _slot, row in sorted(runs, key=lambda each: each[0]))
    assert (first.retries, first.origin, first.cancelled) == (2, "scheduled", True)
    assert (asked.retries, asked.origin, asked.cancelled) == (0, "manual", False)
    assert (waiting.state, waiting.attempt, waiting.origin) == ("released", 0, "scheduled")
    assert all(isinstance(row.cancelled, bool) for _slot, row in runs)
    assert [record.retries for page in pages for record in page.results] == [2]
    assert [pause for page in pages for pause in page.pauses] == [
        Pause("job", at(0), at(5), "first"),
        Pause("job", at(20), None, "sécond"),
        Pause("pruned", at(10), at(15), "first"),
    ]


def test_pauses_are_handed_over_a_page_at_a_time(
    source: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = source.backend
    assert isinstance(backend, SqliteBackend)
    for _ in range(5):
        for job in ("job", "pruned"):
            backend.pause(job, "")
            backend.resume(job)
        source.clock.advance(1)
    whole = [pause for page in backend.pages() for pause in page.pauses]
    few = sqlite_export._PAUSES.replace(f"LIMIT {sqlite_export._PAGE}", "LIMIT 3")
    monkeypatch.setattr(sqlite_export, "_PAUSES", few)

    found = [page.pauses for page in backend.pages() if page.pauses]

    assert [len(each) for each in found] == [3, 3, 3, 1]
    assert [pause for each in found for pause in each] == whole


def test_all_that_is_known_goes_along(source: Driver, view: View, target: Backend) -> None:
    filled(source)
    assert isinstance(source.backend, SqliteBackend)

    done = copied(source, view)

    assert done.exit_code == 0, done.output
    assert "1,503 jobs, 1,504 runs, 2 records" in done.output
    target.open()
    assert target.history(limit=5000) == source.backend.history(limit=5000)
    runs = all_runs(source.backend.path)
    for job in ("job", "over", "many-7", "many-1499", "pruned"):
        # All leases are over, by the clocks of the source, which the target does not know.
        expected = [run | {"lease_ended": 1} for run in runs if run["job"] == job]
        assert expected
        assert [{name: row[name] for name in expected[0]} for row in view.runs(job)] == expected
    for slot, job in ((0, "job"), (0, "pruned"), (100, "pruned")):
        claim = a_claim(slot, "z", job=job, max_late=1e9)
        assert target.claim([claim])[0].outcome == "done"
    assert target.declare([Declaration("job", "hourly")]) == [at(0)]


def test_the_fences_go_on_above_those_of_the_source(
    source: Driver, view: View, target: Backend
) -> None:
    with closing(sqlite3.connect(source.backend.path)) as connection, connection:  # type: ignore[attr-defined]
        connection.execute("UPDATE meta SET value = ? WHERE key = 'next_fence'", (2**52,))
    fence = source.win(0, "a")
    source.finish(0, "a")
    source.clock.advance(-START)  # as long ago as can be
    with closing(sqlite3.connect(source.backend.path)) as connection, connection:  # type: ignore[attr-defined]
        connection.execute("UPDATE jobs SET last_seen = 0")

    assert copied(source, view).exit_code == 0
    assert copied(source, view).exit_code == 0

    target.open()
    now = round(time.time(), 3)
    (answer,) = target.claim([a_claim(now - START, "b")])
    assert answer.fence is not None
    assert answer.fence > fence


def test_a_second_time_changes_nothing_that_went_on(
    source: Driver, view: View, target: Backend
) -> None:
    filled(source)
    assert copied(source, view).exit_code == 0
    target.open()
    claim = a_claim(10, "z", mode="takeover", trigger="takeover")
    (won,) = target.claim([claim])
    assert (won.outcome, won.attempt) == ("won", 2)
    before = target.history(limit=5000)

    done = copied(source, view)

    assert done.exit_code == 0, done.output
    assert target.history(limit=5000) == before
    assert target.claim([claim]) == [won]


def test_what_was_there_already_is_not_counted_as_copied(source: Driver, view: View) -> None:
    filled(source)
    first, second = copied(source, view), copied(source, view)

    assert "copied 1,503 jobs, 1,504 runs, 2 records from" in first.output
    assert "there already" not in first.output
    assert "copied 0 jobs, 0 runs, 0 records from" in second.output
    assert "there already, and not changed: 1,503 jobs, 1,504 runs, 2 records" in second.output


def test_records_of_two_sources_with_the_same_fences_are_left_out_aloud(
    source: Driver, view: View, target: Backend, tmp_path: Path
) -> None:
    filled(source)
    other = Driver(SqliteBackend(tmp_path / "other.db"), HandClock())  # made at the same moment
    other.backend.open(other.clock)
    for slot in range(3):
        fence = other.win(slot, f"t{slot}", job="another")
        other.finish(slot, f"t{slot}", job="another")
        other.save(slot, fence, job="another")
    assert copied(source, view).exit_code == 0

    for new in (1, 0):  # a second time, no more and no less is said
        done = copied(other, view)
        assert done.exit_code == 1, done.output
        assert f"copied {new} jobs, {3 * new} runs, {new} records from" in done.stdout
        assert "left out: 2 records" in done.stderr
    target.open()
    assert len(target.history("job", limit=10)) == 2
    assert len(target.history("another", limit=10)) == 1
    assert len(other.backend.history("another")) == 3
    other.backend.close()


def test_a_live_lease_is_a_reason_not_to(tmp_path: Path, view: View) -> None:
    backend = SqliteBackend(tmp_path / "live.db")
    backend.open()
    slot = round(time.time(), 3)
    backend.claim([a_claim(slot - START, "a", lease=600.0)])
    with closing(sqlite3.connect(backend.path)) as connection, connection:
        connection.execute("UPDATE jobs SET last_seen = 0")
        connection.execute("UPDATE runs SET claimed_at = 0")

    done = CliRunner().invoke(main, ["copy", backend.path, view.url])

    assert done.exit_code == 2
    assert "an instance is alive on the source: the run of job 'job'" in done.stderr
    assert "has a live lease" in done.stderr
    backend.close()


def test_a_job_that_was_seen_a_moment_ago_is_one_too(tmp_path: Path, view: View) -> None:
    backend = SqliteBackend(tmp_path / "seen.db")
    backend.open()
    backend.declare([Declaration("job", "daily")])
    backend.close()

    done = CliRunner().invoke(main, ["copy", backend.path, view.url])

    assert done.exit_code == 2
    assert "job 'job' was seen less than two minutes ago" in done.stderr


@pytest.mark.parametrize(
    ("source_url", "target_url", "said"),
    [
        ("memory://", "memory://", "memory:// cannot be copied from"),
        ("lockdir:////x", "memory://", "cannot be copied from"),
        ("{there}", "memory://", "memory:// cannot be copied to"),
        ("{there}", "{there}", "cannot be copied to"),
        ("{missing}", "postgresql://", "is not there: nothing was copied"),
        ("{there}", "postgresql:///x?host=/nowhere", "cannot be reached"),
    ],
)
def test_what_cannot_be_copied_is_named(
    tmp_path: Path, source_url: str, target_url: str, said: str
) -> None:
    there, missing = tmp_path / "there.db", tmp_path / "missing.db"
    backend = SqliteBackend(there)
    backend.open()
    backend.close()
    names = {"there": there, "missing": missing}

    done = CliRunner().invoke(
        main, ["copy", source_url.format(**names), target_url.format(**names)]
    )

    assert done.exit_code == 2
    assert said in done.stderr
    assert not missing.exists()
