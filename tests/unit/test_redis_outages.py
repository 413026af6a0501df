"""Redis servers that are restarted, hang, forget: what a store does meanwhile and afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from redis_support import Server, a_claim, a_server, claim, until

from leasecron import Scheduler, StoreFailed
from leasecron.backends.base import StoreEmptied
from leasecron.backends.redis.backend import RedisBackend
from leasecron.errors import BackendUnavailable
from leasecron.model import Ending


@pytest.fixture
def server() -> Iterator[Server]:
    yield from a_server()


@pytest.fixture
def backend(server: Server) -> Iterator[RedisBackend]:
    made = RedisBackend(server.url)
    made.open()
    yield made
    made.close()


def unavailable(call: Callable[[], object]) -> float:
    """Make a call, which fails for now, and return how long that took."""
    began = time.monotonic()
    with pytest.raises(BackendUnavailable):
        call()
    return time.monotonic() - began


def test_scripts_that_were_forgotten_are_sent_again(server: Server, backend: RedisBackend) -> None:
    fence = claim(backend, "a").fence
    server.client.script_flush()
    assert claim(backend, "b").outcome == "running"
    assert claim(backend, "a").fence == fence


def test_a_server_that_was_killed_comes_back_with_its_runs(
    server: Server, backend: RedisBackend
) -> None:
    fence = claim(backend, "a").fence
    assert fence is not None
    server.kill()
    for _ in range(2):
        assert unavailable(lambda: claim(backend, "b")) < 1
    server.start()

    assert claim(backend, "b").outcome == "running"
    assert claim(backend, "a").fence == fence
    later = claim(backend, "c", seconds=1).fence
    assert later is not None
    assert later > fence


def test_a_call_that_finds_its_connection_cut_fails_once(
    server: Server, backend: RedisBackend
) -> None:
    claim(backend, "a")
    server.client.client_kill_filter(_type="normal", skipme=True)
    unavailable(lambda: claim(backend, "b"))
    assert claim(backend, "b").outcome == "running"


@pytest.mark.slow
def test_a_server_that_hangs_is_given_up_and_found_again(
    server: Server, backend: RedisBackend
) -> None:
    claim(backend, "a")
    with server.frozen():
        assert unavailable(lambda: claim(backend, "b")) == pytest.approx(2, abs=0.5)
        assert backend._server._wire is None

    # The claim waits in the server's buffers, and is made all the same; its own token knows it.
    assert claim(backend, "b").outcome == "running"
    assert claim(backend, "a").outcome == "won"


def test_a_server_that_hangs_lets_nobody_in(server: Server) -> None:
    backend = RedisBackend(f"{server.url}?socket_timeout=0.2")
    backend.open()
    with server.frozen():
        for _ in range(2):
            assert unavailable(lambda: claim(backend, "a")) < 1
        assert unavailable(RedisBackend(f"{server.url}?socket_timeout=0.2").open) < 1
    assert claim(backend, "a").outcome == "won"
    backend.close()


def test_a_server_that_forgot_all_says_so_and_begins_anew(
    server: Server, backend: RedisBackend
) -> None:
    first = claim(backend, "a").fence
    assert first is not None
    server.client.flushall()
    for _ in range(2):  # by the call that it meets, and by the connection that is made then
        with pytest.raises(StoreEmptied, match="has lost all that it knew"):
            claim(backend, "b")

    assert backend.finish([Ending("job", a_claim("a").slot, "a", "success")]) == [False]
    second = claim(backend, "b").fence
    assert second is not None
    assert second > first


def test_a_store_that_lost_all_is_told_of_and_knows_the_jobs_again(server: Server) -> None:
    errors: list[StoreFailed] = []
    scheduler = Scheduler(server.url)
    scheduler.on("error", errors.append)
    for n in range(3):
        scheduler.every(f"job-{n}", "100ms", lambda: None, lease="1s", overlap="allow")
    with scheduler:
        until(lambda: server.client.hlen("{leasecron}:jobs") == 3)
        server.client.flushall()
        until(lambda: server.client.hlen("{leasecron}:jobs") == 3)
    assert any("has lost all that it knew" in str(error.exception) for error in errors)


def test_a_password_that_was_changed_later_is_waited_for_and_named(server: Server) -> None:
    user = ("ACL", "SETUSER", "ann")
    server.client.execute_command(*user, "on", ">s3cr3t", "~*", "&*", "+@all")
    backend = RedisBackend(f"redis://ann:s3cr3t@{server.place}/3")
    backend.open()
    server.client.execute_command(*user, "resetpass", ">another")
    server.client.client_kill_filter(_type="normal", skipme=True)
    unavailable(lambda: claim(backend, "a"))
    with pytest.raises(BackendUnavailable) as refused:
        claim(backend, "a")
    server.client.execute_command(*user, ">s3cr3t")

    said = str(refused.value)
    assert f"redis://ann@{server.place}/3 does not let this user in: authentication failed" in said
    assert "s3cr3t" not in said
    assert claim(backend, "a").outcome == "won"
    backend.close()


def test_a_server_that_is_away_is_said_not_to_be_reached(
    server: Server, backend: RedisBackend
) -> None:
    server.kill()
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            claim(backend, "a")


def test_fences_that_were_lost_are_not_given_again(server: Server, backend: RedisBackend) -> None:
    claim(backend, "a")
    kept = server.client.hget("{leasecron}:meta", "fence")
    lost = [claim(backend, "a", seconds=slot).fence for slot in range(1, 4)]
    server.client.hset("{leasecron}:meta", "fence", kept)  # as after a failover
    time.sleep(0.01)

    given = claim(backend, "b", "other").fence
    assert given is not None
    assert given > max(fence for fence in lost if fence is not None)
