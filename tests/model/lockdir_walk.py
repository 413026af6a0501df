"""A walk over a lock directory, of which each step is made in the model too."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

from contract.hand_clock import START, HandClock
from contract.server_clock import lock_directory
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasecron.model import (
    MAX_RECORDS,
    Claim,
    ClaimAnswer,
    Mode,
    Retention,
    RunResult,
    Status,
    from_seconds,
)
from model.claim_only import DAY, HOUR, ClaimOnly, Said
from model.walking import folder

JOB = "job"
EVERY = 6 * HOUR
"""Seconds between slots, which are counted from the beginning of the day when the clock starts."""

MIDNIGHT = int(START) // DAY * DAY
KEEP = 2 * DAY
MOST_BACK = DAY - HOUR
"""How far the clocks are set back in all: a day is outside of what is promised."""

WHO = st.integers(0, 1)
SLOTS_AGO = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 5, 9, 13, -1])
FROM_NEWEST = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 8, 13])


class LockDirWalk(RuleBasedStateMachine):
    """Two backend objects, as of two processes, before a server whose clock all go by."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.model = ClaimOnly()
        self.clock = HandClock()
        self.clock.now = MIDNIGHT
        self.shown: list[tuple[int, str]] = []
        self.won: dict[int, str] = {}
        self.history: dict[tuple[int, int, int], RunResult] = {}
        self.looked_at: list[int | None] = [None, None]
        self.back = 0
        self.tokens = 0

    @initialize()
    def begin(self) -> None:
        path = Path(self.stack.enter_context(folder())) / "locks"
        self.backends = [lock_directory(path, self.clock) for _ in range(2)]
        for backend in self.backends:
            backend.open(self.clock)
            self.stack.callback(backend.close)

    def teardown(self) -> None:
        self.stack.close()

    @property
    def now(self) -> int:
        """The seconds since the day began in which the clock started."""
        return int(self.clock.now) - MIDNIGHT

    # What instances do

    @rule(
        who=WHO,
        asked=st.lists(SLOTS_AGO, min_size=1, max_size=3),
        max_late=st.sampled_from([EVERY, DAY, 9 * DAY]),
    )
    def claim(self, who: int, asked: list[int], max_late: int) -> None:
        slots = [self.slot(ago) for ago in asked]
        self.tokens += 1
        token = f"token-{self.tokens}"
        answers = self.ask(who, slots, token, "claim", max_late)
        for slot, answer in zip(slots, answers, strict=True):
            assert answer == self.model.claim(slot, token, f"instance-{who}", self.now, max_late)
            self.note(slot, token, answer)

    @precondition(lambda self: self.shown)
    @rule(who=WHO, which=FROM_NEWEST)
    def claim_again(self, who: int, which: int) -> None:
        """The answer to an earlier try may have been lost."""
        slot, token = self.shown[-1 - which % len(self.shown)]
        (answer,) = self.ask(who, [slot], token, "claim", DAY)
        assert answer == self.model.claim(slot, token, f"instance-{who}", self.now, DAY)
        self.note(slot, token, answer)

    @precondition(lambda self: self.shown)
    @rule(who=WHO, which=FROM_NEWEST)
    def ask_whether_it_was_won(self, who: int, which: int) -> None:
        slot, token = self.shown[-1 - which % len(self.shown)]
        (answer,) = self.ask(who, [slot], token, "takeover", DAY)
        assert answer == self.model.ask(slot, token, self.now, DAY)

    @rule(who=WHO, ago=SLOTS_AGO)
    def ask_with_a_token_of_its_own(self, who: int, ago: int) -> None:
        slot = self.slot(ago)
        (answer,) = self.ask(who, [slot], "never seen", "takeover", DAY)
        assert answer == self.model.ask(slot, "never seen", self.now, DAY)

    @precondition(lambda self: self.won)
    @rule(who=WHO, which=FROM_NEWEST, status=st.sampled_from(["success", "failed"]))
    def save(self, who: int, which: int, status: Status) -> None:
        slot = list(self.won)[-1 - which % len(self.won)]
        began = from_seconds(self.clock.now)
        result = RunResult(
            job=JOB,
            slot=_instant(slot),
            attempt=1,
            fence=None,
            instance=f"instance-{who}",
            trigger="scheduled",
            status=status,
            started_at=began,
            ended_at=began + timedelta(seconds=1.5),
            duration=1.5,
            error=None if status == "success" else "a line\nand another",
        )
        result = self.history.setdefault((self.now, slot, who), result)
        self.backends[who].save_results([result, result])

    @precondition(lambda self: self.won)
    @rule(who=WHO, chore=st.sampled_from(["prune", "prune", "reopen", "suspend"]))
    def do_a_chore(self, who: int, chore: str) -> None:
        backend = self.backends[who]
        match chore:
            case "prune":
                self.prune(who)
            case "reopen":
                backend.close()
                backend.open(self.clock)
                self.looked_at[who] = None
            case "suspend":
                backend.suspend()

    # What happens to them

    @rule(
        seconds=st.sampled_from(
            [1, HOUR, EVERY - 1, EVERY, EVERY, EVERY, DAY, DAY, 3 * DAY, -5, -HOUR, -EVERY]
        )
    )
    def change_the_time(self, seconds: int) -> None:
        if seconds > 0:
            self.clock.advance(seconds)
            return
        back = min(-seconds, MOST_BACK - self.back)
        self.back += back
        self.clock.step(-back)

    # What must hold

    @invariant()
    def history_has_what_was_saved(self) -> None:
        expected = [self.history[order] for order in sorted(self.history, reverse=True)]
        for backend in self.backends:
            assert backend.history(limit=MAX_RECORDS) == expected
            assert backend.torn_lines == 0

    def slot(self, ago: int) -> int:
        """Return the slot that is so many before the latest one."""
        return self.now // EVERY * EVERY - ago * EVERY

    def prune(self, who: int) -> None:
        retention = Retention(JOB, float(KEEP), MAX_RECORDS, 1e9)
        assert self.backends[who].prune([retention]) is False
        last = self.looked_at[who]
        if last is None or not last <= self.now < last + HOUR:
            self.looked_at[who] = self.now
            self.model.prune(self.now, KEEP)

    def ask(self, who: int, slots: list[int], token: str, mode: Mode, max_late: int) -> list[Said]:
        claims = [
            Claim(
                job=JOB,
                slot=_instant(slot),
                token=token,
                instance=f"instance-{who}",
                lease=20.0,
                overlap="allow",
                max_attempts=3,
                max_late=float(max_late),
                mode=mode,
            )
            for slot in slots
        ]
        return [_said(answer) for answer in self.backends[who].claim(claims)]

    def note(self, slot: int, token: str, answer: Said) -> None:
        self.shown.append((slot, token))
        if answer.outcome == "won":
            assert self.won.setdefault(slot, token) == token, "a slot has been won twice"


def _instant(slot: int) -> datetime:
    return from_seconds(MIDNIGHT + slot)


def _said(answer: ClaimAnswer) -> Said:
    assert (answer.fence, answer.other, answer.closed) == (None, None, ())
    return Said(answer.outcome, answer.attempt, answer.holder, answer.wait)
