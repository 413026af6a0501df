"""A pass over the rows of a SQLite store, in calls that each look at a bounded number of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from contract.driver import JOB, LEASE, Driver, a_claim, at
from contract.hand_clock import START

from leasecron.backends.rows import Moment
from leasecron.backends.sqlite import pruning as sqlite_pruning
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.pruning import _KEYS, Pass, Removals, find_removals
from leasecron.backends.sqlite.schema import migrate
from leasecron.model import Declaration, Ending, NewRun, Retention

WALK = 4
DAY = 86_400


@pytest.fixture(autouse=True)
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_pruning, "WALK", WALK)


def keep(runs: float, *jobs: str) -> list[Retention]:
    return [Retention(job, runs, 1000, 1e9) for job in jobs]


def run(store: Driver, slots: Sequence[int], *jobs: str) -> None:
    """Run the slots of each job to their end."""
    claims = [
        a_claim(slot, f"{job}{slot}", job=job, overlap="allow", max_late=1e9)
        for slot in slots
        for job in jobs
    ]
    store.backend.claim(claims)
    store.backend.finish([Ending(c.job, c.slot, c.token, "success") for c in claims])


def left(path: Path, job: str = JOB) -> list[int]:
    """Return the slots of the job that have a row, in seconds after the start."""
    query = "SELECT slot FROM runs WHERE job = ? ORDER BY slot"
    with closing(sqlite3.connect(path)) as connection:
        return [round(row[0] / 1000 - START) for row in connection.execute(query, (job,))]


def calls(store: Driver, retentions: Sequence[Retention]) -> int:
    """Prune until the pass is over; return how many calls that took."""
    count = 1
    while store.backend.prune(retentions):
        count += 1
        assert count < 100
    return count


def test_a_call_looks_at_a_bounded_number_of_rows(store: Driver, path: Path) -> None:
    run(store, range(10), JOB)
    store.clock.advance(DAY)

    assert store.backend.prune(keep(0.0, JOB))
    assert left(path) == [*range(WALK, 10)]
    assert store.backend.prune(keep(0.0, JOB))
    assert left(path) == [8, 9]
    assert not store.backend.prune(keep(0.0, JOB))
    assert left(path) == [9]


def test_rows_that_other_jobs_keep_only_make_more_calls(store: Driver, path: Path) -> None:
    run(store, range(10), "kept", "not asked for", JOB)
    store.clock.advance(DAY)

    assert calls(store, [*keep(0.0, JOB), *keep(1e6, "kept")]) == 1 + 30 // WALK
    assert left(path) == [9]
    for other in ("kept", "not asked for"):
        assert left(path, other) == [*range(10)]


def test_a_pass_ends_with_the_rows_that_are_old_for_any_job(store: Driver, path: Path) -> None:
    run(store, range(2), JOB)
    run(store, range(1000, 1020), JOB)
    store.clock.advance(DAY)

    assert calls(store, keep(DAY - 500, JOB)) == 1
    assert left(path) == [*range(1000, 1020)]


def test_the_next_pass_begins_with_the_oldest_row_again(store: Driver, path: Path) -> None:
    store.win(0, "long", overlap="allow", lease=2 * DAY)
    run(store, range(1, 10), JOB)
    store.clock.advance(DAY)
    calls(store, keep(0.0, JOB))
    assert left(path) == [0, 9]
    store.finish(0, "long")
    store.clock.advance(1)

    calls(store, keep(0.0, JOB))
    assert left(path) == [9]


def test_slots_of_one_instant_may_be_more_than_a_call_looks_at(store: Driver, path: Path) -> None:
    jobs = [f"job-{number}" for number in range(3 * WALK)]
    run(store, [0, 10], *jobs)
    store.clock.advance(DAY)

    calls(store, keep(0.0, *jobs))

    assert [left(path, job) for job in jobs] == [[10]] * len(jobs)


def test_each_job_has_its_own_retention(store: Driver, path: Path) -> None:
    run(store, [0, 1000, 2000, 3000], "short", "long")
    store.clock.advance(3000)

    calls(store, [*keep(500.0, "short"), *keep(1500.0, "long")])

    assert left(path, "short") == [3000]
    assert left(path, "long") == [2000, 3000]


def test_the_history_of_a_bounded_number_of_jobs_is_looked_at(
    store: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_pruning, "JOBS", 2)
    jobs = [f"job-{number}" for number in range(5)]
    for job in jobs:
        store.save(0, store.win(0, "a", job=job), job=job)
    store.clock.advance(DAY)
    nothing = [Retention(job, 1e9, 0, 0.0) for job in jobs]

    numbers = []
    for _call in range(3):
        more = store.backend.prune(nothing)
        numbers.append((more, len(store.statuses(None))))

    assert numbers == [(True, 3), (True, 1), (False, 0)]


def pause(store: Driver, times: int, *jobs: str) -> None:
    """Pause jobs again and again, a second each time."""
    store.backend.declare([Declaration(job, "daily") for job in jobs])
    for _ in range(times):
        for act in (lambda job: store.backend.pause(job, "a note"), store.backend.resume):
            for job in jobs:
                act(job)
            store.clock.advance(1)


def test_the_pauses_of_a_bounded_number_of_jobs_are_looked_at(
    store: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_pruning, "JOBS", 2)
    jobs = [f"job-{number}" for number in range(5)]
    pause(store, 1, *jobs)
    store.clock.advance(DAY)

    numbers = []
    for _call in range(3):
        more = store.backend.prune([Retention(job, 0.0, 0, 0.0) for job in jobs])
        numbers.append((more, sum(len(store.backend.pauses(job)) for job in jobs)))

    assert numbers == [(True, 3), (True, 1), (False, 0)]


def test_a_call_removes_a_bounded_number_of_pauses(
    store: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_pruning, "PRUNE_BATCH", 4)
    pause(store, 5, "a", "b")
    store.clock.advance(DAY)
    retentions = [Retention(job, 0.0, 0, 0.0) for job in ("a", "b")]

    numbers = []
    for _call in range(3):
        more = store.backend.prune(retentions)
        numbers.append((more, sum(len(store.backend.pauses(job)) for job in ("a", "b"))))

    assert numbers == [(True, 6), (True, 2), (False, 0)]


def test_each_job_keeps_its_pauses_for_as_long_as_its_runs_or_its_history(store: Driver) -> None:
    pause(store, 1, "runs", "history", "neither")
    store.clock.advance(1000)

    calls(
        store,
        [
            Retention("runs", 2000.0, 10, 100.0),
            Retention("history", 100.0, 10, 2000.0),
            Retention("neither", 100.0, 10, 100.0),
        ],
    )

    assert [len(store.backend.pauses(job)) for job in ("runs", "history", "neither")] == [1, 1, 0]


def test_a_pause_that_goes_on_after_it_was_found_stays(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause(store, 1, JOB)
    store.clock.advance(DAY)
    other = SqliteBackend(path)
    other.open(store.clock)

    def find(
        connection: sqlite3.Connection, moment: Moment, asked: Sequence[Retention], begun: Pass
    ) -> Removals:
        found = find_removals(connection, moment, asked, begun)
        assert len(found.pauses) == 1
        with store.clock.seen_by(wall=-2.0 * DAY):
            assert other.pause(JOB, "by a clock that is behind")
        return found

    monkeypatch.setattr("leasecron.backends.sqlite.backend.find_removals", find)
    assert not store.backend.prune([Retention(JOB, 0.0, 0, 0.0)])

    assert [pause.note for pause in other.pauses(JOB)] == ["by a clock that is behind"]
    assert store.claim(DAY, "a").outcome == "paused"
    other.close()


def test_runs_that_were_asked_for_go_where_the_schedule_has_none(store: Driver, path: Path) -> None:
    for slot in (0.5, 1.5):
        store.backend.add_runs([NewRun(JOB, at(slot), "asker")])
        store.take_over(slot, "a")
        store.finish(slot, "a")
    store.backend.add_runs([NewRun(JOB, at(2.5), "asker")])
    store.clock.advance(DAY)

    calls(store, keep(0.0, JOB))

    assert left(path) == [round(2.5)]
    assert store.claim(1, "b", max_late=1e9).outcome == "won"


def test_a_run_that_is_taken_over_after_it_was_found_stays(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.win(0, "a", overlap="allow")
    run(store, [10 * DAY], JOB)  # by an instance whose clock is ahead
    store.clock.advance(DAY)
    other = Driver(SqliteBackend(path), store.clock)
    other.backend.open(store.clock)

    def find(
        connection: sqlite3.Connection, moment: Moment, asked: Sequence[Retention], begun: Pass
    ) -> Removals:
        found = find_removals(connection, moment, asked, begun)
        assert found.runs == [(JOB, round(START * 1000))]
        assert other.take_over(0, "b", overlap="allow").attempt == 2
        return found

    monkeypatch.setattr("leasecron.backends.sqlite.backend.find_removals", find)
    assert not store.backend.prune(keep(LEASE, JOB))

    assert other.heartbeat(0, "b") == "ok"
    assert [state.slot for state in store.unfinished()] == [at(0)]
    other.backend.close()


def test_a_pass_goes_on_where_the_last_call_was_stored(
    store: Driver, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(store, range(10), JOB)
    store.clock.advance(DAY)

    def fail(*_given: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as failing:
        failing.setattr("leasecron.backends.sqlite.backend.remove", fail)
        with pytest.raises(Exception, match="disk I/O error"):
            store.backend.prune(keep(0.0, JOB))

    assert calls(store, keep(0.0, JOB)) == 3
    assert left(path) == [9]


def test_a_call_is_a_few_statements_however_much_it_removes(
    store: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    run(store, range(1000), JOB)
    store.clock.advance(DAY)
    noted: list[str] = []
    trace(store, noted.append, lambda: store.backend.prune(keep(0.0, JOB)))

    assert sum("DELETE" in text for text in noted) < 10
    assert len(noted) < 50


def trace(store: Driver, note: Callable[[str], None], call: Callable[[], object]) -> None:
    assert isinstance(store.backend, SqliteBackend)
    link = store.backend._store._link
    assert link is not None
    link.connection.set_trace_callback(note)
    call()
    link.connection.set_trace_callback(None)


def test_a_walk_reads_the_index_alone_from_where_it_begins(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, 1)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {_KEYS}", (0, "", 1, 1)).fetchall()

    walk = "SEARCH runs USING COVERING INDEX sqlite_autoindex_runs_1"
    assert f"{walk} ((slot,job)>(?,?) AND slot<?)" in [step[3] for step in plan]
    assert not [step for step in plan if "TEMP B-TREE" in step[3]]
