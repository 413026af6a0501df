"""A lock directory whose files hold anything: the documented errors only, and no second winner.

Each test draws the same damage each time. More of it: ``pytest -m slow``; other damage, or a
failure again: ``--hypothesis-seed=N`` with the seed that a failure prints.
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from contract.driver import a_claim, at
from contract.hand_clock import HandClock
from contract.server_clock import lock_directory
from fuzz_support import JSON, damaged, deep, fast, scratch
from hypothesis import given
from hypothesis import strategies as st

from leasecron.errors import BackendError
from leasecron.model import Declaration, Retention, RunResult

LIMIT = 20.0
"""Seconds that all calls of a test may take together, on a machine that does much else."""

FILES = {
    "marker": "leasecron.json",
    "job": "jobs/*/job.json",
    "claim": "jobs/*/2*/[0-9]*",
    "history": "history/*.jsonl",
}
KEYS = {
    "marker": ["format", "id", "created"],
    "job": ["name", "schedule", "first_seen"],
    "claim": ["token", "instance", "host", "pid", "claimed_at"],
    "history": ["job", "slot", "attempt", "instance", "trigger", "status", "started_at",
                "ended_at", "error"],
}  # fmt: skip


def record(error: str | None) -> RunResult:
    return RunResult(
        job="job",
        slot=at(0),
        attempt=1,
        fence=None,
        instance="instance-a",
        trigger="scheduled",
        status="success" if error is None else "failed",
        started_at=at(1),
        ended_at=at(2),
        duration=1.0,
        error=error,
    )


@functools.cache
def template() -> Path:
    """Make a store with a claimed slot and a record, once."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    atexit.register(shutil.rmtree, folder)
    backend = lock_directory(folder / "locks", HandClock())
    backend.open(HandClock())
    backend.declare([Declaration("job", "every 10s")])
    backend.claim([a_claim(0, "a", max_late=1e12)])
    backend.save_results([record(None)])
    backend.close()
    return folder / "locks"


def tried(call: Callable[[], Any]) -> Any:
    """Return what a call answers, None where the answer is a documented error."""
    try:
        return call()
    except BackendError as error:
        text = str(error)
    assert text.isprintable()
    assert len(text) < 11_000
    return None


def use(folder: Path) -> list[Any]:
    """Make every call of the store; return the answers to claims of the slot that was won."""
    backend = lock_directory(folder / "locks", HandClock(), create=False)
    try:
        backend.open(HandClock())
    except BackendError:
        return []
    tried(backend.checks)
    for name in (None, "job"):
        for result in tried(partial(backend.history, name)) or []:
            assert isinstance(result, RunResult)
            assert type(result.job) is type(result.instance) is str
            f"{result.instance}{result.error}".encode()
    tried(lambda: backend.declare([Declaration("job", "every 10s"), Declaration("new", "")]))
    won = [a_claim(0, "b", max_late=limit, mode=mode) for limit, mode in _WAYS]
    answers = tried(lambda: backend.claim(won)) or []
    tried(lambda: backend.claim([a_claim(1, "b", max_late=1e12)]))
    tried(lambda: backend.save_results([record("x")]))
    tried(lambda: backend.prune([Retention("job", 0.0, 0, 0.0), Retention("new", 1e9, 9, 1e9)]))
    backend.close()
    return answers


_WAYS: list[tuple[float, Any]] = [(1e12, "claim"), (1.0, "claim"), (1e12, "takeover")]


def check(kind: str, content: Callable[[bytes], bytes]) -> None:
    begun = time.monotonic()
    with scratch() as folder:
        shutil.copytree(template(), folder / "locks")
        (path,) = (folder / "locks").glob(FILES[kind])
        path.write_bytes(content(path.read_bytes()))
        answers = use(folder)
        assert [*folder.iterdir()] == [folder / "locks"]
    for answer in answers:
        assert answer.outcome in {"done", "late"}
        assert answer.holder is None or (answer.holder.encode() and len(answer.holder) <= 1000)
    assert time.monotonic() - begun < LIMIT


KINDS = st.sampled_from([*FILES])


@fast
@given(KINDS, damaged())
def test_a_damaged_file_is_a_documented_error(kind: str, damage: Callable[[bytes], bytes]) -> None:
    check(kind, damage)


@st.composite
def rewritten(draw: st.DrawFn) -> tuple[str, Callable[[bytes], bytes]]:
    """A file that is sound JSON, with other values than ours or none."""
    kind = draw(KINDS)
    changes = draw(st.dictionaries(st.sampled_from(KEYS[kind]), JSON, min_size=1))
    gone = draw(st.sets(st.sampled_from(KEYS[kind]), max_size=1))

    def content(was: bytes) -> bytes:
        said = {**json.loads(was), **changes}
        left = {key: value for key, value in said.items() if key not in gone}
        return json.dumps(left, separators=(",", ":")).encode() + b"\n"

    return kind, content


@fast
@given(rewritten())
def test_a_file_that_says_something_else_is_a_documented_error(
    file: tuple[str, Callable[[bytes], bytes]],
) -> None:
    check(*file)


@pytest.mark.slow
@pytest.mark.timeout(600)
@deep
@given(KINDS, damaged(), rewritten())
def test_much_damage_is_a_documented_error(
    kind: str, damage: Callable[[bytes], bytes], file: tuple[str, Callable[[bytes], bytes]]
) -> None:
    check(kind, damage)
    check(*file)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("marker", {"created": 10**18}),
        ("marker", {"created": -1}),
        ("marker", {"id": "\ud800"}),
        ("marker", {"id": "x" * 5000}),
        ("job", {"first_seen": 10**18}),
        ("claim", {"instance": "i" * 5000 + "\ud800"}),
        ("claim", {"instance": "\ud800"}),
        ("history", {"job": "job", "instance": "\ud800"}),
        ("history", {"error": "\udfff"}),
        ("history", {"ended_at": 10**30}),
    ],
)
def test_a_value_that_no_leasecron_writes_is_a_documented_error(
    kind: str, changes: dict[str, Any]
) -> None:
    def content(was: bytes) -> bytes:
        return json.dumps({**json.loads(was), **changes}, separators=(",", ":")).encode() + b"\n"

    check(kind, content)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    "content",
    [b"", b"[" * 100_000, b'{"a":' * 100_000, b"\0" * 70_000, b"9" * 70_000, b"x" * 1_000_000,
     b'{"format":1,"id":"x","created":1e400}', b"\xff\xfe", b"null", b"\n" * 100_000],
    ids=lambda content: repr(content[:12]),
)  # fmt: skip
def test_what_is_no_record_at_all_is_a_documented_error(kind: str, content: bytes) -> None:
    check(kind, lambda _was: content)
