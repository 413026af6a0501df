"""Three instances do anything at any time; the promises hold, and stores do what memory does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contract.driver import a_claim
from contract.hand_clock import START, HandClock
from contract.walked_stores import (
    WalkedPostgres,
    WalkedRedis,
    WalkedSqlite,
    WalkedStore,
    as_of_a_server,
)
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.rows import ENDED, RunRow, alive, read_moment
from leasecron.model import (
    Advance,
    Claim,
    ClaimAnswer,
    Declaration,
    Ending,
    LeaseRef,
    NewBackfill,
    NewRun,
    Retention,
    Retry,
    RunResult,
    Status,
    from_seconds,
    to_ms,
)

_STEP = timedelta(seconds=10)
JOBS = {rule: rule for rule in ("skip", "allow", "queue", "cancel")}
CLOSED = {"abandoned", "replaced"}
STORES: dict[str, Callable[[Path], WalkedStore]] = {
    "sqlite": WalkedSqlite,
    "postgres": WalkedPostgres,
    "redis": WalkedRedis,
}


@dataclass
class Observer:
    """An instance, how its clocks differ from the others', and the claims that it won."""

    name: str
    boot: str | None
    wall: float
    uptime: float
    won: list[tuple[Claim, ClaimAnswer]] = field(default_factory=list)


def is_waiting(row: RunRow) -> bool:
    return not row.attempt and row.state not in ENDED


def observers(*, alike: bool) -> list[Observer]:
    if alike:
        return [Observer(name, "boot-a/ns-1", 0.0, 0.0) for name in ("one", "two", "three")]
    return [
        Observer("one", "boot-a/ns-1", 0.0, 0.0),
        Observer("two", "boot-a/ns-2", 7.0, -300.0),
        Observer("three", "boot-a/ns-1", -9.0, 0.0),
    ]


