"""From the lines of a log to the story that they tell."""

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from chaos.log import Line
from chaos.story import Attempt, Life, Look, Said, Story, Trouble

SETTLED = 62.0
"""Seconds after which an instance has noticed a step of its clock, whatever it waits for."""

STARVED = 0.5
"""Seconds; a process that has not run for longer may be late with anything."""


def tell(lines: Sequence[Line], *, leases: bool) -> Story:
    """Put together what the lines of a log say, which are in order of time."""
    teller = _Teller(leases)
    for line in lines:
        teller.take(line)
    teller.end()
    return teller.story


class _Teller:
    def __init__(self, leases: bool) -> None:
        self.story = Story(leases)
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._frozen: dict[int, float] = {}
        self._steps: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)

    def take(self, line: Line) -> None:
        what, life = line["what"], line["life"]
        match what:
            case "begin" | "alive" | "end":
                self._handler(line)
            case "event":
                names = ("m", "life", "name", "job", "slot", "reason", "error")
                self.story.said.append(Said(**{name: line[name] for name in names}))
            case "forked" if line["code"] != 0:
                self.story.bad_forks.append(f"a child of {life} ended with {line['code']}")
            case "gap" | "fault" | "stall" | "frozen" | "thawed":
                self._trouble(line)
            case "trespassed":
                self.story.trespassed += line["names"]
            case "refused":
                self.story.refused += 1
            case "did":
                self.story.did[line["kind"]] += 1
            case "clock":
                self._steps[line["number"]].append((line["m"], line["offset"]))
            case "clocks":
                self.story.offset, self.story.began = line["wall"] - line["m"], line["m"]
            case "calm":
                self.story.calm_since = line["m"]
            case "spawned":
                self.story.lives[life] = Life(life, line["number"], line["pid"], line["m"])
            case "up" | "down" | "killed" | "told" | "gone" | "hung":
                self._life(line)

    def end(self) -> None:
        """Say of each process when its clock was wrong."""
        for life in self.story.lives.values():
            steps = [*self._steps[life.number], (math.inf, 0)]
            for (since, offset), (until, _) in pairwise(steps):
                if offset and until > life.spawned and since < life.gone:
                    since = max(since, life.spawned)
                    self._add(Trouble("clock", since, until + SETTLED, life.life))

    def _handler(self, line: Line) -> None:
        key = (line["token"], line["life"])
        look = Look(line["m"], line["told"])
        if line["what"] == "begin":
            names = ("job", "slot", "attempt", "fence", "token", "instance", "life", "pid")
            attempt = Attempt(**{name: line[name] for name in names}, looks=[look])
            self._attempts[key] = attempt
            self.story.attempts.append(attempt)
            return
        attempt = self._attempts[key]
        attempt.looks.append(look)
        if line["what"] == "end":
            attempt.how = line["how"]

    def _trouble(self, line: Line) -> None:
        what, life, m = line["what"], line["life"], line["m"]
        match what:
            case "frozen":
                self._frozen[life] = m
            case "thawed":
                self._add(Trouble("frozen", self._frozen.pop(life), m, life))
            case "gap":
                gap = Trouble("gap", line["since"], line["until"], life)
                self.story.gaps.add(gap)
                if gap.until - gap.since > STARVED:
                    self._add(gap)
            case "stall":
                self._add(Trouble("stall", line["since"], line["until"]))
            case _:
                self._add(Trouble(line["kind"], line["since"], line["until"]))

    def _life(self, line: Line) -> None:
        life, m = self.story.lives[line["life"]], line["m"]
        match line["what"]:
            case "up":
                life.up = m
            case "down":
                life.clean = line["clean"]
            case "killed":
                life.killed = m
                self._ends(life, m)
            case "told":
                life.told = m
                self._ends(life, m)
            case "hung":
                life.hung = True
            case "gone":
                life.gone, life.code = m, line["code"]
                self._ends(life, m)

    def _ends(self, life: Life, m: float) -> None:
        frozen = self._frozen.pop(life.life, m)
        self._add(Trouble("ending", frozen, math.inf, life.life))

    def _add(self, trouble: Trouble) -> None:
        self.story.troubles.add(trouble)
