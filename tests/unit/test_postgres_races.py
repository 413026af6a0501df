"""Many connections at once: one winner a run, and nobody waits in a circle."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter

import psycopg
from contract.driver import a_claim
from contract.hand_clock import START
from support.servers import postgres_url, with_option

from leasecron.backends.postgres.backend import PostgresBackend
from leasecron.model import Claim, Ending, LeaseRef

RIVALS, ROUNDS, JOBS = 4, 15, 60


class Rival:
    """Claims the same runs as all others, in an order of its own, renews what it has, ends some."""

    def __init__(self, url: str, name: str, start: threading.Barrier, seed: int) -> None:
        self.backend = PostgresBackend(url)
        self.won: list[tuple[str, int, int]] = []
        self.failures: list[BaseException] = []
        self._name, self._start, self._random = name, start, random.Random(seed)

    def run(self, began: float) -> None:
        self.backend.open()
        try:
            for number in range(ROUNDS):
                self._start.wait()
                self._round(number, began + number)
        except BaseException as error:
            self.failures.append(error)
            self._start.abort()  # the others shall not wait for it
        finally:
            self.backend.close()

    def _round(self, number: int, slot: float) -> None:
        jobs = [f"job-{n}" for n in range(JOBS)]
        self._random.shuffle(jobs)
        claims = [
            a_claim(slot - START, f"{self._name}-{number}", job=job, overlap="allow")
            for job in jobs
        ]
        answers = self.backend.claim(claims)
        held: list[Claim] = []
        for claim, answer in zip(claims, answers, strict=True):
            assert answer.outcome in {"won", "running", "done"}
            if answer.outcome == "won":
                assert answer.fence is not None
                self.won.append((claim.job, number, answer.fence))
                held.append(claim)
        refs = [LeaseRef(each.job, each.slot, each.token, 20.0) for each in held]
        self._random.shuffle(refs)
        assert self.backend.heartbeat(refs) == ["ok"] * len(refs)
        ends = [Ending(each.job, each.slot, each.token, "success") for each in held[::2]]
        self._random.shuffle(ends)
        assert self.backend.finish(ends) == [True] * len(ends)


def test_runs_that_all_claim_at_once_have_one_winner_each() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    url = with_option(postgres_url(), f"schema=s{uuid.uuid4().hex}")
    start = threading.Barrier(RIVALS)
    rivals = [Rival(url, f"r{n}", start, seed + n) for n in range(RIVALS)]
    began = time.time() - ROUNDS
    threads = [threading.Thread(target=rival.run, args=(began,)) for rival in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    real = [
        e
        for rival in rivals
        for e in rival.failures
        if not isinstance(e, threading.BrokenBarrierError)
    ]
    assert real == []
    won = Counter((job, number) for rival in rivals for job, number, _fence in rival.won)
    assert set(won.values()) == {1}
    assert len(won) == JOBS * ROUNDS
    fences = [fence for rival in rivals for *_run, fence in rival.won]
    assert len(set(fences)) == len(fences)
    with psycopg.connect(rivals[0].backend.address.conninfo, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {rivals[0].backend._schema} CASCADE".encode())
