"""Pauses in PostgreSQL: who comes first where a pause and a claim meet, and in which order."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from contract.driver import a_claim
from contract.hand_clock import START
from postgres_support import Call, wait_for_one_who_waits
from support.servers import postgres_url, with_option

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.model import Claim, Declaration, Ending

RIVALS, ROUNDS = 4, 30
JOBS = [f"job-{n}" for n in range(8)]


@pytest.fixture
def url() -> Iterator[str]:
    schema = f"s{uuid.uuid4().hex}"
    yield with_option(postgres_url(), f"schema={schema}")
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


@pytest.fixture
def backend(url: str) -> Iterator[PostgresBackend]:
    backend = PostgresBackend(url)
    backend.open()
    backend.declare([Declaration(job, "daily") for job in ["job", *JOBS]])
    yield backend
    backend.close()


def claim_of(token: str, seconds: float = 0.0, job: str = "job") -> Claim:
    return a_claim(round(time.time(), 3) - START + seconds, token, job=job)


def in_the_middle(backend: PostgresBackend) -> psycopg.Connection:
    """Pause the job, without a commit so far."""
    connection = psycopg.connect(backend.address.conninfo)
    connection.execute(f"SELECT {backend._schema}.pause('job', 'a note')".encode())
    return connection


def outcomes(backend: PostgresBackend, claims: list[Claim]) -> list[str]:
    return [answer.outcome for answer in backend.claim(claims)]


@pytest.mark.parametrize("mode", ["new", "takeover"])
def test_a_claim_that_has_waited_for_a_pause_is_answered_by_it(
    backend: PostgresBackend, mode: str
) -> None:
    claim = claim_of("b")
    if mode == "takeover":
        old = claim_of("a", -60)
        backend.claim([replace(old, lease=0.001)])
        claim = replace(old, token="b", mode="takeover")

    with in_the_middle(backend) as pausing:
        rival = Call(lambda: outcomes(backend, [claim]))
        wait_for_one_who_waits(backend)
        pausing.commit()

    assert rival.answer() == ["paused"]


def test_a_pause_waits_for_the_claim_that_came_before(backend: PostgresBackend, url: str) -> None:
    other = PostgresBackend(url)
    other.open()
    backend.claim([replace(claim_of("a", -60), lease=0.001)])  # so that a row is there to be locked

    with psycopg.connect(backend.address.conninfo) as claiming:
        claiming.execute(
            f"SELECT FROM {backend._schema}.lock_jobs(ARRAY['job'], 0)".encode()  # as a claim does
        )
        rival = Call(lambda: other.pause("job", "a note"))
        wait_for_one_who_waits(backend)
        assert not rival.is_answered
        claiming.commit()

    assert rival.answer() is True
    assert Call(lambda: outcomes(backend, [claim_of("b")])).answer() == ["paused"]
    other.close()


def test_of_two_runs_that_fail_at_once_the_first_says_why(backend: PostgresBackend) -> None:
    claims = [replace(claim_of("a", n), overlap="allow", job=JOBS[0]) for n in (-2, -1, 0)]
    backend.claim(claims)
    ends = [
        Ending(claim.job, claim.slot, claim.token, "failed", pause=why)
        for claim, why in zip(claims, [None, "first", "second"], strict=True)
    ]

    assert backend.finish(ends) == [True, True, True]

    assert [pause.note for pause in backend.pauses(JOBS[0])] == ["first"]
    assert [pause.note for pause in backend.pauses(JOBS[1])] == []


def test_a_run_that_has_ended_well_in_the_same_call_pauses_nothing(
    backend: PostgresBackend,
) -> None:
    claim = claim_of("a")
    backend.claim([claim])
    good = Ending("job", claim.slot, "a", "success")

    assert backend.finish([good, replace(good, status="failed", pause="no")]) == [True, True]

    assert backend.pauses("job") == []


def test_a_note_may_hold_whatever_text(backend: PostgresBackend) -> None:
    note = "ü \0 \x1a 'quoted' {schema} %s \ud800"
    backend.pause("job", note)
    claim = claim_of("a", job=JOBS[0])
    backend.claim([claim])
    backend.finish([Ending(JOBS[0], claim.slot, "a", "failed", pause=note)])

    kept = note.replace("\ud800", "?")
    assert [pause.note for pause in backend.pauses("job")] == [kept]
    assert [pause.note for pause in backend.pauses(JOBS[0])] == [kept]
    assert [job.note for job in backend.jobs() if job.name == "job"] == [kept]


class Rival:
    """Claims runs of its own of all jobs, ends them with pauses, and resumes, in any order."""

    def __init__(self, url: str, start: threading.Barrier, began: float, seed: int) -> None:
        self.backend = PostgresBackend(url)
        self.failures: list[BaseException] = []
        self._start, self._began, self._random = start, began, random.Random(seed)

    def run(self) -> None:
        self.backend.open()
        try:
            self._start.wait()
            for number in range(ROUNDS):
                self._round(self._began + number)
        except BaseException as error:
            self.failures.append(error)
        finally:
            self.backend.close()

    def _round(self, slot: float) -> None:
        claims = [a_claim(slot - START, "a", job=job, overlap="allow") for job in self._jobs()]
        answers = self.backend.claim(claims)
        assert {answer.outcome for answer in answers} <= {"won", "paused"}
        won = [c for c, answer in zip(claims, answers, strict=True) if answer.outcome == "won"]
        self._random.shuffle(won)
        notes = (None, "a note")
        ends = [
            Ending(each.job, each.slot, each.token, "failed", pause=self._random.choice(notes))
            for each in won
        ]
        assert self.backend.finish(ends) == [True] * len(ends)
        for job in self._jobs():
            assert self.backend.resume(job)

    def _jobs(self) -> list[str]:
        return self._random.sample(JOBS, len(JOBS))


def test_nobody_waits_in_a_circle(backend: PostgresBackend, url: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    start = threading.Barrier(RIVALS)
    began = round(time.time()) - ROUNDS
    rivals = [Rival(url, start, began + n / RIVALS, seed + n) for n in range(RIVALS)]
    threads = [threading.Thread(target=rival.run) for rival in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [error for rival in rivals for error in rival.failures] == []
    for job in JOBS:
        pauses = backend.pauses(job)
        assert [pause for pause in pauses[1:] if pause.resumed_at is None] == []
        ends = [pause.resumed_at for pause in pauses[1:]]
        for pause, end in zip(pauses, ends, strict=False):
            assert end is not None
            assert end < pause.paused_at
    paused = {job.name for job in backend.jobs() if job.paused_at is not None}
    lasting = {job for job in JOBS if any(p.resumed_at is None for p in backend.pauses(job))}
    assert paused == lasting
    assert all(backend.pauses(job) for job in JOBS)