class Walk:
    """Both stores under one clock, and what has to hold after every step."""

    def __init__(self, seed: int, other: WalkedStore) -> None:
        self.random = random.Random(seed)
        self.clock = HandClock()
        self.memory = MemoryBackend()
        self.other = other
        self.observers = observers(alike=other.is_server)
        self.fence = 0
        # In memory, by those of the other; a run that waits has none.
        self.fences: dict[int | None, int | None] = {None: None, 0: 0}
        self.ended: set[tuple[str, int]] = set()
        self.backfilled: set[datetime] = set()
        self.steps = [
            (self.claim, 30),
            (self.heartbeat, 25),
            (self.finish, 8),
            (self.release, 8),
            (self.save, 8),
            (self.retry, 8),
            (self.ask_for, 4),
            (self.withdraw, 1),
            (self.begin_backfill, 1),
            (self.advance, 8),
            (self.cancel_backfill, 0.2),
            (self.pause, 1),
            (self.resume, 3),
            (self.wait, 25),
            (self.set_clock, 0 if other.is_server else 1),
            (self.prune, 1),
        ]

    @contextmanager
    def open(self) -> Iterator[None]:
        with ExitStack() as stack:
            for backend in (self.memory, self.other.backend):
                backend.open(self.clock)
                stack.callback(backend.close)
            self.both("declare", self.observers[0], [Declaration(job, "") for job in JOBS])
            yield

    def both(self, call: str, observer: Observer, *arguments: Any) -> Any:
        with self.clock.seen_by(boot=observer.boot, wall=observer.wall, uptime=observer.uptime):
            expected = getattr(self.memory, call)(*arguments)
            if call == "save_results":
                arguments = ([self.as_in_other(record) for record in arguments[0]],)
            given = getattr(self.other.backend, call)(*arguments)
        if call == "claim":
            for mine, its in zip(expected, given, strict=True):
                assert self.fences.setdefault(its.fence, mine.fence) == mine.fence
        if call == "history":  # a store may number the wins of one call in an order of its own
            assert [each.fence for each in given] == sorted(
                (each.fence for each in given), reverse=True
            )
            given.sort(key=lambda each: self.fences[each.fence], reverse=True)
        if call in {"claim", "history"}:
            given = [self.as_in_memory(each) for each in given]
        assert given == expected, (call, arguments)
        return expected

    def as_in_memory(self, given: Any) -> Any:
        """Return an answer with the fence that memory gave for it, and in what it holds as well."""
        changes: dict[str, Any] = {"fence": self.fences[given.fence]}
        if isinstance(given, ClaimAnswer):
            changes["closed"] = tuple(self.as_in_memory(record) for record in given.closed)
        return replace(given, **changes)

    def as_in_other(self, record: RunResult) -> RunResult:
        (fence,) = [its for its, mine in self.fences.items() if mine == record.fence]
        return replace(record, fence=fence)

    def rows(self) -> dict[tuple[str, int], RunRow]:
        tables = self.memory._tables
        assert tables is not None
        return {
            (row.job, row.slot): replace(row)
            for runs in tables.runs.values()
            for row in runs.values()
        }

    def stored_rows(self) -> dict[tuple[str, int], RunRow]:
        return {
            (row.job, row.slot): replace(
                row,
                fence=self.fences[row.fence] or 0,
                released_fence=self.fences[row.released_fence],
            )
            for row in self.other.rows()
        }

    def comparable(self, rows: dict[tuple[str, int], RunRow]) -> dict[tuple[str, int], Any]:
        """Leave out the tokens that a store draws by itself, and what it need not keep."""
        if self.other.is_server:
            rows = {key: as_of_a_server(row) for key, row in rows.items()}
        return {
            key: astuple(replace(row, token="") if row.state in CLOSED else row)
            for key, row in rows.items()
        }

    def step(self) -> None:
        act = self.random.choices(*zip(*self.steps, strict=True))[0]
        act(self.random.choice(self.observers))
        self.check()

    def check(self) -> None:
        rows = self.rows()
        assert self.comparable(self.stored_rows()) == self.comparable(rows)
        history = self.both("history", self.observers[0], None)
        # The attempts of a slot that is run again, in a backfill, begin anew.
        attempts = [
            (result.job, result.slot, result.attempt)
            for result in history
            if result.slot not in self.backfilled
        ]
        assert len(attempts) == len(set(attempts))
        for rule in JOBS:
            assert rule == "allow" or len(self.believed(rows, rule)) <= 1
            waiting = [row for key, row in rows.items() if key[0] == rule and is_waiting(row)]
            assert len([row for row in waiting if row.origin == "scheduled"]) <= 1
            self.both("pauses", self.observers[0], rule)
        self.both("jobs", self.observers[0])
        self.both("unfinished", self.observers[0], [*JOBS])
        self.both("asked_for", self.observers[0])
        self.both("backfills", self.observers[0])
        attempted = [row for row in rows.values() if row.origin == "backfill"]
        for rule in JOBS:
            of_job = [row for row in attempted if row.job == rule]
            assert len([row for row in of_job if row.state not in ENDED]) <= 1
        for key in self.ended & rows.keys():
            assert rows[key].state in ENDED
        self.ended |= {key for key, row in rows.items() if row.state in ENDED}

    def believed(self, rows: dict[tuple[str, int], RunRow], job: str) -> list[RunRow]:
        """Return the runs of a job whose own holder sees its lease as alive."""
        found = []
        for row in rows.values():
            holder = next(item for item in self.observers if item.name == row.instance)
            with self.clock.seen_by(boot=holder.boot, wall=holder.wall, uptime=holder.uptime):
                if row.job == job and alive(row, read_moment(self.clock, local=True)):
                    found.append(row)
        return found

    def claim(self, observer: Observer) -> None:
        claims = [self.a_claim(observer) for _ in range(self.random.choice((1, 1, 1, 4)))]
        if observer.won and self.random.random() < 0.1:
            claims.append(self.random.choice(observer.won)[0])
        before = self.rows()
        answers = self.both("claim", observer, claims)
        for claim, answer in zip(claims, answers, strict=True):
            if answer.outcome == "won":
                self.note_won(observer, claim, answer, before)

    def a_claim(self, observer: Observer) -> Claim:
        job = self.random.choice(list(JOBS))
        due = (self.clock.now + observer.wall - START) // 10 * 10
        mode = self.random.choice(("claim", "takeover"))
        return a_claim(
            due - self.random.choice((0, 0, 0, 10, 20, -10)),
            f"{self.random.getrandbits(64):x}",
            job=job,
            instance=observer.name,
            overlap=JOBS[job],
            lease=self.random.choice((15.0, 30.0)),
            max_attempts=2,
            max_late=60.0,
            mode=mode,
            pause_on_failure=self.random.random() < 0.1,
        )

    def note_won(
        self,
        observer: Observer,
        claim: Claim,
        answer: ClaimAnswer,
        before: dict[tuple[str, int], RunRow],
    ) -> None:
        assert answer.fence is not None
        key = (claim.job, to_ms(claim.slot))
        assert key not in self.ended
        if answer.fence <= self.fence:  # the answer to an earlier try, given again
            assert before[key].token == claim.token
            assert before[key].fence == answer.fence
        self.fence = max(self.fence, answer.fence)
        observer.won.append((claim, answer))

    def held(self, observer: Observer) -> tuple[Claim, ClaimAnswer] | None:
        recent = observer.won[-8:]
        return self.random.choice(recent) if recent else None

    def heartbeat(self, observer: Observer) -> None:
        held = self.held(observer)
        if held is not None:
            claim = held[0]
            before = self.rows()
            ref = LeaseRef(claim.job, claim.slot, claim.token, claim.lease)
            if self.both("heartbeat", observer, [ref]) == ["lost"]:
                assert self.rows() == before

    def finish(self, observer: Observer) -> None:
        self.end(observer, "finish", keep_lease=self.random.random() < 0.5)

    def release(self, observer: Observer) -> None:
        self.end(observer, "release", counted=self.random.random() < 0.5)

    def end(self, observer: Observer, call: str, **fields: Any) -> None:
        held = self.held(observer)
        if held is not None:
            claim = held[0]
            status: Status = self.random.choice(("success", "failed", "interrupted"))
            if call == "finish" and self.random.random() < 0.1:
                fields["pause"] = "it failed"
            before = self.rows()
            key = (claim.job, to_ms(claim.slot))
            ending = Ending(claim.job, claim.slot, claim.token, status, **fields)
            (owned,) = self.both(call, observer, [ending])
            assert owned == (key in before and before[key].token == claim.token)
            if not owned:
                assert self.rows() == before

    def save(self, observer: Observer) -> None:
        held = self.held(observer)
        if held is not None:
            claim, answer = held
            now = from_seconds(self.clock.now)
            record = RunResult(
                claim.job,
                claim.slot,
                answer.attempt or 0,
                answer.fence,
                observer.name,
                "scheduled",
                "interrupted",
                now,
                now,
                0.0,
            )
            before = {result.fence: result for result in self.memory.history(limit=10_000)}
            self.both("save_results", observer, [record])
            after = {result.fence: result for result in self.memory.history(limit=10_000)}
            assert before.items() <= after.items()

    def retry(self, observer: Observer) -> None:
        held = self.held(observer)
        if held is not None:
            claim, _answer = held
            times = self.random.randrange(1, 4)
            self.both("retry", observer, [Retry(claim.job, claim.slot, claim.token, times)])

    def ask_for(self, observer: Observer) -> None:
        job = self.random.choice(list(JOBS))
        back = self.random.choice((0, 1, 10, 10))
        run = NewRun(job, from_seconds((self.clock.now - back) // 10 * 10 + back), observer.name)
        self.both("add_runs", observer, [run])
        state = self.memory.run_state(job, run.slot)
        assert state is not None

    def withdraw(self, observer: Observer) -> None:
        for state in self.memory.asked_for()[:2]:
            self.both("withdraw", observer, [NewRun(state.job, state.slot, "anybody")])

    def begin_backfill(self, observer: Observer) -> None:
        job = self.random.choice(list(JOBS))
        due = (self.clock.now - START) // 10 * 10 + START
        start, end = from_seconds(due - 60), from_seconds(due)
        self.both("add_backfill", observer, NewBackfill(job, start, end, 6, observer.name))

    def advance(self, observer: Observer) -> None:
        for state in self.memory.backfills():
            done = set(self.both("succeeded", observer, state.job, state.start, state.end))
            slot = (state.cursor or state.start - _STEP) + _STEP
            while slot in done and self.random.random() < 0.9:
                slot += _STEP
            asked = None if slot >= state.end else slot
            self.backfilled.add(slot)
            self.both("advance", observer, Advance(state.job, state.asked_at, state.cursor, asked))
            if asked is not None:  # its attempts begin anew, if the store has said so
                row = self.rows().get((state.job, to_ms(asked)))
                if row is not None and is_waiting(row):
                    self.ended.discard((state.job, to_ms(asked)))

    def cancel_backfill(self, observer: Observer) -> None:
        job = self.random.choice(list(JOBS))
        state = self.both("backfill", observer, job)
        if state is not None:
            self.both("cancel_backfill", observer, job, state.asked_at)

    def pause(self, observer: Observer) -> None:
        self.both("pause", observer, self.random.choice(list(JOBS)), "a note")

    def resume(self, observer: Observer) -> None:
        self.both("resume", observer, self.random.choice(list(JOBS)))

    def wait(self, observer: Observer) -> None:
        self.clock.advance(self.random.choice((0.5, 2.0, 5.0, 12.0, 31.0)))

    def set_clock(self, observer: Observer) -> None:
        self.clock.step(self.random.choice((-30.0, -600.0, 600.0)))

    def prune(self, observer: Observer) -> None:
        jobs = [Retention(job, 4000.0, 5, 1000.0) for job in JOBS]
        self.both("prune", self.observers[0], jobs)


@pytest.fixture(params=STORES)
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WalkedStore]:
    made = STORES[request.param](tmp_path)
    yield made
    made.drop()


def walk(seed: int, steps: int, other: WalkedStore) -> None:
    print(f"seed {seed}")
    walked = Walk(seed, other)
    with walked.open():
        for _ in range(steps):
            walked.step()
    assert walked.ended


@pytest.mark.parametrize("seed", range(1))
def test_a_walk_keeps_all_promises(seed: int, other: WalkedStore) -> None:
    walk(seed, 200 if other.is_server else 600, other)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_long_walk_keeps_all_promises(seed: int, other: WalkedStore) -> None:
    walk(seed, 1000, other)
