"""Between the words of the model and those of a store: calls, answers and rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from contract.hand_clock import START, HandClock

from leasecron.backends.base import ControlBackend, LeaseBackend
from leasecron.backends.rows import LEASE_ENDED, RunRow
from leasecron.model import (
    Advance,
    BackfillState,
    Claim,
    ClaimAnswer,
    Ending,
    LeaseRef,
    LeaseState,
    NewBackfill,
    NewRun,
    Retry,
    RunResult,
    Status,
    from_seconds,
    to_ms,
)
from model.situations import Outcome, Step
from model.values import (
    ENDED,
    Answer,
    Backfill,
    Lost,
    Now,
    Origin,
    Pause,
    Rules,
    Run,
    Table,
    Went,
    is_live,
)

JOB = "job"
UPTIME = 5000.0
FIRST_FENCE = round(START * 1000)
"""That of a store which was created at the start of the clock."""
_OF_NOBODY = re.compile("[0-9a-f]{32}")
"""What a store draws as the token of a run that it closes."""


@dataclass
class Translation:
    """The rules of a world, in which one unit of time is so many ``seconds``."""

    rules: Rules
    seconds: float
    clock: HandClock = field(default_factory=HandClock)

    def set_clock(self, now: Now) -> None:
        """Show what an observer sees."""
        self.clock.boot = _boot(now.host)
        self.clock.now = START + now.wall * self.seconds
        self.clock.uptime = UPTIME + now.elapsed * self.seconds

    def slot(self, at: int) -> datetime:
        return from_seconds(START + self.rules.slots[at] * self.seconds)

    def call(self, step: Step, backend: LeaseBackend) -> Outcome:
        """Make a step in a store; return its answer in the words of the model."""
        return _CALLS[step.act](self, step, backend)

    def claim(self, step: Step, backend: LeaseBackend) -> Outcome:
        (answer,) = backend.claim([self.request(step)])
        return self.answer(answer)

    def request(self, step: Step) -> Claim:
        """Return what a step asks for."""
        takeover = step.act == "take over"
        return Claim(
            job=JOB,
            slot=self.slot(step.at),
            token=step.token,
            instance=str(step.instance),
            lease=self.rules.lease * self.seconds,
            overlap=self.rules.overlap,
            max_attempts=self.rules.max_attempts,
            max_late=self.rules.max_late * self.seconds,
            mode="takeover" if takeover else "claim",
            trigger="takeover" if takeover else "scheduled",
            pause_on_failure=self.rules.pause_on_failure,
        )

    def answer(self, answer: ClaimAnswer) -> Answer:
        """Return what a store answers to a claim."""
        assert answer.wait is None
        return Answer(
            answer.outcome,
            answer.attempt,
            None if answer.fence is None else answer.fence - FIRST_FENCE + 1,
            answer.holder,
            None if answer.other is None else self._at(to_ms(answer.other)),
            tuple(map(self.lost, answer.closed)),
            answer.abandoned,
            answer.retries,
            answer.trigger,
        )

    def heartbeat(self, step: Step, backend: LeaseBackend) -> Outcome:
        lease = self.rules.lease * self.seconds
        (answer,) = backend.heartbeat([LeaseRef(JOB, self.slot(step.at), step.token, lease)])
        return answer

    def finish(self, step: Step, backend: LeaseBackend) -> Outcome:
        slot = self.slot(step.at)
        match step.act:
            case "finish":
                ending = Ending(JOB, slot, step.token, "success")
            case "fail, keep lease":
                ending = Ending(JOB, slot, step.token, "failed", keep_lease=True)
            case "fail, pause":
                ending = Ending(JOB, slot, step.token, "failed", pause="it failed")
            case _:
                ending = Ending(JOB, slot, step.token, "interrupted")
        (answer,) = backend.finish([ending])
        return answer

    def retry(self, step: Step, backend: ControlBackend) -> Outcome:
        retry = Retry(JOB, self.slot(step.at), step.token, step.retries)
        (answer,) = backend.retry([retry])
        return answer

    def pause(self, step: Step, backend: ControlBackend) -> Outcome:
        return backend.pause(JOB, "a note") if step.act == "pause" else backend.resume(JOB)

    def ask_for(self, step: Step, backend: ControlBackend) -> Outcome:
        runs = [NewRun(JOB, self.slot(step.at), str(step.instance))]
        (answer,) = backend.add_runs(runs) if step.act == "ask for" else backend.withdraw(runs)
        return answer

    def backfill(self, step: Step, backend: ControlBackend) -> Outcome:
        newest = backend.backfill(JOB)
        last = self.slot(len(self.rules.slots) - 1)
        asked = NewBackfill(JOB, self.slot(0), last, 1, str(step.instance))
        begun = backend.add_backfill(asked)
        if newest is not None and newest.ended_at is not None:
            assert begun.asked_at > newest.asked_at
        return self.told(begun)

    def advance(self, step: Step, backend: ControlBackend) -> Outcome:
        state = backend.backfill(JOB)
        assert state is not None
        earlier = timedelta(milliseconds=0 if step.act == "advance" else 1)
        cursor = None if step.cursor is None else self.slot(step.cursor)
        slot = None if step.at < 0 else self.slot(step.at)
        return Went(backend.advance(Advance(JOB, state.asked_at - earlier, cursor, slot)))

    def cancel_backfill(self, _step: Step, backend: ControlBackend) -> Outcome:
        state = backend.backfill(JOB)
        went = state is not None and backend.cancel_backfill(JOB, state.asked_at)
        return Went("cancelled" if went else "none")

    def told(self, state: BackfillState) -> Backfill:
        """Return what a store tells of a backfill."""
        return Backfill(
            state.instance,
            None if state.cursor is None else self._at(to_ms(state.cursor)),
            state.succeeded,
            state.failed,
            state.ended_at is not None,
        )

    def release(self, step: Step, backend: LeaseBackend) -> Outcome:
        counted = step.act == "release"
        (answer,) = backend.release(
            [Ending(JOB, self.slot(step.at), step.token, "interrupted", counted=counted)]
        )
        return answer

    def lost(self, result: RunResult) -> Lost:
        """Return what a record of a lost attempt says."""
        assert (result.job, result.status) == (JOB, "lost")
        return self.attempt(result)

    def attempt(self, result: RunResult) -> Lost:
        """Return which attempt a record is of."""
        assert result.fence is not None
        fence = result.fence - FIRST_FENCE + 1
        return Lost(self._at(to_ms(result.slot)), result.attempt, fence, result.instance)

    def record(self, made: Lost, status: Status) -> RunResult:
        """Return what the holder of an attempt records of it."""
        return RunResult(
            job=JOB,
            slot=self.slot(made.at),
            attempt=made.attempt,
            fence=made.fence + FIRST_FENCE - 1,
            instance=made.instance,
            trigger="scheduled",
            status=status,
            started_at=from_seconds(START),
            ended_at=from_seconds(START + 1),
            duration=1.0,
        )

    def unfinished(self, table: Table, now: Now) -> list[LeaseState]:
        """Return what a store tells of the runs that have not ended."""
        return [
            LeaseState(JOB, self.slot(at), run.attempt, is_live(run, now), run.origin)
            for at, run in enumerate(table.runs)
            if run is not None and run.state not in ENDED
        ]

    def row(self, row: RunRow) -> tuple[int, Run]:
        """Return a row as the model has it, and of which slot; nobody's tokens are one."""
        ended = row.boot == LEASE_ENDED
        assert ended or row.boot is not None
        run = Run(
            state=row.state,
            token="" if _OF_NOBODY.fullmatch(row.token) else row.token,
            instance=row.instance,
            attempt=row.attempt,
            lost=row.lost,
            fence=row.fence - FIRST_FENCE + 1 if row.fence else 0,
            released_fence=None
            if row.released_fence is None
            else row.released_fence - FIRST_FENCE + 1,
            host=None if ended else int((row.boot or "")[-1]),
            elapsed_until=0 if ended else self._units(row.lease_mono, UPTIME),
            wall_until=self._units(row.lease_until, START),
            retries=row.retries,
            origin=_ORIGINS[row.origin],
            cancelled=row.cancelled,
        )
        return self._at(row.slot), run

    def table(
        self,
        rows: Sequence[RunRow],
        next_fence: int,
        pruned: int | None,
        pauses: Sequence[tuple[int, int | None]] = (),
        backfill: BackfillState | None = None,
    ) -> Table:
        """Return all that a store knows of the job."""
        runs: list[Run | None] = [None] * len(self.rules.slots)
        for row in rows:
            at, runs[at] = self.row(row)
        mark = None if pruned is None else self._units(pruned, START)
        told = tuple(
            Pause(self._units(since, START), None if until is None else self._units(until, START))
            for since, until in pauses
        )
        filled = None if backfill is None else self.told(backfill)
        return Table(tuple(runs), next_fence - FIRST_FENCE + 1, mark, told, filled)

    def _at(self, slot: int) -> int:
        return self.rules.slots.index(self._units(slot, START))

    def _units(self, milliseconds: int, since: float) -> int:
        units, rest = divmod(milliseconds - round(since * 1000), round(self.seconds * 1000))
        assert rest == 0
        return units


def _boot(host: int) -> str:
    """Name a host so that two of them judge each other's leases by their wall clocks."""
    return f"boot-a/ns-{host}"


_ORIGINS: Mapping[str, Origin] = {
    "scheduled": "scheduled",
    "manual": "manual",
    "backfill": "backfill",
}

_CALLS: dict[str, Callable[[Translation, Step, Any], Outcome]] = {
    "claim": Translation.claim,
    "take over": Translation.claim,
    "heartbeat": Translation.heartbeat,
    "finish": Translation.finish,
    "fail, keep lease": Translation.finish,
    "fail, pause": Translation.finish,
    "make way": Translation.finish,
    "retry": Translation.retry,
    "pause": Translation.pause,
    "resume": Translation.pause,
    "ask for": Translation.ask_for,
    "withdraw": Translation.ask_for,
    "backfill": Translation.backfill,
    "advance": Translation.advance,
    "advance an earlier one": Translation.advance,
    "cancel backfill": Translation.cancel_backfill,
    "release": Translation.release,
    "give back": Translation.release,
}
