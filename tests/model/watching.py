"""No run is stuck: what one instance can do that watches all alone.

The others never act again, whatever they hold: they crashed, or their machines stand still. The
one takes over what is over and finishes what it has won, goes on with a backfill, and else waits.
From every situation that must bring every run that was begun or waits to an end, and the backfill,
in the time of a few leases. Where the job is paused somebody resumes it; till then nothing need go
on.
"""

from __future__ import annotations

from model.choices import next_slots
from model.situations import (
    Situation,
    Step,
    World,
    do,
    is_holder,
    is_over,
    unfinished,
)
from model.values import goes_on, is_paused


class Watching:
    """Remembers from where the end was reached."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._most = 100
        self._good: set[tuple[int, Situation]] = set()
        self.made = 0

    def stuck(self, situation: Situation) -> str | None:
        """Say which instance, watching alone, could not bring all runs to an end."""
        for instance in range(len(self._world.hosts)):
            if not self._ends(situation, instance):
                return f"instance {instance} watches, and no run comes to an end"
        return None

    def _ends(self, situation: Situation, instance: int) -> bool:
        passed: list[tuple[int, Situation]] = []
        while not is_over(situation) and (instance, situation) not in self._good:
            if len(passed) == self._most:
                return False
            passed.append((instance, situation))
            situation = self._next(situation, instance)
            self.made += 1
        self._good.update(passed)
        return True

    def _next(self, situation: Situation, instance: int) -> Situation:
        if is_paused(situation.table):
            return do(Step("resume", instance), situation, self._world)[1]
        for at, run in unfinished(situation):
            if is_holder(run, at, instance, situation) and run.state == "claimed":
                step = Step("finish", instance, at, run.token)
            else:
                step = Step("take over", instance, at, f"{at}.{run.attempt + 1}")
            _answer, after = do(step, situation, self._world)
            if after is not situation:
                return after
        if goes_on(situation.table):
            after = do(self._advance(situation, instance), situation, self._world)[1]
            if after is not situation:
                return after
        return do(Step("time passes"), situation, self._world)[1]

    def _advance(self, situation: Situation, instance: int) -> Step:
        assert situation.table.backfill is not None
        cursor = situation.table.backfill.cursor
        at = next_slots(cursor, situation, self._world)[0]
        return Step("advance", instance, at, cursor=cursor)
