"""MemoryBackend, taken along on an exploration: each step is made there too, and compared.

Every situation that is found brings the tables that the same steps have led to in a real store.
They are copied for each step that changes them, and never put together from what the model says.
"""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from operator import attrgetter
from typing import Any

from contract.hand_clock import START

from leasecron.backends.backfills import backfill_state
from leasecron.backends.holders import may_record
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.backends.rows import RunRow
from leasecron.model import Declaration, Retention, from_seconds, to_ms
from model.holding import takes_record
from model.situations import Outcome, Situation, Step, World, clocks, recorded
from model.translation import JOB, UPTIME, Translation
from model.values import Lost, Table, Went, goes_on, has_succeeded

TICK = 10.0
END = from_seconds(START + 1000 * TICK)
Tables = Any
"""What a MemoryBackend keeps; private to it."""

_values = attrgetter(*(field.name for field in fields(RunRow)))


class Mirror:
    """A store in memory whose tables are exchanged from situation to situation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._translation = Translation(world.rules, TICK)
        self._backend = MemoryBackend()
        self._translation.clock.uptime = UPTIME
        self._backend.open(self._translation.clock)
        self._backend.declare([Declaration(JOB, "")])
        self._before: Tables = None
        self._tables: Tables = None

    def begin(self) -> Tables:
        """Return the tables of a new store."""
        return self._backend._tables

    def use(self, tables: Tables) -> None:
        """Work with a copy of these tables."""
        self._before = tables
        self._tables = self._backend._tables = _copied(tables)

    def make(self, step: Step, situation: Situation) -> Outcome:
        """Make a step of an instance."""
        self._translation.set_clock(clocks(situation, self._world, step.instance))
        if step.act == "prune":
            retention = Retention(JOB, self._world.rules.keep * TICK, 1000, 1e6)
            assert self._backend.prune([retention]) is False
            return self._recorded()
        answer = self._translation.call(step, self._backend)
        return answer._replace(closed=self._recorded()) if isinstance(answer, Went) else answer

    def is_unchanged(self) -> bool:
        """Say whether all is as it was when the copy was made."""
        return _kept(self._tables) == _kept(self._before)

    def taken(self) -> Tables:
        """Return the tables as they are now."""
        return self._tables

    def table(self) -> Table:
        """Return what the store knows, in the words of the model."""
        mine = self._tables
        rows = list(mine.runs.get(JOB, {}).values())
        pauses = [(pause.since, pause.until) for pause in mine.pauses.get(JOB, ())]
        row = mine.backfill(JOB)
        backfill = None if row is None else backfill_state(row)
        return self._translation.table(rows, mine._fence, mine.pruned(JOB), pauses, backfill)

    def takes_records_of(self, table: Table, at: int) -> bool:
        """Say whether the store takes the records of a run's attempts as the model does."""
        row = self._tables.row(JOB, to_ms(self._translation.slot(at)))
        for fence in range(1, table.next_fence):
            record = self._translation.record(Lost(at, 1, fence, ""), "interrupted")
            if may_record(record, row) != takes_record(table, at, fence):
                return False
        return True

    def reads(self, tables: Tables, situation: Situation) -> bool:
        """Say whether the store tells of what has not ended as the model has it."""
        self.use(tables)
        now = clocks(situation, self._world, 0)
        self._translation.set_clock(now)
        expected = self._translation.unfinished(situation.table, now)
        asked_for = [state for state in expected if state.origin != "scheduled"]
        return (
            self._backend.unfinished([JOB]) == expected
            and self._backend.asked_for() == asked_for
            and self._tells_of_backfills(situation.table)
        )

    def _tells_of_backfills(self, table: Table) -> bool:
        store, translation = self._backend, self._translation
        newest, going_on = store.backfill(JOB), store.backfills()
        slots = [translation.slot(at) for at, run in enumerate(table.runs) if has_succeeded(run)]
        return (
            (newest and translation.told(newest)) == table.backfill
            and going_on == ([newest] if goes_on(table) else [])
            and store.succeeded(JOB, translation.slot(0), END) == slots
        )

    def has_recorded(self, answer: Outcome) -> bool:
        """Say whether the history grew by the attempts that were closed, and no others."""
        return sorted(self._recorded()) == sorted(recorded(answer))

    def _recorded(self) -> tuple[Lost, ...]:
        mine, before = (each.results.get(JOB, {}) for each in (self._tables, self._before))
        return tuple(self._translation.lost(mine[fence]) for fence in mine if fence not in before)


def _kept(tables: Tables) -> tuple[object, ...]:
    return (
        tables.runs,
        tables._open,
        tables._pruned,
        tables._fence,
        tables.results,
        tables.pauses,
        tables.backfills,
    )


def _copied(tables: Tables) -> Tables:
    """Copy the tables, and the rows in them."""
    made = copy(tables)
    rows = {slot: RunRow(*_values(row)) for slot, row in tables.runs.get(JOB, {}).items()}
    made.runs = {JOB: rows} if rows else {}
    made._open = {job: {slot: rows[slot] for slot in found} for job, found in tables._open.items()}
    made._seen = {}
    made.results = {job: dict(found) for job, found in tables.results.items()}
    made.first_seen, made._pruned = dict(tables.first_seen), dict(tables._pruned)
    made.pauses = {job: [copy(pause) for pause in found] for job, found in tables.pauses.items()}
    made.backfills = {job: copy(row) for job, row in tables.backfills.items()}
    return made
