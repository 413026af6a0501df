"""Runs that are asked for, and pauses, in a Redis store: what its server and other stores add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    Declaration,
    Ending,
    LeaseState,
    NewRun,
    Pause,
    Retention,
    to_ms,
)

NOW = to_ms(SLOT)
KEYS = dict(zip(("meta", "jobs", "runs", "slots"), keys_of("leasecron"), strict=False))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    yield from a_server()


@pytest.fixture
def backends(server: Server) -> Iterator[list[RedisBackend]]:
    yield from two_opened(server)


@pytest.fixture
def backend(backends: list[RedisBackend]) -> RedisBackend:
    return backends[0]


def asked(seconds: float = 0.5, job: str = "job") -> NewRun:
    return NewRun(job, at(seconds), "asker")


def test_all_are_told_of_a_run_that_is_asked_for(backends: list[RedisBackend]) -> None:
    one, other = backends
    assert one.listening() is not None
    heard, heard_by_other = told_to(one), told_to(other)
    run = asked(job="with a space")

    assert one.add_runs([run, asked(1.5)]) == [True, True]

    assert [heard.get_nowait() for _ in range(2)] == [(run.job, run.slot), ("job", at(1.5))]
    while heard_by_other.qsize() < 2:
        pass_on(other)
    assert [heard_by_other.get() for _ in range(2)] == [(run.job, run.slot), ("job", at(1.5))]
    other.add_runs([asked(2.5)])
    while heard.empty():
        pass_on(one)
    assert heard.get_nowait() == ("job", at(2.5))  # and of its own it was told once
    assert heard.empty()


def test_nobody_is_told_of_what_cannot_be_begun(backends: list[RedisBackend]) -> None:
    one, other = backends
    heard = told_to(other)
    one.claim([a_claim("a")])
    one.add_runs([asked()])
    take(one, 0.5, "b")
    end(one, 0.5, "b")
    pass_on(other)
    assert heard.get_nowait() == ("job", at(0.5))

    assert one.add_runs([asked(0), asked(), asked(1.5)]) == [False, True, True]

    pass_on(other)
    assert heard.get_nowait() == ("job", at(1.5))
    assert heard.empty()


def test_who_may_not_publish_can_ask_for_runs_all_the_same(server: Server) -> None:
    server.client.flushall()
    server.client.execute_command("ACL", "SETUSER", "quiet", "on", ">quiet", "~*", "+@all")
    server.client.execute_command("ACL", "SETUSER", "quiet", "-publish")
    backend = RedisBackend(f"redis://quiet:quiet@{server.place}?listen=off")
    backend.open()
    assert backend.add_runs([asked()]) == [True]
    assert backend.asked_for() == [LeaseState("job", at(0.5), 0, alive=False, origin="manual")]
    backend.close()


def test_what_is_asked_for_and_withdrawn_leaves_nothing(
    server: Server, backend: RedisBackend
) -> None:
    backend.add_runs([asked(), asked(1.5)])
    assert backend.withdraw([asked(), asked(1.5), asked()]) == [True, True, False]

    found = server.client.keys()
    assert {key.decode() for key in found} == {KEYS["meta"]}
    assert backend.jobs() == []


def test_runs_of_either_list_are_pruned_a_bounded_number_at_a_time(
    server: Server, backend: RedisBackend
) -> None:
    backend.add_runs([asked(number + 0.5) for number in range(3)])
    backend.claim([a_claim("a", overlap="queue")])
    backend.claim([a_claim("a", seconds=second, overlap="queue") for second in (1, 2, 3)])
    for number in range(2):
        take(backend, number + 0.5, "m")
        end(backend, number + 0.5, "m")
    end(backend, 0, "a")
    assert take(backend, 3, "a", overlap="queue") == "won"
    end(backend, 3, "a")
    left = {0, 1, 2, 3, 0.5, 1.5, 2.5}

    def kept() -> set[float]:
        found = {seconds for seconds in left if backend.run_state("job", at(seconds)) is not None}
        assert server.client.hlen(KEYS["runs"]) == server.client.zcard(KEYS["slots"]) == len(found)
        return found

    assert kept() == left
    assert pruned(backend, 2)
    assert len(kept()) == 5
    assert pruned(backend, 2)
    assert not pruned(backend, 2)
    assert kept() == {2.5, 3}  # what waits, and the newest of the schedule
    assert backend.claim([a_claim("z", seconds=1.25)])[0].outcome == "done"
    assert backend.claim([a_claim("z", seconds=2.25)])[0].outcome == "won"


def test_a_slot_that_was_not_begun_is_kept_until_a_newer_one_is(backend: RedisBackend) -> None:
    backend.claim([a_claim("a", overlap="queue")])
    backend.claim([a_claim("a", seconds=second, overlap="queue") for second in (1, 2)])
    end(backend, 0, "a")
    assert not pruned(backend, 10)
    state = backend.run_state("job", at(1))
    assert state is not None
    assert state.state == "replaced"

    assert take(backend, 2, "a", overlap="queue") == "won"

    assert not pruned(backend, 10)
    assert backend.run_state("job", at(1)) is None


def test_a_slot_in_the_queue_does_not_wait_for_what_has_to_make_way(backend: RedisBackend) -> None:
    backend.claim([a_claim("a", overlap="cancel")])
    backend.claim([a_claim("b", seconds=1, overlap="cancel")])
    backend.release([Ending("job", SLOT, "a", "interrupted")])

    assert take(backend, 1, "b", overlap="queue") == "won"


def test_a_pause_is_kept_as_long_as_the_history(backend: RedisBackend) -> None:
    backend.absorb(Page(pauses=[pause(-50, -40)]))
    assert not backend.prune([Retention("job", runs=0.0, records=0, age=3600.0)])
    assert backend.pauses("job") == [pause(-50, -40)]

    assert not backend.prune([Retention("job", runs=0.0, records=0, age=0.0)])
    assert backend.pauses("job") == []


def test_what_another_store_knows_is_taken_over(server: Server, backend: RedisBackend) -> None:
    pauses = [Pause("job", at(-50), at(-40), "first"), Pause("job", at(-30), None, "sécond")]
    page = Page(
        jobs=[JobRow("job", "daily", NOW, NOW, None)],
        runs=[
            a_row(0, "released", 1, retries=2, cancelled=True),
            a_row(1, "released", 0),
            a_row(1.5, "released", 0, origin="manual"),
            a_row(2.5, "success", 1, origin="manual"),
        ],
        pauses=pauses,
    )

    assert backend.absorb(page) == Absorbed(1, 4, 0, 0)
    assert backend.absorb(page) == Absorbed(0, 0, 0, 0)

    assert backend.pauses("job") == pauses[::-1]
    assert backend.asked_for() == [LeaseState("job", at(1.5), 0, alive=False, origin="manual")]
    assert [state.attempt for state in backend.unfinished(["job"])] == [1, 0, 0]
    state = backend.run_state("job", at(0))
    assert state is not None
    assert (state.state, state.retries) == ("released", 2)
    assert take(backend, 1, "a") == "paused"
    assert backend.resume("job")
    assert take(backend, 0, "a") == "done"  # it had to make way
    assert take(backend, 1, "a") == "won"
    end(backend, 1, "a")
    assert take(backend, 1.5, "a") == "won"
    assert backend.withdraw([asked(1.5)]) == [False]


@pytest.mark.parametrize(
    ("known", "given", "kept"),
    [
        ([(-50, -40)], [(-50, None)], [(-50, -40)]),
        ([(-20, -10)], [(-50, -40)], [(-20, -10), (-50, -40)]),
        ([(-20, None)], [(-50, -40)], [(-20, None), (-50, -40)]),
        ([(-20, None)], [(-50, None)], [(-20, None)]),
        ([(-20, -10)], [(-50, None)], [(-50, None), (-20, -10)]),
    ],
)
def test_of_pauses_one_lasts_at_most_and_it_is_the_one_that_is_ended(
    backend: RedisBackend,
    known: Sequence[tuple[int, int | None]],
    given: Sequence[tuple[int, int | None]],
    kept: Sequence[tuple[int, int | None]],
) -> None:
    backend.declare([Declaration("job", "daily")])
    for spans in (known, given, given):
        backend.absorb(Page(pauses=[pause(*span) for span in spans]))

    assert backend.pauses("job") == [pause(*span) for span in kept]
    assert backend.jobs()[0].paused_at == next((at(a) for a, b in kept if b is None), None)
    backend.resume("job")
    assert backend.claim([a_claim("a")])[0].outcome == (
        "paused" if any(b is None for _a, b in kept) else "won"
    )
    assert backend.jobs()[0].paused_at is None


def pause(since: int, ended: int | None) -> Pause:
    return Pause("job", at(since), None if ended is None else at(ended), "a note")


def test_a_note_that_is_no_text_is_kept_as_far_as_it_can_be(backend: RedisBackend) -> None:
    backend.declare([Declaration("job", "daily")])
    backend.claim([a_claim("a")])

    assert backend.finish([Ending("job", SLOT, "a", "failed", pause="it: \ud800 \0")]) == [True]

    assert [each.note for each in backend.pauses("job")] == ["it: ? \0"]
