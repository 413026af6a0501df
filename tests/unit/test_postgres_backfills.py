"""Backfills in PostgreSQL: who is told, what is handed over, and who comes first of two calls."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import psycopg
import pytest
from contract.driver import a_claim
from contract.hand_clock import START
from postgres_support import Call, Hearer, wait_for_one_who_waits
from support.servers import with_option
from support.stores import PostgresView

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.backends.transfer import JobRow, Page
from leasecron.model import (
    Advance,
    BackfillState,
    Claim,
    Declaration,
    Ending,
    NewBackfill,
    NewRun,
    OneOff,
    from_ms,
    from_seconds,
    to_ms,
)

JOB = "job"
RIVALS, SLOTS = 4, 12
STEP = timedelta(seconds=1)


@pytest.fixture
def view() -> Iterator[PostgresView]:
    view = PostgresView()
    yield view
    view.drop()


@pytest.fixture
def backends(view: PostgresView) -> Iterator[list[PostgresBackend]]:
    made = [PostgresBackend(view.url) for _ in range(2)]
    for backend in made:
        backend.open()
    yield made
    for backend in made:
        backend.close()


@pytest.fixture
def start() -> datetime:
    return from_seconds(time.time() // 1 - SLOTS)


def new_backfill(start: datetime, job: str = JOB) -> NewBackfill:
    return NewBackfill(job, start, start + SLOTS * STEP, SLOTS, "asker")


def first_step(begun: BackfillState) -> Advance:
    return Advance(begun.job, begun.asked_at, None, begun.start)


def claim_of(slot: datetime, token: str) -> Claim:
    return a_claim(to_ms(slot) / 1000 - START, token)


def in_the_middle(backend: PostgresBackend, call: str) -> psycopg.Connection:
    """Make a call of a function of the store, without a commit so far."""
    connection = psycopg.connect(backend.address.conninfo)
    connection.execute(f"SELECT {backend._schema}.{call}".encode())
    return connection


def test_others_and_who_shares_the_store_are_told_of_one_that_begins(
    backends: list[PostgresBackend], start: datetime
) -> None:
    asker, other = backends
    near, far = Hearer(asker), Hearer(other)

    begun = asker.add_backfill(new_backfill(start, "ü with a space"))
    assert asker.add_backfill(new_backfill(start + STEP, begun.job)) == begun
    asker.add_backfill(new_backfill(start, "another"))

    assert near.found == [(begun.job, start), ("another", start)]
    far.wait(2)
    assert far.found == near.found


def test_it_is_asked_again_seldom_while_one_listens(
    backends: list[PostgresBackend], view: PostgresView
) -> None:
    alone = PostgresBackend(with_option(view.url, "listen=off"))
    alone.open()

    assert backends[0].look_every == 15.0
    assert alone.look_every == 1.0
    alone.close()
    assert PostgresBackend(view.url).look_every == 1.0


def test_those_that_go_on_are_found_by_their_index(
    backends: list[PostgresBackend], view: PostgresView
) -> None:
    with psycopg.connect(backends[0].address.conninfo) as connection:
        connection.execute("SET LOCAL enable_seqscan = off")
        plan = connection.execute(
            f"EXPLAIN SELECT FROM {view.schema}.backfills AS b WHERE b.ended_at IS NULL".encode()
        ).fetchall()

    assert "backfills_open" in str(plan)


def test_what_another_store_hands_over_is_kept_whole_and_changes_nothing(
    backends: list[PostgresBackend], start: datetime
) -> None:
    backend, _other = backends
    begun = backend.add_backfill(new_backfill(start))
    over = BackfillState(
        "over", from_ms(1), from_ms(9), 8, "a", from_ms(10), from_ms(8), 5, 3, start
    )
    open_one = replace(over, job="open", cursor=None, ended_at=None)
    page = Page(
        jobs=[JobRow(name, "", 1, 2, None, 5) for name in ("new", "once", JOB)],
        backfills=[over, open_one, replace(over, job=JOB)],
    )
    backend.declare([Declaration("once", "")])
    backend.fix([OneOff(JOB, from_ms(7))])

    for new in (1, 0):
        assert backend.absorb(page).jobs == new

    assert backend.backfill("over") == over
    assert backend.backfills() == [begun, open_one]
    later = [OneOff(name, from_ms(99)) for name in ("new", "once", JOB)]
    assert backend.fix(later) == [from_ms(5), from_ms(5), from_ms(7)]


def test_a_step_that_comes_too_late_takes_no_lock(
    backends: list[PostgresBackend], start: datetime
) -> None:
    backend, _other = backends
    begun = backend.add_backfill(new_backfill(start))
    assert backend.advance(first_step(begun)) == "waiting"
    begun_at, slot = to_ms(begun.asked_at), to_ms(start)

    with in_the_middle(backend, f"advance('{JOB}', {begun_at}, NULL, {slot})") as late:
        found = late.execute("SELECT pg_current_xact_id_if_assigned()::text").fetchone()

    assert found == (None,)


def test_of_two_steps_at_once_the_second_comes_too_late(
    backends: list[PostgresBackend], start: datetime
) -> None:
    backend, other = backends
    begun = backend.add_backfill(new_backfill(start))
    call = f"advance('{JOB}', {to_ms(begun.asked_at)}, NULL, {to_ms(start)})"

    with in_the_middle(backend, call) as advancing:
        rival = Call(lambda: other.advance(first_step(begun)))
        wait_for_one_who_waits(backend)
        advancing.commit()

    assert rival.answer() == "stale"


def test_a_claim_waits_for_the_step_that_came_before(
    backends: list[PostgresBackend], start: datetime
) -> None:
    backend, other = backends
    begun = backend.add_backfill(new_backfill(start))
    call = f"advance('{JOB}', {to_ms(begun.asked_at)}, NULL, {to_ms(start)})"

    with in_the_middle(backend, call) as advancing:
        rival = Call(lambda: other.claim([claim_of(start, "a")]))
        wait_for_one_who_waits(backend)
        advancing.commit()

    (answer,) = rival.answer()
    assert (answer.outcome, answer.trigger) == ("won", "backfill")


def test_a_step_waits_for_the_claim_that_came_before(
    backends: list[PostgresBackend], start: datetime
) -> None:
    backend, other = backends
    begun = backend.add_backfill(new_backfill(start))
    slot, until = to_ms(start), to_ms(start) + 10**9

    with in_the_middle(backend, f"lock_jobs(ARRAY['{JOB}'], 0)") as claiming:  # as a claim does
        claiming.execute(
            f"INSERT INTO {backend._schema}.runs VALUES ('{JOB}', {slot}, 'claimed', 'a', 1, 0, 1,"
            f" NULL, 'one', 'scheduled', {slot}, {until}, false)".encode()
        )
        rival = Call(lambda: other.advance(first_step(begun)))
        wait_for_one_who_waits(backend)
        assert not rival.is_answered
        claiming.commit()

    assert rival.answer() == "busy"


def test_a_step_locks_the_run_that_has_ended_in_its_turn(
    backends: list[PostgresBackend], start: datetime
) -> None:
    """Who says once more that runs have ended locks them in their order, and meets no circle."""
    backend, other = backends
    begun = backend.add_backfill(new_backfill(start))
    slots = [to_ms(start), to_ms(start + STEP)]
    claims = [replace(claim_of(start + n * STEP, "a"), overlap="allow") for n in (0, 1)]
    backend.claim(claims)
    backend.finish([Ending(JOB, start, "a", "failed")])
    locks = [f"lock_runs(ARRAY['{JOB}'], ARRAY[{slot}]::bigint[])" for slot in slots]

    with in_the_middle(backend, locks[0]) as holder:
        rival = Call(lambda: other.advance(first_step(begun)))
        wait_for_one_who_waits(backend)
        holder.execute("SET LOCAL lock_timeout = '5ms'")
        holder.execute(f"SELECT {backend._schema}.{locks[1]}".encode())

    assert rival.answer() == "waiting"


def test_a_claim_waits_for_a_run_that_is_put_in_of_a_job_that_nobody_knows(
    backends: list[PostgresBackend], start: datetime
) -> None:
    backend, other = backends
    call = f"""add_runs('["{JOB}"]', '[{to_ms(start)}]', '["asker"]', '["manual"]')"""

    with in_the_middle(backend, call) as asking:
        rival = Call(lambda: other.claim([claim_of(start, "a")]))
        wait_for_one_who_waits(backend)
        asking.commit()

    (answer,) = rival.answer()
    assert (answer.outcome, answer.trigger) == ("won", "manual")


def test_neither_a_run_nor_a_backfill_makes_a_job_known(
    backends: list[PostgresBackend], start: datetime
) -> None:
    backend, _other = backends
    backend.add_runs([NewRun("another", start, "asker")])
    begun = backend.add_backfill(new_backfill(start))
    assert backend.advance(first_step(begun)) == "waiting"
    assert backend.cancel_backfill(JOB, begun.asked_at)

    assert backend.jobs() == []


class Rival:
    """Takes steps of the backfills of all jobs and runs what waits, in any order, with failures."""

    def __init__(self, url: str, name: str, seed: int) -> None:
        self.backend = PostgresBackend(url)
        self.failures: list[BaseException] = []
        self.ended: list[tuple[str, datetime]] = []
        self._name, self._random = name, random.Random(seed)

    def run(self) -> None:
        self.backend.open()
        try:
            while backfills := self.backend.backfills():
                self._random.shuffle(backfills)
                for state in backfills:
                    self._step(state)
                self._run_what_waits()
        except BaseException as error:
            self.failures.append(error)
        finally:
            self.backend.close()

    def _step(self, state: BackfillState) -> None:
        slot = state.start if state.cursor is None else state.cursor + STEP
        to = slot if slot < state.end else None
        self.backend.advance(Advance(state.job, state.asked_at, state.cursor, to))

    def _run_what_waits(self) -> None:
        slots = [(state.job, state.slot) for state in self.backend.asked_for()]
        self._random.shuffle(slots)
        claims = [
            replace(claim_of(slot, self._name), job=job, mode="takeover") for job, slot in slots
        ]
        answers = self.backend.claim(claims)
        won = [c for c, answer in zip(claims, answers, strict=True) if answer.outcome == "won"]
        statuses = [self._random.choice(("success", "failed")) for _ in won]
        ends = [
            Ending(each.job, each.slot, each.token, status)  # type: ignore[arg-type]
            for each, status in zip(won, statuses, strict=True)
        ]
        assert self.backend.finish(ends) == [True] * len(ends)
        self.ended += [(each.job, each.slot) for each in won]


def test_whoever_takes_the_next_step_each_slot_is_run_once(
    backends: list[PostgresBackend], view: PostgresView, start: datetime
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    jobs = [f"job-{n}" for n in range(4)]
    for job in jobs:
        backends[0].add_backfill(new_backfill(start, job))
    rivals = [Rival(view.url, f"r{n}", seed + n) for n in range(RIVALS)]
    threads = [threading.Thread(target=rival.run) for rival in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [error for rival in rivals for error in rival.failures] == []
    ended = sorted(each for rival in rivals for each in rival.ended)
    assert ended == [(job, start + n * STEP) for job in jobs for n in range(SLOTS)]
    for job in jobs:
        state = backends[0].backfill(job)
        assert state is not None
        assert state.ended_at is not None
        assert state.succeeded + state.failed == SLOTS
        assert state.cursor == state.end - STEP
