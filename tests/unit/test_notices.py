"""Runs that are given back are told of at once, and taken over without waiting for a heartbeat."""

from __future__ import annotations

import queue
import select
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import redis
from contract.driver import a_claim
from contract.hand_clock import START
from support.servers import postgres_url, redis_url
from support.stores import PostgresView, RedisView

from leasecron import RunContext, Scheduler
from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.server import connection as server_connection
from leasecron.backends.urls import backend_for
from leasecron.clock import SystemClock
from leasecron.errors import BackendUnavailable
from leasecron.model import Ending, from_seconds
from leasecron.store import StoreQueue
from leasecron.testing import EventRecorder

LONG = 30.0


View = PostgresView | RedisView
Backend = PostgresBackend | RedisBackend


@pytest.fixture(params=[PostgresView, RedisView], ids=["postgres", "redis"])
def view(request: pytest.FixtureRequest) -> Iterator[View]:
    view: View = request.param()
    yield view
    view.drop()


def backend_of(url: str) -> Backend:
    found = backend_for(url)
    assert isinstance(found, Backend)
    return found


@pytest.fixture
def backends(view: View) -> Iterator[list[Backend]]:
    made = [backend_of(view.url) for _ in range(2)]
    for backend in made:
        backend.open()
    yield made
    for backend in made:
        backend.close()


class OneSlot:
    """A schedule that is due once, in a moment."""

    def __init__(self) -> None:
        self.slot = from_seconds(time.time() + 0.5)

    def next_after(self, t: datetime, /) -> datetime | None:
        return self.slot if t < self.slot else None

    def latest_at(self, t: datetime, /) -> datetime | None:
        return self.slot if t >= self.slot else None


def passed_on_to(backend: Backend, found: list[tuple[str, datetime]]) -> None:
    def told(job: str, slot: datetime) -> None:
        found.append((job, slot))

    backend.hear(told)
    backend.pass_on()
    backend.hear_no_more(told)


def heard(backend: Backend, timeout: float) -> list[tuple[str, datetime]]:
    descriptor = backend.listening()
    assert descriptor is not None
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if select.select([descriptor], [], [], timeout)[0]:
            found: list[tuple[str, datetime]] = []
            passed_on_to(backend, found)
            if found or backend.listening() is None:
                return found
    return []


@pytest.mark.parametrize("job", ["job", "with a space", "ü 'quoted' \\ {braces}"])
def test_others_are_told_of_a_run_that_was_given_back(backends: list[Backend], job: str) -> None:
    holder, backup = backends
    claim = a_claim(round(time.time(), 3) - START, "a", job=job)
    holder.claim([claim])
    holder.release([Ending(job, claim.slot, "a", "interrupted")])

    assert heard(backup, LONG) == [(job, claim.slot)]
    backup.claim([replace(claim, token="b", mode="takeover")])
    backup.release([Ending(job, claim.slot, "b", "interrupted")])
    assert heard(holder, LONG) == [(job, claim.slot)]  # once: of the first it has told itself


def test_what_was_not_given_back_is_not_told(backends: list[Backend]) -> None:
    holder, backup = backends
    claims = [a_claim(round(time.time(), 3) - START, "a", job=f"job-{n}") for n in range(3)]
    holder.claim(claims)
    holder.release([Ending("job-0", claims[0].slot, "other", "interrupted")])
    holder.finish([Ending("job-1", claims[1].slot, "a", "success")])
    holder.release([Ending("job-2", claims[2].slot, "a", "interrupted")])

    assert heard(backup, LONG) == [("job-2", claims[2].slot)]


def test_what_is_no_notice_of_ours_is_passed_over(backends: list[Backend]) -> None:
    holder, backup = backends
    claim = a_claim(round(time.time(), 3) - START, "a")
    holder.claim([claim])
    for text in ("", "hello", "99999999999999999999 job", "1 "):
        if isinstance(backup, PostgresBackend):
            with psycopg.connect(postgres_url(), autocommit=True) as other:
                other.execute("SELECT pg_notify(%s, %s)", [backup.address.schema, text])
        else:
            client: Any = redis.from_url(redis_url())
            client.publish(f"{{{backup.address.prefix}}}:meta", f"other {text}")
            client.close()
    holder.release([Ending("job", claim.slot, "a", "interrupted")])

    found = heard(backup, LONG)
    while ("job", claim.slot) not in found:
        found += heard(backup, LONG)
    assert [job for job, _slot in found if job] == ["job"]


def test_who_does_not_want_to_listen_has_one_connection(view: View) -> None:
    backend = backend_of(f"{view.url}&listen=off")
    backend.open()
    assert backend.listening() is None
    backend.pass_on()
    claim = a_claim(round(time.time(), 3) - START, "a")
    assert backend.claim([claim])[0].outcome == "won"
    assert backend.listening() is None
    backend.close()


