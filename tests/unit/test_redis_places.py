"""Redis stores that share a server, jobs of any name, and forks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
import redis
from redis.crc import key_slot
from redis_support import a_claim, claim
from support.servers import redis_url, with_option

from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.redis.scripts import keys_of
from leasecron.errors import BackendError, SchedulerStateError
from leasecron.model import LARGEST_INTEGER, Declaration, Ending, Retention, RunResult

NAMES = [
    "{a}",
    "}",
    "{",
    "{}",
    "a b",
    "",
    " ",
    "é🎉",
    "e\u0301",
    "nul\0inside",
    "\0",
    "nul",
    "line\nbreak",
    "a:b",
    "1:a:",
    "*",
    "%s%d",
    '"quoted\\',
    "x" * 10_000,
]


def record(job: str, seconds: float, fence: int | None) -> RunResult:
    """Return the record of a run that took no time."""
    slot = a_claim("a", seconds=seconds).slot
    return RunResult(job, slot, 1, fence, "i", "scheduled", "failed", slot, slot, 0.0, f"of {job}")


def answer_of_child(use: Callable[[], object]) -> str:
    """Return the name of the error that is raised in a forked child, or "nothing"."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        name = "nothing"
        try:
            use()
        except BaseException as error:
            name = type(error).__name__
        os.write(writing, name.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        found = answers.read()
    os.waitpid(pid, 0)
    return found


def opened(prefix: str) -> RedisBackend:
    backend = RedisBackend(with_option(redis_url(), f"prefix={prefix}"))
    backend.open()
    return backend


@pytest.fixture
def client() -> Iterator[Any]:
    made = redis.Redis.from_url(redis_url())
    yield made
    made.close()


@pytest.fixture
def prefix(client: Any) -> Iterator[str]:
    name = f"test-{uuid4().hex}"
    yield name
    client.delete(*keys_of(name))


@pytest.fixture
def backend(prefix: str) -> Iterator[RedisBackend]:
    made = opened(prefix)
    yield made
    made.close()


def test_two_prefixes_know_nothing_of_each_other(client: Any, prefix: str) -> None:
    one, two = opened(prefix), opened(f"{prefix}-two")
    assert claim(one, "a").outcome == claim(two, "b").outcome == "won"
    assert one.unfinished(["job"]) == two.unfinished(["job"])
    client.delete(*keys_of(f"{prefix}-two"))
    assert claim(one, "b").outcome == "running"
    one.close()
    two.close()


def test_all_keys_of_a_store_have_one_hash_slot(
    client: Any, prefix: str, backend: RedisBackend
) -> None:
    for name in NAMES:
        claim(backend, "a", name)
    found = {key.decode() for key in client.keys(f"*{prefix}*")}
    assert found <= set(keys_of(prefix))
    assert len({key_slot(key.encode()) for key in found}) == 1


def test_jobs_of_any_name_are_jobs_of_their_own(backend: RedisBackend) -> None:
    for number, name in enumerate(NAMES):
        answer = claim(backend, "a", name, seconds=number)
        assert answer.outcome == "won", name
        ending = Ending(name, a_claim("a", seconds=number).slot, "a", "success")
        assert backend.finish([ending]) == [True]
        backend.save_results([record(name, number, answer.fence)])
    for number, name in enumerate(NAMES):
        assert claim(backend, "b", name, seconds=number).holder == "instance-a"
        assert [result.job for result in backend.history(name)] == [name]
    assert [result.job for result in backend.history()] == NAMES[::-1]
    seen = backend.declare([Declaration(name, "\0") for name in NAMES])
    assert len(seen) == len(NAMES)
    assert not backend.prune([Retention(name, 0.0, 0, -100.0) for name in NAMES])
    assert backend.history() == []


def test_a_name_that_is_no_text_is_an_error_of_its_own(backend: RedisBackend) -> None:
    with pytest.raises(BackendError, match="cannot keep this text"):
        claim(backend, "a", "\ud800")
    assert claim(backend, "a").outcome == "won"


def test_many_records_are_read_call_by_call(backend: RedisBackend) -> None:
    fences = []
    for number in range(3):
        slots = [a + (number - 3) * 1000 for a in range(1000)]
        answers = backend.claim([a_claim("a", seconds=slot, max_late=1e9) for slot in slots])
        fences += [answer.fence for answer in answers]
        backend.save_results(
            [record("job", slot, fence) for slot, fence in zip(slots, fences[-1000:], strict=True)]
        )
    found = backend.history("job", limit=LARGEST_INTEGER)
    assert [result.fence for result in found] == fences[::-1]
    assert len(backend.history(limit=2500)) == 2500


def test_a_child_leaves_the_connection_of_its_parent_alone(backend: RedisBackend) -> None:
    claim(backend, "a")
    assert answer_of_child(lambda: backend.history()) == "SchedulerStateError"
    assert answer_of_child(backend.open) == "SchedulerStateError"
    assert answer_of_child(backend.close) == "nothing"
    assert claim(backend, "b").outcome == "running"


def test_a_child_of_a_suspended_store_opens_it_anew(backend: RedisBackend) -> None:
    def use() -> None:
        backend.forget()
        with pytest.raises(SchedulerStateError):
            backend.history()
        backend.open()
        assert claim(backend, "b").outcome == "running"
        backend.close()

    claim(backend, "a")
    backend.suspend()
    assert answer_of_child(use) == "nothing"
    assert claim(backend, "c").outcome == "running"
