"""Ways to make the same claims, which take turns within a round so that a stall hits none alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.raw import RawStore
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.clock import SystemClock
from leasecron.model import Claim, ClaimAnswer, Declaration, Ending, from_ms
from leasecron.store import StoreQueue

_WAIT = 60.0
_DAY = 24 * 60 * 60
_MAX_LATE = 30.0 * _DAY
_FIRST_SLOT = (int(time.time()) - 10 * _DAY) * 1000


class Side(Protocol):
    """One way to claim. Every claim is of a run that is free, and is won."""

    def claim(self, claims: Sequence[Claim]) -> float:
        """Make the claims and return the seconds that it took."""

    def end(self, claims: Sequence[Claim]) -> None:
        """End the runs, outside what is measured, so that the next slots of the jobs are free."""

    def close(self) -> None:
        """Let go of the store."""


def raw(file: Path, jobs: int, *, reads: bool = True) -> RawStore:
    """Return plain sqlite3 on a file that the backend made."""
    _open(file, jobs).close()
    return RawStore(file, reads=reads)


class Direct:
    """The backend, called directly."""

    def __init__(self, file: Path, jobs: int) -> None:
        self._backend = _open(file, jobs)
        self.close = self._backend.close

    def claim(self, claims: Sequence[Claim]) -> float:
        began = time.perf_counter()
        answers = self._backend.claim(claims)
        took = time.perf_counter() - began
        _check(answers, claims)
        return took

    def end(self, claims: Sequence[Claim]) -> None:
        _end(self._backend, claims)


class Queued:
    """The store thread, which is handed one claim after the other."""

    def __init__(self, file: Path, jobs: int) -> None:
        self._backend = _open(file, jobs)
        self._clock = SystemClock()
        self._queue = StoreQueue(self._backend, self._clock, _retried)
        self._queue.open()

    def claim(self, claims: Sequence[Claim]) -> float:
        answers: list[Any] = []
        done = self._clock.waker()

        def reply(answer: Any, _asked_at: float) -> None:
            answers.append(answer)
            if len(answers) == len(claims):
                done.put(None)

        began = time.perf_counter()
        for claim in claims:
            self._queue.submit("claim", claim, reply)
        done.get(_WAIT)
        took = time.perf_counter() - began
        _check(answers, claims)
        return took

    def end(self, claims: Sequence[Claim]) -> None:
        _end(self._backend, claims)

    def close(self) -> None:
        closed = self._clock.waker()
        self._queue.close(lambda: closed.put(None))
        closed.get(_WAIT)
        self._backend.close()


@contextmanager
def all_closed(sides: Mapping[str, Side]) -> Iterator[None]:
    """Let go of the stores at the end."""
    try:
        yield
    finally:
        for side in sides.values():
            side.close()


def rates(sides: Mapping[str, Side], batch: int, seconds: float) -> dict[str, float]:
    """Let all make batches in turn until each was measured for so long; return claims a second."""
    took = dict.fromkeys(sides, 0.0)
    made = 0
    while min(took.values()) < seconds:
        claims = fresh_claims(batch, made)
        for name, side in sides.items():
            took[name] += side.claim(claims)
            side.end(claims)
        made += 1
    return {name: made * batch / elapsed for name, elapsed in took.items()}


def fresh_claims(jobs: int, number: int) -> list[Claim]:
    """Return a claim for each of the jobs, of their next slot each time ``number`` is one more."""
    slot = from_ms(_FIRST_SLOT + number * 1000)
    return [
        Claim(job(place), slot, f"{number:016x}{place:016x}", "a", 20.0, "skip", 3, _MAX_LATE)
        for place in range(jobs)
    ]


def job(place: int) -> str:
    """Return the name of a job."""
    return f"job-{place:05}"


def _open(file: Path, jobs: int) -> SqliteBackend:
    backend = SqliteBackend(file)
    backend.open()
    backend.declare([Declaration(job(place), "every 1s") for place in range(jobs)])
    return backend


def _check(answers: Sequence[ClaimAnswer], claims: Sequence[Claim]) -> None:
    won = sum(getattr(answer, "outcome", None) == "won" for answer in answers)
    if won != len(claims):
        raise RuntimeError(f"{won} of {len(claims)} claims were won, first {answers[:1]}")


def _end(backend: SqliteBackend, claims: Sequence[Claim]) -> None:
    backend.finish([Ending(claim.job, claim.slot, claim.token, "success") for claim in claims])


def _retried(_operation: str, _items: Sequence[Any], _error: BaseException) -> None:
    """Let the store thread try again; the time that it takes counts."""