def test_all_who_share_a_store_are_told_whoever_passes_it_on(backends: list[Backend]) -> None:
    holder, shared = backends
    claim = a_claim(round(time.time(), 3) - START, "a")
    one: list[datetime] = []
    other: list[datetime] = []
    tell_one, tell_other = (
        (lambda _job, slot: one.append(slot)),
        (lambda _job, slot: other.append(slot)),
    )
    shared.hear(tell_one)
    shared.hear(tell_other)
    holder.claim([claim])
    holder.release([Ending("job", claim.slot, "a", "interrupted")])

    assert heard(shared, LONG) == [("job", claim.slot)]
    assert one == other == [claim.slot]
    shared.hear_no_more(tell_one)
    again = replace(claim, token="b", mode="takeover")
    holder.claim([again])
    holder.release([Ending("job", claim.slot, "b", "interrupted")])
    heard(shared, LONG)
    assert (len(one), len(other)) == (1, 2)


def test_each_store_thread_of_a_shared_store_hears(backends: list[Backend]) -> None:
    holder, shared = backends
    claim = a_claim(round(time.time(), 3) - START, "a")
    told: queue.SimpleQueue[tuple[int, datetime]] = queue.SimpleQueue()
    clock = SystemClock()

    def thread(number: int) -> StoreQueue:
        return StoreQueue(
            shared, clock, lambda *_: None, lambda _job, slot: told.put((number, slot))
        )

    threads = [thread(number) for number in range(3)]
    for each in threads:
        each.open()
        each.ask("unfinished", lambda backend: backend.unfinished(["job"]), LONG)
    holder.claim([claim])
    holder.release([Ending("job", claim.slot, "a", "interrupted")])

    assert sorted(told.get(timeout=LONG) for _ in threads) == [(n, claim.slot) for n in range(3)]
    ended = queue.SimpleQueue[None]()
    for each in threads:
        each.close(lambda: ended.put(None))
    for _ in threads:
        ended.get(timeout=LONG)
    assert shared._hearers == []


def cut_off(backend: Backend) -> None:
    """End the connection that listens, and no other, and have that noticed."""
    if isinstance(backend, PostgresBackend):
        listener = backend._server._listener
        assert listener is not None
        with psycopg.connect(postgres_url(), autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", [listener.process])
    else:
        client: Any = redis.from_url(redis_url())
        client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        client.close()
    assert heard(backend, LONG) == []


def test_a_listener_that_was_cut_off_is_replaced_at_a_call(
    backends: list[Backend], monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, backup = backends
    monkeypatch.setattr(server_connection, "LONGEST_DELAY", 0.0)
    backup.suspend()  # so that it connects anew
    backup.unfinished(["job"])
    claim = a_claim(round(time.time(), 3) - START, "a")
    for _ in range(2):
        cut_off(backup)
        assert backup.unfinished(["job"]) == []
        assert backup.listening() is not None
    holder.claim([claim])
    holder.release([Ending("job", claim.slot, "a", "interrupted")])
    assert heard(backup, LONG) == [("job", claim.slot)]


def test_a_listener_that_cannot_be_had_is_asked_for_less_and_less(
    backends: list[Backend], monkeypatch: pytest.MonkeyPatch
) -> None:
    _holder, backup = backends
    began = round(time.monotonic()) + 1000.0
    now, asked = [began], []

    def none_to_be_had() -> None:
        asked.append(now[0] - began)
        raise BackendUnavailable("one too many")

    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(server_connection, "time", clock)
    monkeypatch.setattr(backup._server, "_new_listener", none_to_be_had)
    backup.suspend()
    while now[0] < began + 2500:
        backup.unfinished(["job"])
        assert backup.listening() is None
        now[0] += 0.5

    assert asked == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1623, 2223]


def test_a_listener_that_was_cut_off_costs_nothing_but_time(
    backends: list[Backend],
) -> None:
    holder, backup = backends
    cut_off(backup)
    assert backup.listening() is None
    claim = a_claim(round(time.time(), 3) - START, "a")
    assert backup.claim([claim])[0].outcome == "won"
    assert holder.unfinished(["job"])[0].alive


def test_a_planned_restart_hands_over_at_once(view: View) -> None:
    ended, begun = threading.Event(), threading.Event()
    holders: list[int] = []

    def handler(number: int, ctx: RunContext) -> None:
        if ctx.attempt == 1:
            holders.append(number)
            begun.set()
            ctx.signal.wait(LONG)
            ctx.signal.raise_if_set()
        ended.set()

    due = OneSlot()
    schedulers = [Scheduler(view.url) for _ in range(2)]
    recorders = [EventRecorder() for _ in schedulers]
    for number, scheduler in enumerate(schedulers):
        scheduler.on("*", recorders[number])
        work = partial(handler, number)
        scheduler.add("job", due, work, jitter=0, lease="4m", catch_up="1h")
    try:
        for scheduler in schedulers:
            scheduler.start()
        assert begun.wait(LONG)
        (holder,) = holders
        recorders[1 - holder].wait_for("skip", timeout=LONG)
        schedulers[holder].stop()
        assert ended.wait(LONG)  # half of what it takes where nobody is told
    finally:
        for scheduler in schedulers:
            scheduler.stop()
