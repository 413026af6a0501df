"""Redis servers that cannot be used: one clear error at ``open``, and never the password."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from redis_support import Server, claim

from leasecron.backends.redis import wire as redis_wire
from leasecron.backends.redis.backend import RedisBackend
from leasecron.errors import BackendError, BackendMismatch, BackendUnavailable

SECRET = "s3cr3t"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with a password, and some users with rights of their own."""
    made = Server()
    made.client.config_set("requirepass", SECRET)
    made.client.execute_command("AUTH", SECRET)
    users = {
        "reader": "+@read +eval +evalsha +info +time",
        "stranger": "-@all +info",
        "worker": "+@all -config -info -cluster -client",
    }
    for name, rights in users.items():
        made.client.execute_command(
            "ACL", "SETUSER", name, "on", f">{SECRET}", "~*", *rights.split()
        )
    yield made
    made.end()


@pytest.fixture(autouse=True)
def emptied(server: Server) -> None:
    server.client.execute_command("AUTH", SECRET)
    server.client.flushall()


def refused(url: str, kind: type[BackendError] = BackendError) -> str:
    """Open a store, which fails for good, and return what is said of it."""
    backend = RedisBackend(url)
    with pytest.raises(BackendError) as raised:
        backend.open()
    assert type(raised.value) is kind
    error: BaseException | None = raised.value
    while error is not None:
        assert SECRET not in f"{error} {error!r} {error.args}"
        error = error.__cause__
    assert backend.description in str(raised.value)
    assert backend._server._wire is None
    return str(raised.value)


def test_a_wrong_password_is_told_with_host_database_and_user(server: Server) -> None:
    text = refused(f"redis://reader:{SECRET}-{SECRET}@{server.place}/3")
    assert f"redis://reader@{server.place}/3" in text
    assert "invalid username-password pair" in text


def test_a_missing_password_is_told(server: Server) -> None:
    assert "Authentication required" in refused(server.url)


@pytest.mark.parametrize("user", ["reader", "stranger"])
def test_a_user_without_the_rights_is_told(server: Server, user: str) -> None:
    said = refused(f"redis://{user}:{SECRET}@{server.place}")
    assert re.search("permission|can't run this command", said)  # before Redis 7.2 in a script
    assert server.client.keys() == []


def test_a_user_who_may_ask_for_no_settings_can_still_use_the_store(server: Server) -> None:
    backend = RedisBackend(f"redis://worker:{SECRET}@{server.place}")
    backend.open()
    assert claim(backend, "a").outcome == "won"
    assert {check.verdict for check in backend.checks()} == {"good", "warning"}
    assert any("could not be asked" in text for text in backend.warnings)
    backend.close()


def test_a_database_that_is_not_there_is_told(server: Server) -> None:
    assert "out of range" in refused(f"redis://:{SECRET}@{server.place}/9999")


def test_nobody_at_the_address_may_come_later() -> None:
    text = refused(f"redis://ann:{SECRET}@127.0.0.1:1/2", BackendUnavailable)
    assert "redis://ann@127.0.0.1:1/2" in text


def test_a_server_that_speaks_another_language_is_told(server: Server) -> None:
    text = refused(f"rediss://:{SECRET}@{server.place}?socket_timeout=0.3", BackendUnavailable)
    assert "rediss://" in text


def test_a_replica_is_told(server: Server) -> None:
    server.client.replicaof("127.0.0.1", 1)
    try:
        assert "can only be read" in refused(f"redis://:{SECRET}@{server.place}")
    finally:
        server.client.replicaof("NO", "ONE")


def test_a_server_that_became_a_replica_is_waited_for(server: Server) -> None:
    backend = RedisBackend(f"redis://:{SECRET}@{server.place}")
    backend.open()
    server.client.replicaof("127.0.0.1", 1)
    try:
        for _ in range(2):
            with pytest.raises(BackendUnavailable):
                claim(backend, "a")
    finally:
        server.client.replicaof("NO", "ONE")
    assert claim(backend, "a").outcome == "won"
    backend.close()


def test_a_password_that_was_changed_is_waited_for(server: Server) -> None:
    backend = RedisBackend(f"redis://worker:{SECRET}@{server.place}")
    backend.open()
    backend.suspend()
    server.client.execute_command("ACL", "SETUSER", "worker", "resetpass", ">other")
    try:
        with pytest.raises(BackendUnavailable):
            claim(backend, "a")
    finally:
        server.client.execute_command("ACL", "SETUSER", "worker", "resetpass", f">{SECRET}")
    assert claim(backend, "a").outcome == "won"
    backend.close()


def test_an_old_server_is_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    info = redis_wire.Wire.info
    monkeypatch.setattr(
        redis_wire.Wire, "info", lambda self: info(self) | {"redis_version": "5.0.14"}
    )
    assert "needs Redis 6 or newer" in refused(f"redis://:{SECRET}@{server.place}")


def test_a_server_whose_memory_is_full_may_have_room_later(server: Server) -> None:
    backend = RedisBackend(f"redis://:{SECRET}@{server.place}")
    backend.open()
    server.client.config_set("maxmemory", "1")
    try:
        with pytest.raises(BackendUnavailable, match="maxmemory"):
            claim(backend, "a")
    finally:
        server.client.config_set("maxmemory", "0")
    assert claim(backend, "a").outcome == "won"
    backend.close()


def test_a_store_of_a_newer_program_is_left_alone(server: Server) -> None:
    server.client.hset("{leasecron}:meta", "version", "3")
    text = refused(f"redis://:{SECRET}@{server.place}", BackendMismatch)
    assert "update leasecron" in text
    assert server.client.hgetall("{leasecron}:meta") == {b"version": b"3"}


def test_a_store_that_became_newer_is_noticed(server: Server) -> None:
    backend = RedisBackend(f"redis://:{SECRET}@{server.place}")
    backend.open()
    server.client.hset("{leasecron}:meta", "version", "3")
    with pytest.raises(BackendUnavailable, match="changed by another version"):
        claim(backend, "a")
    with pytest.raises(BackendMismatch):
        claim(backend, "a")
    backend.close()


def test_keys_of_others_are_left_alone(server: Server) -> None:
    server.client.set("{leasecron}:runs", "mine")
    assert "is a string" in refused(f"redis://:{SECRET}@{server.place}", BackendMismatch)
    assert server.client.keys() == [b"{leasecron}:runs"]

    server.client.flushall()
    server.client.hset("{leasecron}:meta", "mine", "too")
    refused(f"redis://:{SECRET}@{server.place}", BackendMismatch)
    assert server.client.hgetall("{leasecron}:meta") == {b"mine": b"too"}


def test_who_asks_for_a_store_and_finds_a_key_of_others_is_told_whose_it_is(server: Server) -> None:
    server.client.set("{leasecron}:meta", "mine")
    backend = RedisBackend(f"redis://:{SECRET}@{server.place}")
    with pytest.raises(BackendMismatch, match=r"another program.*\?prefix="):
        _ = backend.is_missing
