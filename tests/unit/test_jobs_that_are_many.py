"""Very many jobs in one instance: what they share, and what each of them takes."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import cronsim
import pytest
from contract.driver import JOB

import leasecron
from leasecron import Scheduler
from leasecron.backends.base import LeaseBackend
from leasecron.backends.memory import backend as memory
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.cron import Cron, _Pattern
from leasecron.durations import Duration
from leasecron.model import Declaration
from leasecron.testing import FakeClock

BEGIN = datetime(2026, 3, 28, 12, 0, 1, tzinfo=UTC)
JOBS = 2000
MOST = 1100
"""Bytes of an armed job; the names and the store come on top."""
OF_JOBS = [
    # The store interns text: that the interpreter's table grows is no matter of one job.
    tracemalloc.Filter(False, memory.__file__),
    tracemalloc.Filter(True, f"{Path(leasecron.__file__).parent}/*"),
    tracemalloc.Filter(True, f"{Path(cronsim.__file__).parent}/*"),
    tracemalloc.Filter(True, "<string>"),  # what dataclasses make
    tracemalloc.Filter(True, __file__),
]


def do_nothing() -> None:
    """Take no time."""


class Many(Scheduler):
    """A scheduler on a store in memory, in simulated time."""

    def __init__(self) -> None:
        self.fake_clock = FakeClock(BEGIN)
        self.memory = MemoryBackend()
        super().__init__(self.memory, clock=self.fake_clock)


def objects(kept: Iterable[object]) -> int:
    """Return how many objects these are."""
    return len({id(each) for each in kept})


def test_jobs_with_equal_options_and_schedules_share_them() -> None:
    intervals: list[Duration] = ["1h", 3600, timedelta(hours=1)]
    leases: list[Duration] = ["20s", 20]
    made = Many()
    for number in range(20):
        made.every(f"every {number}", intervals[number % 3], do_nothing)
        lease = leases[number % 2]
        made.cron(f"cron {number}", "0 3 * * *", do_nothing, keep=60, lease=lease)
    jobs = made.jobs.values()
    assert objects(job.schedule for job in jobs) == objects(job.options for job in jobs) == 2


def test_a_count_is_never_shared_with_a_duration() -> None:
    made = Many()
    made.every("count", "1h", do_nothing, keep=60)
    made.every("duration", "1h", do_nothing, keep="60s")
    assert made.jobs["count"].options.retention(JOB).records == 60
    assert made.jobs["duration"].options.retention(JOB).age == 60.0


def memory_of_armed(kind: str, jobs: int) -> int:
    """Return the bytes that so many jobs take between ``start()`` and ``stop()``."""
    made = Many()
    gc.collect()
    tracemalloc.start(1)
    try:
        for number in range(jobs):
            if kind == "every":
                made.every(f"job {number}", f"{1 + number % 40}h", do_nothing)
            else:
                made.cron(f"job {number}", f"{number % 40} 3 * * *", do_nothing)
        made.start()
        made.fake_clock.settle()
        assert all(made._lifecycle.next_slot(job) for job in made._jobs.values())
        taken = tracemalloc.take_snapshot().filter_traces(OF_JOBS).statistics("lineno")
    finally:
        tracemalloc.stop()
        made.stop()
    print(*taken[:10], sep="\n")
    return sum(line.size for line in taken)


@pytest.mark.parametrize("kind", ["every", "cron"])
def test_an_armed_job_takes_little_memory(kind: str) -> None:
    memory_of_armed(kind, 1)  # and what is imported for it
    assert memory_of_armed(kind, JOBS) / JOBS < MOST


def test_of_jobs_with_one_expression_only_the_first_asks_for_its_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walks = 0
    walk = _Pattern._walk

    def counted(pattern: _Pattern, reading: datetime, direction: int) -> datetime | None:
        nonlocal walks
        walks += 1
        return walk(pattern, reading, direction)

    monkeypatch.setattr(_Pattern, "_walk", counted)
    made = Many()
    for number in range(200):
        made.cron(f"job {number}", f"{number % 4} 3 * * *", do_nothing)
    walks = 0
    with made:
        made.fake_clock.settle()
        assert walks <= 4 * 4


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "expression", ["*/20 * * * *", "30 2 * * *", "0 0 29 2 *", "*/7 1-3 * * 0"]
)
def test_what_was_asked_before_changes_no_answer(expression: str, seed: int) -> None:
    drawn = random.Random(seed)
    asked = Cron(expression, "Europe/Berlin")  # whose clock is put forward the night after
    t = BEGIN
    for _ in range(300):
        fresh = Cron(expression, "Europe/Berlin")
        ask = drawn.choice(["next_after", "latest_at"])
        answer = getattr(asked, ask)(t)
        assert answer == getattr(fresh, ask)(t), (ask, t)
        near = [answer, answer + timedelta(microseconds=1), answer - timedelta(microseconds=1)]
        t = drawn.choice([*near, t, t + timedelta(seconds=drawn.uniform(-7200, 7200))])
        t = max(BEGIN, min(t, BEGIN + timedelta(days=1)))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_many_jobs_are_declared_in_one_call(kind: str, tmp_path: Path) -> None:
    store: LeaseBackend = MemoryBackend() if kind == "memory" else SqliteBackend(tmp_path / "a.db")
    clock = FakeClock(BEGIN)
    store.open(clock)
    jobs = [Declaration(f"job {number}", "every 1h") for number in range(1500)]
    try:
        began = store.declare(jobs[::2])
        clock.advance(60)
        seen = store.declare([*jobs, jobs[0], jobs[1]])
    finally:
        store.close()
    assert {*began} == {BEGIN}
    assert seen == [BEGIN, BEGIN + timedelta(seconds=60)] * 751
    assert objects(seen) == 2


def test_of_a_job_that_never_ran_a_store_in_memory_keeps_nothing_but_its_name() -> None:
    made = Many()
    for number in range(10):
        made.every(f"job {number}", "1h", do_nothing)
    with made:
        made.fake_clock.settle()
        tables = made.memory._tables
        assert tables is not None
        assert len(tables.first_seen) == 10
        kept = (tables.runs, tables._open, tables.results, tables._pruned)
        assert kept == ({}, {}, {}, {})
