"""Backfills in a Redis store: what its server and other stores add to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis_support import (
    SLOT,
    Server,
    a_claim,
    a_row,
    a_server,
    at,
    end,
    pass_on,
    pruned,
    take,
    told_to,
    two_opened,
)

from leasecron.backends.redis.backend import RedisBackend
from leasecron.backends.redis.scripts import keys_of
from leasecron.backends.transfer import Absorbed, JobRow, Page
from leasecron.model import (
    Advance,
    BackfillState,
    Declaration,
    Ending,
    LeaseState,
    NewBackfill,
    NewRun,
    OneOff,
    to_ms,
)

NOW = to_ms(SLOT)
KEYS = dict(zip(("meta", "jobs", "runs", "slots"), keys_of("leasecron"), strict=False))
NAMES = ["", "*", "*:", "1:a:", "a b", "é🎉", "nul\0inside"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    yield from a_server()


@pytest.fixture
def backends(server: Server) -> Iterator[list[RedisBackend]]:
    yield from two_opened(server)


@pytest.fixture
def backend(backends: list[RedisBackend]) -> RedisBackend:
    return backends[0]


def a_backfill(job: str = "job", last: float = 100) -> NewBackfill:
    return NewBackfill(job, at(0), at(last), 10, "asker")


def go_on(backend: RedisBackend, cursor: float | None, slot: float | None) -> str:
    (state,) = backend.backfills()
    came_to, goes_to = (None if each is None else at(each) for each in (cursor, slot))
    return backend.advance(Advance(state.job, state.asked_at, came_to, goes_to))


def test_all_are_told_once_of_a_backfill_that_begins(backends: list[RedisBackend]) -> None:
    one, other = backends
    heard, heard_by_other = told_to(one), told_to(other)
    first = one.add_backfill(a_backfill("with a space"))

    assert one.add_backfill(a_backfill("with a space", last=50)) == first
    one.add_backfill(a_backfill())

    assert [heard.get_nowait() for _ in range(2)] == [("with a space", at(0)), ("job", at(0))]
    while heard_by_other.qsize() < 2:
        pass_on(other)
    assert [heard_by_other.get() for _ in range(2)] == [("with a space", at(0)), ("job", at(0))]
    assert heard.empty()


def test_who_listens_looks_seldom(server: Server, backend: RedisBackend) -> None:
    deaf = RedisBackend(f"{server.url}?listen=off")
    deaf.open()

    assert (backend.look_every, deaf.look_every) == (15.0, 1.0)

    backend.suspend()
    assert backend.look_every == 1.0
    deaf.close()


def test_jobs_of_any_name_have_backfills_of_their_own(backend: RedisBackend) -> None:
    begun = [backend.add_backfill(a_backfill(name)) for name in NAMES]
    assert backend.backfills() == sorted(begun, key=lambda state: state.job)
    assert [backend.backfill(name) for name in NAMES] == begun
    for number, name in enumerate(NAMES):
        assert backend.cancel_backfill(name, begun[number].asked_at)
        left = sorted(begun[number + 1 :], key=lambda state: state.job)
        assert backend.backfills() == left


def test_a_look_costs_nothing_for_backfills_that_have_ended(
    server: Server, backend: RedisBackend
) -> None:
    for number in range(20):
        begun = backend.add_backfill(a_backfill(f"job-{number}"))
        assert backend.cancel_backfill(f"job-{number}", begun.asked_at)
    backend.backfills()
    server.client.config_resetstat()

    assert backend.backfills() == []

    calls = server.client.info("commandstats")
    asked = {name for name in calls if name.startswith("cmdstat_h")}
    assert asked == {"cmdstat_hmget", "cmdstat_hget"}
    assert calls["cmdstat_hget"]["calls"] == 1


def test_a_run_of_the_schedule_is_listed_anew_when_it_is_run_again(
    server: Server, backend: RedisBackend
) -> None:
    backend.claim([a_claim("a"), a_claim("a", seconds=1)])
    backend.add_runs([NewRun("job", at(0.5), "asker")])
    for seconds in (0, 1):
        end(backend, seconds, "a", "failed")
    begun = backend.add_backfill(a_backfill())

    assert go_on(backend, None, 0) == "waiting"
    assert [(state.slot, state.origin) for state in backend.asked_for()] == [
        (at(0), "backfill"),
        (at(0.5), "manual"),
    ]
    assert take(backend, 0, "b") == "won"
    end(backend, 0, "b")
    assert go_on(backend, 0, 0.5) == "waiting"  # whoever asked for it
    assert [(state.slot, state.origin) for state in backend.asked_for()] == [(at(0.5), "backfill")]

    signs = [name.decode()[0] for name in server.client.zrange(KEYS["slots"], 0, -1)]
    assert signs == ["+", "+", "3"]  # two of the backfill, and one by its place
    assert server.client.hlen(KEYS["runs"]) == 3

    take(backend, 0.5, "b")
    end(backend, 0.5, "b", "failed")
    assert backend.cancel_backfill("job", begun.asked_at)
    backend.add_backfill(a_backfill())
    assert go_on(backend, None, 0.5) == "waiting"
    assert server.client.zcard(KEYS["slots"]) == server.client.hlen(KEYS["runs"]) == 3


def test_runs_of_all_lists_are_pruned_a_bounded_number_at_a_time(
    server: Server, backend: RedisBackend
) -> None:
    backend.claim([a_claim("a", seconds=seconds) for seconds in range(6)])
    backend.add_runs([NewRun("job", at(0.5), "asker")])
    for seconds in range(6):
        end(backend, seconds, "a", "failed")
    backend.add_backfill(a_backfill())
    before = None
    for seconds in (1, 3, 7):
        assert go_on(backend, before, seconds) == "waiting"
        assert take(backend, seconds, "b") == "won"
        end(backend, seconds, "b")
        before = seconds
    left = {*range(6), 0.5, 7}

    def kept() -> set[float]:
        found = {seconds for seconds in left if backend.run_state("job", at(seconds)) is not None}
        assert server.client.hlen(KEYS["runs"]) == server.client.zcard(KEYS["slots"]) == len(found)
        return found

    assert kept() == left
    assert pruned(backend, 3)
    assert len(kept()) == 5
    assert not pruned(backend, 10)
    assert kept() == {0.5, 7}  # what waits, and the newest, which is of the backfill
    assert backend.claim([a_claim("z", seconds=5)])[0].outcome == "done"
    assert backend.claim([a_claim("z", seconds=6)])[0].outcome == "won"


def test_what_succeeded_is_told_of_any_number_of_runs(backend: RedisBackend) -> None:
    of_each = {"scheduled": (0.0, 2500), "backfill": (0.3, 1500), "manual": (0.6, 1200)}
    slots = {
        origin: [number + fraction for number in range(count)]
        for origin, (fraction, count) in of_each.items()
    }
    for origin, of_origin in slots.items():
        rows = [a_row(seconds, "success", 1, origin=origin) for seconds in of_origin]
        failed = [a_row(seconds + 0.1, "failed", 1, origin=origin) for seconds in of_origin[::100]]
        backend.absorb(Page(runs=[*rows, *failed]))
    expected = sorted(seconds for of_origin in slots.values() for seconds in of_origin)

    found = backend.succeeded("job", at(0), at(2499))

    assert found == [at(seconds) for seconds in expected if seconds < 2499]
    assert backend.succeeded("job", at(1499), at(1500)) == [at(1499), at(1499.3)]
    assert backend.succeeded("job", at(5), at(5)) == backend.succeeded("job", at(6), at(5)) == []


def test_backfills_and_instants_of_another_store_are_taken_over(backend: RedisBackend) -> None:
    begun = BackfillState("job", at(0), at(100), 10, "asker", at(0), at(20), 1, 2, None)
    over = BackfillState("over", at(0), at(100), 10, "asker", at(0), None, 0, 0, at(1))
    page = Page(
        jobs=[JobRow("job", "daily", NOW, NOW, None), JobRow("once", "", NOW, NOW, None, NOW)],
        runs=[a_row(20, "released", 0, origin="backfill")],
        backfills=[begun, over],
    )

    assert backend.absorb(page) == Absorbed(2, 1, 0, 0)
    assert backend.absorb(page) == Absorbed(0, 0, 0, 0)

    assert backend.backfills() == [begun]
    assert backend.backfill("over") == over
    assert backend.fix([OneOff("once", at(9)), OneOff("job", at(9))]) == [at(0), at(9)]
    assert backend.asked_for() == [LeaseState("job", at(20), 0, alive=False, origin="backfill")]
    assert take(backend, 20, "a") == "won"
    end(backend, 20, "a")
    assert go_on(backend, 20, 30) == "waiting"
    backend.absorb(page)
    (state,) = backend.backfills()
    assert (state.cursor, state.succeeded) == (at(30), 2)


def test_an_instant_is_taken_over_only_where_there_is_none(backend: RedisBackend) -> None:
    backend.declare([Declaration("job", "once")])
    assert backend.fix([OneOff("known", at(1))]) == [at(1)]
    instants = {"job": NOW, "known": to_ms(at(5))}
    page = Page(jobs=[JobRow(name, "", NOW, NOW, None, ms) for name, ms in instants.items()])

    assert backend.absorb(page) == Absorbed(0, 0, 0, 0)

    assert backend.fix([OneOff(name, at(9)) for name in instants]) == [at(0), at(1)]
    assert [job.schedule for job in backend.jobs()] == ["once", ""]


def claimed(backend: RedisBackend, *slots: float) -> list[str]:
    """Claim slots in one call, and return the outcomes."""
    claims = [a_claim(f"t{slot}", seconds=slot, overlap="skip") for slot in slots]
    return [answer.outcome for answer in backend.claim(claims)]


def test_slots_that_meet_a_backfill_in_one_call_wait_for_it(backend: RedisBackend) -> None:
    backend.add_backfill(a_backfill())
    go_on(backend, None, 0)
    assert take(backend, 0, "a") == "won"

    assert claimed(backend, 20, 10, 30) == ["overlap", "done", "overlap"]
    assert go_on(backend, 0, 5) == "stale"
    end(backend, 0, "a")
    assert go_on(backend, 0, 5) == "busy"
    assert take(backend, 20, "b", overlap="skip") == "done"
    assert take(backend, 30, "b", overlap="skip") == "won"
    assert claimed(backend, 40) == ["overlap"]
    assert [state.slot for state in backend.unfinished(["job"])] == [at(30)]  # 40 was skipped


def test_a_slot_waits_for_a_backfill_that_is_begun_in_the_same_call(backend: RedisBackend) -> None:
    backend.add_backfill(a_backfill())
    go_on(backend, None, 0)
    begin = a_claim("a", mode="takeover", trigger="takeover", overlap="skip")

    answers = backend.claim([begin, a_claim("b", seconds=10, overlap="skip")])

    assert [answer.outcome for answer in answers] == ["won", "overlap"]
    assert [state.slot for state in backend.unfinished(["job"])] == [at(0), at(10)]


def test_a_slot_does_not_wait_for_one_that_is_begun_in_the_same_call(
    backend: RedisBackend,
) -> None:
    assert claimed(backend, 0) == ["won"]
    backend.release([Ending("job", at(0), "t0", "interrupted")])

    assert claimed(backend, 10, 20) == ["won", "overlap"]
    assert [state.slot for state in backend.unfinished(["job"])] == [at(10)]
