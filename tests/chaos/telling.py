"""From the lines of a log to the story that they tell."""

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from chaos.log import Line
from chaos.story import Attempt, Filling, Life, Look, Pause, Said, Story, Trouble

SETTLED = 62.0
"""Seconds after which an instance has noticed a step of its clock, whatever it waits for."""

STARVED, IN = 0.5, 3.0
"""Seconds; a process that has not run for longer than that, in all, may be late with anything."""


def tell(lines: Sequence[Line], *, leases: bool, has_clock: bool) -> Story:
    """Put together what the lines of a log say, which are in order of time."""
    teller = _Teller(Story(leases, has_clock))
    for line in lines:
        teller.take(line)
    teller.end()
    return teller.story


def tell_part(story: Story, lines: Sequence[Line]) -> Story:
    """Return the story of other jobs that the same processes ran meanwhile."""
    teller = _Teller(replace(story, attempts=[], said=[], asked={}, fillings=[], fixed={}))
    for line in lines:
        teller.take(line)
    return teller.story


class _Teller:
    def __init__(self, story: Story) -> None:
        self.story = story
        self._attempts: dict[tuple[str, int, int], Attempt] = {}
        self._frozen: dict[int, float] = {}
        self._steps: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)

    def take(self, line: Line) -> None:
        what, life = line["what"], line["life"]
        match what:
            case "begin" | "alive" | "end":
                self._handler(line)
            case "event":
                names = ("m", "life", "name", "job", "slot", "reason", "error")
                self.story.said.append(Said(**_facts(line, names)))
            case "forked" if line["code"] != 0:
                self.story.bad_forks.append(f"a child of {life} ended with {line['code']}")
            case "gap" | "fault" | "stall" | "busy" | "frozen" | "thawed":
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
            case "pausing" | "paused" | "resuming" | "resumed":
                self._pause(line)
            case "asked":
                self.story.asked[line["job"], line["slot"]] = line["m"]
            case "backfill":
                facts = ("m", "job", "asked", "start", "end", "total", "succeeded", "failed")
                self.story.fillings.append(Filling(**_facts(line, facts), ended=line["ended"]))
            case "cancelling":
                self.story.cancelled.add((line["job"], line["asked"]))
            case "filled":
                self.story.filled = line["m"]
            case "fixed":
                self.story.fixed.setdefault(line["job"], {})[life] = line["slot"]
            case "spawned":
                self.story.lives[life] = Life(life, line["number"], line["pid"], line["m"])
            case "up" | "down" | "killed" | "told" | "gone" | "hung":
                self._life(line)

    def end(self) -> None:
        """Say of each process when its clock was wrong, and when it was starved."""
        for life in self.story.lives.values():
            for trouble in _starved(self.story.gaps.of(life.life)):
                self._add(trouble)
            steps = [*self._steps[life.number], (math.inf, 0)]
            for (since, offset), (until, _) in pairwise(steps):
                if offset and until > life.spawned and since < life.gone:
                    since = max(since, life.spawned)
                    self._add(Trouble("clock", since, until + SETTLED, life.life))

    def _handler(self, line: Line) -> None:
        key = (line["token"], line.get("retry", 0), line["life"])
        look = Look(line["m"], line.get("told"))
        if line["what"] == "begin":
            names = ("job", "slot", "attempt", "fence", "token", "instance", "life", "pid")
            attempt = Attempt(**_facts(line, names), looks=[look])
            attempt.retry = line.get("retry", 0)
            attempt.trigger = line.get("trigger", "scheduled")
            self._attempts[key] = attempt
            self.story.attempts.append(attempt)
            return
        attempt = self._attempts[key]
        attempt.looks.append(look)
        if line["what"] == "end":
            attempt.how = line["how"]

    def _pause(self, line: Line) -> None:
        job, m = line["job"], line["m"]
        last = next((each for each in reversed(self.story.pauses) if each.job == job), None)
        match line["what"]:
            case "pausing":
                if last is None or last.over < m:
                    self.story.pauses.append(Pause(job, begun=m, since=math.inf))
            case "paused" if last is not None:
                last.since = min(last.since, m)
            case "resuming" if last is not None:
                last.until = min(last.until, m)
            case "resumed" if last is not None:
                last.over = m

    def _trouble(self, line: Line) -> None:
        what, life, m = line["what"], line["life"], line["m"]
        match what:
            case "frozen":
                self._frozen[life] = m
            case "thawed":
                self._add(Trouble("frozen", self._frozen.pop(life), m, life))
            case "gap":
                self.story.gaps.add(Trouble("gap", line["since"], line["until"], life))
            case "busy":
                self.story.busy.add(Trouble("busy", line["since"], line["until"]))
            case "stall":
                self._add(Trouble("stall", line["since"], line["until"]))
            case _:
                names = ("kind", "since", "until", "next_fence")
                self._add(Trouble(**_facts(line, names)))

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


def _starved(gaps: Sequence[Trouble]) -> Iterator[Trouble]:
    """Yield the times in which a process that has these gaps was starved."""
    recent: deque[Trouble] = deque()
    starved: Trouble | None = None
    for gap in gaps:
        recent.append(gap)
        while recent[0].until < gap.until - IN:
            recent.popleft()
        if sum(each.until - each.since for each in recent) <= STARVED:
            continue
        since = recent[0].since
        if starved is not None and starved.until < since:
            yield starved
        elif starved is not None:
            since = starved.since
        starved = replace(gap, kind="starved", since=since)
    if starved is not None:
        yield starved


def _facts(line: Line, names: Sequence[str]) -> Line:
    """Return those facts of a line; what is None was not written."""
    return {name: line.get(name) for name in names}
