"""A Redis store of version 1, which knew of no retries, pauses and runs that are asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from redis_support import Server, a_claim, a_server, claim

from leasecron.backends.redis import connection as redis_connection
from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.redis.scripts import keys_of
from leasecron.errors import BackendMismatch, BackendUnavailable
from leasecron.model import (
    Advance,
    Declaration,
    Ending,
    LeaseRef,
    LeaseState,
    NewBackfill,
    NewRun,
    OneOff,
    Retention,
    Retry,
    from_ms,
)

# Rows had eleven values and records ten, and there was no other key.
VERSION_1 = """
    local meta, jobs, runs, slots, open, pruned, records, history = unpack(KEYS)
    local now = tonumber(ARGV[1])
    local pack, call = cmsgpack.pack, redis.call

    local function ordered(number)
        return string.format('%016.0f', number + 1e15)
    end

    local function head_of(job)
        return #job .. ':' .. job .. ':'
    end

    local function run(job, slot, ...)
        call('HSET', runs, head_of(job) .. ordered(slot), pack(...))
        call('ZADD', slots, 0, head_of(job) .. ordered(slot))
    end

    call('HSET', meta, 'version', '1', 'fence', string.format('%.0f', now))
    call('HSET', jobs, 'job', pack(now - 9e6, now - 100, 'every 10 s'))
    call('HSET', pruned, 'job', string.format('%.0f', now - 9e5))
    run('job', now - 6e4, 'success', 'a', 1, 0, 1001, nil, 'i-a', 'scheduled', now - 6e4, now - 5e4,
        true)
    run('job', now - 5e4, 'replaced', false, 1, 1, 1002, nil, 'i-b', 'scheduled', now - 5e4,
        now - 4e4, true)
    run('job', now - 1e4, 'claimed', 'c', 1, 0, 1003, nil, 'i-c', 'scheduled', now - 1e4, now + 6e5,
        false)
    run('crashed', now - 1e4, 'claimed', 'd', 1, 0, 1004, nil, 'i-d', 'catch-up', now - 1e4,
        now - 5e3, false)
    run('released', now - 1e4, 'released', 'e', 1, 0, 1005, 1005, 'i-e', 'scheduled', now - 1e4,
        now - 5e3, true)
    for _, job in ipairs({'job', 'crashed', 'released'}) do
        call('HSET', open, job, pack({now - 1e4}))
    end
    local text = string.format(
        '[%.0f,1001,"job",%.0f,1,"i-a","scheduled","success",%.0f,null]', now - 5e4, now - 6e4,
        now - 6e4
    )
    call('HSET', records, ordered(1001), text)
    call('ZADD', history, 0, head_of('job') .. ordered(1001), 0, '*:' .. ordered(1001))
