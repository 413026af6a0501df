"""A walk over a SQLite file, of which each step is made in the model too."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Literal, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasecron.backends.rows import RunRow
from leasecron.backends.sqlite.backend import SqliteBackend
from leasecron.backends.sqlite.setup import Journal
from leasecron.model import Retention, Status
from model import situations
from model.holding import prune, takes_record
from model.promises import wrong_situation, wrong_step
from model.situations import Outcome, Step, World, clocks
from model.translation import JOB, UPTIME, Translation
from model.values import Answer, Lost, Rules, Table
from model.walking import folder

EVERY = 10
RULES = Rules(slots=tuple(range(0, 2000, EVERY)), lease=20, max_late=60, keep=250)
MOST_BACK = 200
"""How far the clocks are set back in all; less than rows are kept for."""

_T = TypeVar("_T")
Record = tuple[Lost, str]
INSTANCE = st.integers(0, len(situations.THREE) - 1)
SLOTS_AGO = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 9, -1])
FROM_NEWEST = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 8, 13])
_ROWS = f"SELECT {', '.join(field.name for field in fields(RunRow))} FROM runs"


class SqliteWalk(RuleBasedStateMachine):
    """Two instances on one host and one on another, with a backend object each but for one."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.history: dict[int, Record] = {}
        self.shown: list[tuple[int, str]] = []
        self.held: list[Step] = []
        self.won: list[Lost] = []
        self.tokens = 0

    @initialize(
        overlap=st.sampled_from(["skip", "allow"]),
        journal=st.sampled_from(["wal", "delete"]),
        ahead=st.sampled_from([0, 7, -9]),
    )
    def begin(self, overlap: Literal["skip", "allow"], journal: Journal, ahead: int) -> None:
        rules = RULES._replace(overlap=overlap)
        self.world = World(rules, hosts=(0, 0, 1), ahead=(0, ahead))
        self.situation = situations.start(self.world)
        self.translation = Translation(rules, seconds=1.0)
        self.translation.clock.uptime = UPTIME
        path = Path(self.stack.enter_context(folder())) / "store.db"
        self.backends = [
            SqliteBackend(path, durability="normal", journal=journal) for _ in range(2)
        ]
        for backend in self.backends:
            backend.open(self.translation.clock)
            self.stack.callback(backend.close)

    def teardown(self) -> None:
        self.stack.close()

    # What instances do

    @rule(
        instance=INSTANCE,
        act=st.sampled_from(["claim", "claim", "claim", "take over"]),
        asked=st.lists(SLOTS_AGO, min_size=1, max_size=3),
    )
    def claim(self, instance: int, act: str, asked: list[int]) -> None:
        self.claim_all(instance, act, [self.slot(ago) for ago in asked])

    @precondition(lambda self: bool(situations.unfinished(self.situation)))
    @rule(instance=INSTANCE)
    def take_over(self, instance: int) -> None:
        watched = [at for at, _run in situations.unfinished(self.situation)]
        self.claim_all(instance, "take over", watched[:3])

    @precondition(lambda self: self.shown)
    @rule(
        instance=INSTANCE,
        which=FROM_NEWEST,
        act=st.sampled_from(["heartbeat", "heartbeat", "claim", "take over"]),
    )
    def show_any_token(self, instance: int, which: int, act: str) -> None:
        at, token = _newest(self.shown, which)
        self.hold(Step(act, instance, at, token))

    @precondition(lambda self: self.held)
    @rule(which=FROM_NEWEST)
    def heartbeat(self, which: int) -> None:
        self.hold(_newest(self.held, which)._replace(act="heartbeat"))

    @precondition(lambda self: self.held)
    @rule(which=FROM_NEWEST, act=st.sampled_from(["finish", "fail, keep lease"]))
    def finish(self, which: int, act: str) -> None:
        self.hold(_newest(self.held, which)._replace(act=act))

    @precondition(lambda self: self.held)
    @rule(which=FROM_NEWEST, act=st.sampled_from(["release", "give back"]))
    def release(self, which: int, act: str) -> None:
        self.hold(_newest(self.held, which)._replace(act=act))

    @precondition(lambda self: self.won)
    @rule(which=FROM_NEWEST, status=st.sampled_from(["success", "failed", "interrupted"]))
    def save(self, which: int, status: Status) -> None:
        made = _newest(self.won, which)
        result = self.translation.record(made, status)
        self.backend(int(made.instance)).save_results([result, result])
        if takes_record(self.situation.table, made.at, made.fence):
            self.history.setdefault(made.fence, (made, status))

    @precondition(lambda self: self.won)
    @rule(instance=INSTANCE, chore=st.sampled_from(["prune"] * 4 + ["reopen", "suspend"]))
    def do_a_chore(self, instance: int, chore: str) -> None:
        backend = self.backend(instance)
        match chore:
            case "prune":
                self.prune(instance)
            case "reopen":
                backend.close()
                backend.open(self.translation.clock)
            case "suspend":
                backend.suspend()

    # What happens to them

    @rule(seconds=st.sampled_from([1, 5, 9, 10, 10, 10, 19, 20, 21, 60, 280, 280, -5, -30, -100]))
    def change_the_time(self, seconds: int) -> None:
        elapsed, back = self.situation.elapsed, self.situation.set_back
        if seconds > 0:
            self.situation = self.situation._replace(elapsed=elapsed + seconds)
        else:
            self.situation = self.situation._replace(set_back=min(MOST_BACK, back - seconds))

    # What must hold

    @invariant()
    def promises_hold(self) -> None:
        assert wrong_situation(self.world, self.situation) is None

    @invariant()
    def store_has_what_the_model_has(self) -> None:
        for backend in self.backends:
            assert self.stored(backend) == self.situation.table
            found = [
                (self.translation.attempt(result), result.status)
                for result in backend.history(limit=1000)
            ]
            assert found == [self.history[fence] for fence in sorted(self.history, reverse=True)]

    def backend(self, instance: int) -> SqliteBackend:
        return self.backends[instance % 2]

    def set_clock(self, instance: int) -> None:
        self.translation.set_clock(clocks(self.situation, self.world, instance))

    def slot(self, ago: int) -> int:
        """Return the slot that is so many before the latest one."""
        now = clocks(self.situation, self.world, 0).wall
        return max(0, min(now // EVERY - ago, len(RULES.slots) - 1))

    def claim_all(self, instance: int, act: str, slots: list[int]) -> None:
        """Claim in one call, of which the model makes one after the other."""
        steps = []
        for at in slots:
            self.tokens += 1
            steps.append(Step(act, instance, at, f"token-{self.tokens}"))
        self.set_clock(instance)
        answers = self.backend(instance).claim([self.translation.request(step) for step in steps])
        for step, answer in zip(steps, answers, strict=True):
            self.check(step, self.translation.answer(answer))
            self.shown.append((step.at, step.token))

    def hold(self, step: Step) -> None:
        """Show a token to the store."""
        self.set_clock(step.instance)
        self.check(step, self.translation.call(step, self.backend(step.instance)))

    def prune(self, instance: int) -> None:
        self.set_clock(instance)
        retention = Retention(JOB, float(RULES.keep), 1000, 1e6)
        assert self.backend(instance).prune([retention]) is False
        now = clocks(self.situation, self.world, instance)
        self.check(Step("prune", instance), prune(self.situation.table, self.world.rules, now)[0])

    def check(self, step: Step, answer: Outcome) -> None:
        """Make a step in the model, and compare."""
        expected, after = situations.do(step, self.situation, self.world)
        assert answer == expected, step
        assert wrong_step(self.world, self.situation, step, answer, after) is None, step
        self.situation = after
        if isinstance(answer, Answer):
            self.note(step, answer)
        for lost in situations.recorded(answer):
            self.history.setdefault(lost.fence, (lost, "lost"))

    def note(self, step: Step, answer: Answer) -> None:
        if answer.attempt is not None and answer.fence is not None:  # it is won
            self.won.append(Lost(step.at, answer.attempt, answer.fence, str(step.instance)))
            self.held.append(step)

    def stored(self, backend: SqliteBackend) -> Table:
        """Read what is in the file, in the words of the model."""
        with backend._store.call() as store:
            rows, fence, pruned = store.read(
                lambda connection, _now: (
                    connection.execute(_ROWS).fetchall(),
                    connection.execute(
                        "SELECT value FROM meta WHERE key = 'next_fence'"
                    ).fetchall(),
                    connection.execute("SELECT pruned FROM jobs").fetchall(),
                )
            )
        return self.translation.table(
            [RunRow(*row) for row in rows],
            int(fence[0][0]),
            pruned[0][0] if pruned else None,
        )


def _newest(found: Sequence[_T], which: int) -> _T:
    """Return one, counted from the end."""
    return found[-1 - which % len(found)]
