"""What a Redis store says of settings of its server that weaken the promise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis_support import Server, a_server

from leasecron.backends.checks import Check, Verdict
from leasecron.backends.redis import checks as redis_checks
from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.redis.wire import Wire


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    yield from a_server()


@pytest.fixture
def backend(server: Server) -> Iterator[RedisBackend]:
    made = RedisBackend(server.url)
    made.open()
    yield made
    made.close()


def check(backend: RedisBackend, name: str) -> Check:
    """Return one of the checks."""
    (found,) = [found for found in backend.checks() if found.name == name]
    return found


def test_a_server_that_keeps_all_is_good_and_quickly_so(backend: RedisBackend) -> None:
    began = time.monotonic()
    found = backend.checks()
    assert time.monotonic() - began < 0.1
    assert {each.verdict for each in found} == {"good"}
    assert len({each.name for each in found}) == len(found)
    assert backend.warnings == ()


@pytest.mark.parametrize(
    ("setting", "value", "usual", "name", "verdict", "words"),
    [
        ("appendfsync", "everysec", "always", "persistence", "warning", "last second"),
        ("appendfsync", "no", "always", "persistence", "warning", "half minute"),
        ("no-appendfsync-on-rewrite", "yes", "no", "persistence", "warning", "not on rewrite"),
        ("appendonly", "no", "yes", "persistence", "warning", "comes back without"),
        ("maxmemory-policy", "allkeys-lru", "noeviction", "memory", "warning", "gets a limit"),
        ("maxmemory-policy", "volatile-ttl", "noeviction", "memory", "good", "no key"),
    ],
)
def test_a_setting_is_judged(
    server: Server, setting: str, value: str, usual: str, name: str, verdict: Verdict, words: str
) -> None:
    server.client.config_set(setting, value)
    try:
        backend = RedisBackend(server.url)
        backend.open()
        found = check(backend, name)
        warnings = backend.warnings
        backend.close()
    finally:
        server.client.config_set(setting, usual)
    assert found.verdict == verdict
    assert value in found.found
    assert words in found.reason
    assert warnings == (() if verdict == "good" else (found.reason,))


def test_a_server_that_evicts_is_bad(server: Server, backend: RedisBackend) -> None:
    server.client.config_set("maxmemory", "1gb")
    server.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        found = check(backend, "memory")
    finally:
        server.client.config_set("maxmemory", "0")
        server.client.config_set("maxmemory-policy", "noeviction")
    assert found.verdict == "bad"
    assert "is full" in found.reason


@pytest.mark.parametrize(("needed", "verdict"), [("0", "warning"), ("1", "good")])
def test_replicas_are_judged_by_whether_they_are_waited_for(
    backend: RedisBackend, monkeypatch: pytest.MonkeyPatch, needed: str, verdict: str
) -> None:
    info = Wire.info
    monkeypatch.setattr(Wire, "info", lambda self: info(self) | {"connected_slaves": "2"})
    monkeypatch.setattr(redis_checks, "_setting", lambda _wire, _name: needed)
    found = check(backend, "replicas")
    assert (found.verdict, found.found) == (verdict, f"2 connected, min-replicas-to-write={needed}")


def test_a_clock_that_differs_is_told(
    backend: RedisBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() - 3)
    found = check(backend, "clock")
    assert (found.verdict, found.found) == ("warning", "the server's is 3.0 s ahead")
    assert check(backend, "server").verdict == "good"


def test_what_may_not_be_asked_is_said_to_be_unknown(
    backend: RedisBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_arguments: Any) -> None:
        return None

    monkeypatch.setattr(redis_checks, "_setting", nothing)
    assert "unknown" in check(backend, "persistence").found
    monkeypatch.setattr(Wire, "info", lambda _self: {})
    for name in ("persistence", "replicas", "memory"):
        found = check(backend, name)
        assert (found.verdict, found.found) == ("warning", "unknown")
        assert "could not be asked" in found.reason