"""
JOBS = ["crashed", "job", "released"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    yield from a_server()


@pytest.fixture
def now(server: Server) -> int:
    """Have nothing but a store of version 1, and return when that was, in milliseconds."""
    server.client.flushall()
    began = int(time.time() * 1000)
    keys = keys_of("leasecron")[:8]
    server.client.eval(VERSION_1, len(keys), *keys, began)
    return began


@pytest.fixture
def backend(server: Server, now: int) -> Iterator[RedisBackend]:
    made = RedisBackend(server.url)
    made.open()
    yield made
    made.close()


def version(server: Server) -> bytes:
    found: bytes = server.client.hget("{leasecron}:meta", "version")
    return found


def at(now: int, seconds: int) -> int:
    return now + seconds * 1000


def test_it_is_brought_up_to_date_when_it_is_opened(server: Server, now: int) -> None:
    rows = server.client.hgetall("{leasecron}:runs")
    (look,) = [each for each in RedisBackend(server.url).examine() if each.name == "layout"]
    assert (look.verdict, look.found) == ("warning", "version 1")
    assert version(server) == b"1"

    for _ in range(2):
        with closing(RedisBackend(server.url)) as backend:
            backend.open()
        assert version(server) == b"2"

    assert server.client.hgetall("{leasecron}:runs") == rows


def test_what_it_knew_is_known(backend: RedisBackend, now: int) -> None:
    slot = from_ms(at(now, -10))
    assert backend.unfinished(JOBS) == [
        LeaseState("crashed", slot, 1, alive=False),
        LeaseState("job", slot, 1, alive=True),
        LeaseState("released", slot, 1, alive=False),
    ]
    (record,) = backend.history()
    assert (record.fence, record.status, record.retries) == (1001, "success", 0)
    state = backend.run_state("job", from_ms(at(now, -60)))
    assert state is not None
    assert (state.state, state.attempt, state.result) == ("success", 1, record)
    (job,) = backend.jobs()
    assert (job.name, job.schedule, job.paused_at) == ("job", "every 10 s", None)
    assert backend.asked_for() == []
    assert backend.pauses("job") == []
    for seconds in (-60, -50, -1000):
        (answer,) = backend.claim([a_claim("z", slot=from_ms(at(now, seconds)))])
        assert answer.outcome == "done"


def test_a_run_at_work_goes_on(server: Server, backend: RedisBackend, now: int) -> None:
    slot = from_ms(at(now, -10))
    assert backend.heartbeat([LeaseRef("job", slot, "c", 60.0)]) == ["ok"]
    assert backend.retry([Retry("job", slot, "c", 2)]) == [True]
    waiting = a_claim("z", slot=from_ms(now), overlap="cancel")
    assert backend.claim([waiting])[0].outcome == "overlap"
    assert backend.heartbeat([LeaseRef("job", slot, "c", 60.0)]) == ["replaced"]
    assert backend.finish([Ending("job", slot, "c", "failed", pause="it failed")]) == [True]
    assert backend.claim([waiting])[0].outcome == "paused"


def test_a_run_without_a_holder_is_taken_over(backend: RedisBackend, now: int) -> None:
    slot = from_ms(at(now, -10))
    for job, closed in (("crashed", [("catch-up", "lost", 0)]), ("released", [])):
        (answer,) = backend.claim([a_claim("z", job, slot=slot, mode="takeover")])
        assert (answer.outcome, answer.attempt, answer.retries) == ("won", 2, 0)
        found = [(record.trigger, record.status, record.retries) for record in answer.closed]
        assert found == closed


def test_it_knows_what_is_new_from_then_on(backend: RedisBackend, now: int) -> None:
    assert backend.pause("job", "a note")
    (pause,) = backend.pauses("job")
    assert (pause.resumed_at, pause.note) == (None, "a note")
    asked = NewRun("crashed", from_ms(at(now, -5)), "asker")
    assert backend.add_runs([asked]) == [True]
    assert backend.asked_for() == [
        LeaseState("crashed", asked.slot, 0, alive=False, origin="manual")
    ]
    backend.declare([Declaration("crashed", "daily")])
    assert [job.name for job in backend.jobs()] == ["crashed", "job"]


def test_its_runs_are_run_again_in_a_backfill(backend: RedisBackend, now: int) -> None:
    first, second = from_ms(at(now, -60)), from_ms(at(now, -50))
    assert backend.fix([OneOff("job", first)]) == [first]
    assert [(job.schedule, job.last_seen) for job in backend.jobs()] == [
        ("every 10 s", from_ms(now - 100))
    ]
    assert backend.succeeded("job", first, from_ms(now)) == [first]
    begun = backend.add_backfill(NewBackfill("job", first, from_ms(now), 1, "asker"))
    assert backend.backfills() == [begun]
    assert backend.advance(Advance("job", begun.asked_at, None, first)) == "skipped"
    assert backend.advance(Advance("job", begun.asked_at, first, second)) == "waiting"
    claim_again = a_claim("z", slot=second, mode="takeover", trigger="takeover")
    (answer,) = backend.claim([claim_again])
    assert (answer.outcome, answer.attempt, answer.trigger) == ("won", 1, "backfill")


def test_its_rows_are_pruned(server: Server, backend: RedisBackend, now: int) -> None:
    assert not backend.prune([Retention("job", 0.0, 0, 0.0)])

    assert backend.run_state("job", from_ms(at(now, -60))) is None
    assert backend.history() == []
    assert server.client.zcard("{leasecron}:slots") == 3
    assert claim(backend, "z", slot=from_ms(at(now, -55))).outcome == "done"


def test_a_program_of_version_1_is_told_to_be_updated(
    server: Server, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_connection, "VERSION", 1)
    monkeypatch.setattr(redis_connection, "OLDER", ())
    old = RedisBackend(server.url)
    old.open()
    assert claim(old, "z", slot=from_ms(at(now, -60))).outcome == "done"
    monkeypatch.undo()
    with closing(RedisBackend(server.url)) as backend:
        backend.open()

    monkeypatch.setattr(redis_connection, "VERSION", 1)
    monkeypatch.setattr(redis_connection, "OLDER", ())
    with pytest.raises(BackendUnavailable):
        claim(old, "z")
    with pytest.raises(BackendMismatch, match="layout 2, this one knows 1"):
        claim(old, "z")
    assert version(server) == b"2"
    old.close()


def test_a_store_that_goes_back_to_version_1_is_brought_up_to_date_again(
    server: Server, backend: RedisBackend
) -> None:
    server.client.hset("{leasecron}:meta", "version", "1")  # as from a backup of the server

    with pytest.raises(BackendUnavailable):
        claim(backend, "z")

    assert claim(backend, "z").outcome == "won"
    assert version(server) == b"2"
