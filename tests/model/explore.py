"""Breadth first through everything that can happen, and what must hold after every step.

What is explored is complete: every order of any number of steps while the horizon of the world is
not passed, or up to a depth that is given. Situations are merged as :mod:`model.merging` says.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from model.choices import steps
from model.merging import merged
from model.mirror import Mirror, Tables
from model.promises import wrong_situation, wrong_step
from model.situations import Outcome, Situation, Step, World, do, start
from model.watching import Watching


class Violation(AssertionError):
    """A promise is broken; the message has the shortest path that leads there."""


@dataclass(frozen=True, slots=True)
class Explored:
    """How much was seen. ``depth`` is the number of steps to the farthest situation."""

    states: int
    steps: int
    depth: int
    watched: int

    def __str__(self) -> str:
        return (
            f"{self.states} states, {self.steps} steps, depth {self.depth},"
            f" {self.watched} of watching alone"
        )


def explore(world: World, *, depth: int | None = None, mirror: Mirror | None = None) -> Explored:
    """Explore a world; with a mirror make every step there too. Raises :class:`Violation`."""
    return _Exploration(world, mirror).run(depth)


class _Exploration:
    def __init__(self, world: World, mirror: Mirror | None) -> None:
        self.world = world
        self.mirror = mirror
        self.watching = Watching(world)
        self.origins: dict[Hashable, tuple[Hashable, Step] | None] = {}
        self.made = 0

    def run(self, depth: int | None) -> Explored:
        begun = start(self.world)
        self.origins[merged(begun, self.world)] = None
        frontier = [(begun, None if self.mirror is None else self.mirror.begin())]
        reached = 0
        while frontier and reached != depth:
            frontier = [item for place in frontier for item in self._expand(*place)]
            reached += bool(frontier)
        return Explored(len(self.origins), self.made, reached, self.watching.made)

    def _expand(self, situation: Situation, tables: Tables) -> Iterator[tuple[Situation, Tables]]:
        """Make every step; return what is new."""
        here = merged(situation, self.world)
        if self.mirror is not None:
            self.mirror.use(tables)
        for step in steps(situation, self.world):
            self.made += 1
            answer, after = do(step, situation, self.world)
            wrong = wrong_step(self.world, situation, step, answer, after)
            mirrored = tables
            if wrong is None and self.mirror is not None and step.instance >= 0:
                wrong, mirrored = self._make_in_mirror(step, situation, tables, answer, after)
            if wrong is not None:
                raise self._violation(wrong, here, step)
            if after is situation:
                continue
            there = merged(after, self.world)
            if there in self.origins:
                continue
            self.origins[there] = (here, step)
            wrong = wrong_situation(self.world, after) or self.watching.stuck(after)
            if self.mirror is not None and not self.mirror.reads(mirrored, after):
                wrong = wrong or "the store tells other runs as unfinished"
            if self.mirror is not None:
                self.mirror.use(tables)
            if wrong is not None:
                raise self._violation(wrong, there, None)
            yield after, mirrored

    def _make_in_mirror(
        self, step: Step, situation: Situation, tables: Tables, answer: Outcome, after: Situation
    ) -> tuple[str | None, Tables]:
        assert self.mirror is not None
        if step.act == "crash":
            return None, tables
        mirrored = self.mirror.make(step, situation)
        if mirrored != answer:
            return f"the store answers {mirrored}, and not {answer}", tables
        if after.table == situation.table:
            same = self.mirror.is_unchanged()
            return None if same else "the store has changed something", tables
        table = self.mirror.table()
        if table != after.table:
            return f"the store has {table}, and not {after.table}", tables
        if not self.mirror.has_recorded(answer):
            return f"the history does not have what was answered: {answer}", tables
        if step.at >= 0 and not self.mirror.takes_records_of(after.table, step.at):
            return "the store takes other records of the run than it should", tables
        taken = self.mirror.taken()
        self.mirror.use(tables)
        return None, taken

    def _violation(self, wrong: str, place: Hashable, last: Step | None) -> Violation:
        path = [] if last is None else [last]
        while (origin := self.origins[place]) is not None:
            place, step = origin
            path.append(step)
        shown = "\n".join(f"{n:3}. {step}" for n, step in enumerate(reversed(path), 1))
        return Violation(f"{wrong}\nafter {len(path)} steps in {self.world}:\n{shown}")
