"""A name is only a name: no path, no pattern, no statement, in whatever store it is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.driver import a_claim, at
from contract.hand_clock import HandClock

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.model import Declaration, LeaseRef, Retention, RunResult

NAMES = [
    "..", ".", "/", "../../../outside", "/tmp/outside", "a/../../outside", "~", "~root", "$HOME",
    "-rf", "con", "nul.txt", "a\\..\\b", "jobs", "leasecron.json", ".hidden", "job.json",
    "%", "_", "a%", "a_b", "*", "a*", "[a-z]", "?", "a?b", "{0}", "%s", "%(x)s", "{job.name}",
    "'; DROP TABLE runs; --", "\" OR 1=1 --", "a' OR 'a'='a", "x'00'", "NULL", "0", "1e5", "$[0]",
    "]]", '"', "'", "\\", "\\u0000", "a\nb", "a\rb", "\x1b[31m", "\u202e", "\ufeff", " ", "é",
    "e\u0301", "SS", "ß", "İ", "a", "A", "x" * 1000, "\U0010ffff" * 250,
]  # fmt: skip
"""No two are the same, though some look so, or match another as a pattern."""

Backend = MemoryBackend | SqliteBackend | LockDirBackend


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """The folder of the store, beside which nothing may be made."""
    path = tmp_path / "inside"
    path.mkdir()
    return path


@pytest.fixture(params=["memory", "sqlite", "lockdir"])
def store(request: pytest.FixtureRequest, inside: Path) -> Iterator[Backend]:
    made: dict[str, Backend] = {
        "memory": MemoryBackend(),
        "sqlite": SqliteBackend(inside / "store.db"),
        "lockdir": LockDirBackend(inside / "locks", create=True),
    }
    backend = made[request.param]
    backend.open(HandClock())
    yield backend
    backend.close()


def record(job: str, number: int, fence: int | None) -> RunResult:
    return RunResult(
        job=job,
        slot=at(0),
        attempt=1,
        fence=fence,
        instance=job,
        trigger="scheduled",
        status="success",
        started_at=at(number),
        ended_at=at(number),
        duration=0.0,
        error=f"error of {job}",
    )


def test_each_name_has_its_own_runs_and_records(
    store: Backend, inside: Path, tmp_path: Path
) -> None:
    store.declare([Declaration(name, name) for name in NAMES])
    answers = store.claim(
        [
            a_claim(0, f"token{n}", job=name, instance=name, max_late=1e12)
            for n, name in enumerate(NAMES)
        ]
    )
    assert {answer.outcome for answer in answers} == {"won"}
    results = [record(name, n, answers[n].fence) for n, name in enumerate(NAMES)]
    store.save_results(results)

    assert {result.job for result in store.history(limit=1000)} == set(NAMES)
    for name, result in zip(NAMES, results, strict=True):
        assert store.history(name) == [result]
    if not isinstance(store, LockDirBackend):
        assert [state.job for state in store.unfinished(["%", "*"])] == ["%", "*"]
        leases = [LeaseRef(name, at(0), f"token{n}", 20.0) for n, name in enumerate(NAMES)]
        assert set(store.heartbeat(leases)) == {"ok"}
    store.prune([Retention(name, 0.0, 0, 0.0) for name in ("%", "*", "..", "_")])
    assert [*tmp_path.iterdir()] == [inside]
    assert not {path for path in inside.rglob("*") if len(os.fsencode(path.name)) > 143}
    assert not Path("/tmp/outside").exists()
