"""Three instances in front of one store: every step that may come next, and what it leads to.

A crash makes an instance forget the tokens that it holds; whoever claims under its name afterwards
is the restarted one. What no step does to a run, such as nobody ever acting again, needs no step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from model import claim_table
from model.claim_table import ENDED, Answer, Asked, Lost, Now, Rules, Run, Table

INSTANCES = 3
OF_HOLDERS = ("heartbeat", "finish", "fail, keep lease", "release")
"""What is done with a token."""


class World(NamedTuple):
    """What does not change: the rules, the host of each instance, and how far hosts' clocks differ.

    ``horizon`` is how much time passes at most; the clocks are set back once, by ``back``.
    """

    rules: Rules
    hosts: tuple[int, ...] = (0,) * INSTANCES
    ahead: tuple[int, ...] = (0,)
    horizon: int = 5
    back: int = 3


class Situation(NamedTuple):
    """What the store knows, the time that has passed, and what happened to clocks and instances."""

    table: Table
    elapsed: int = 0
    set_back: int = 0
    forgotten: tuple[bool, ...] = ()


class Step(NamedTuple):
    """One thing that one instance does; ``token`` is the one that it shows to the store."""

    act: str
    instance: int = -1
    at: int = -1
    token: str = ""

    def __str__(self) -> str:
        who = "" if self.instance < 0 else f"instance {self.instance}: "
        what = "" if self.at < 0 else f" slot {self.at} with token {self.token}"
        return f"{who}{self.act}{what}"


Outcome = Answer | tuple[Lost, ...] | str | bool | None
"""What the store answers; of pruning, which attempts it recorded as lost."""


def start(world: World) -> Situation:
    """Return the situation in which nothing has happened."""
    slots = len(world.rules.slots)
    return Situation(Table((None,) * slots, next_fence=1), forgotten=(False,) * slots)


def clocks(situation: Situation, world: World, instance: int) -> Now:
    """Return what an instance's clocks show."""
    host = world.hosts[instance]
    wall = situation.elapsed - situation.set_back + world.ahead[host]
    return Now(host, situation.elapsed, wall)


def steps(situation: Situation, world: World) -> Iterator[Step]:
    """Return every step that can be made."""
    for at, run in enumerate(situation.table.runs):
        fresh = _token(at, 1 if run is None else run.attempt + 1)
        for instance in range(INSTANCES):
            yield Step("claim", instance, at, fresh)
            yield Step("take over", instance, at, fresh)
        if run is not None:
            yield from _holders_steps(at, run, situation)
            yield from _stale_steps(at, run)
    for instance in range(INSTANCES):
        yield Step("crash", instance)
    for host in set(world.hosts):
        yield Step("prune", world.hosts.index(host))
    if situation.elapsed < world.horizon:
        yield Step("time passes")
    if not situation.set_back:
        yield Step("clocks are set back")


def _holders_steps(at: int, run: Run, situation: Situation) -> Iterator[Step]:
    """Return what can be done by who knows the run's token."""
    holder = int(run.instance)
    if not is_holder(run, at, holder, situation):
        return
    for act in OF_HOLDERS:
        yield Step(act, holder, at, run.token)
    if run.attempt == 1:  # so that the number of attempts has an end
        yield Step("give back", holder, at, run.token)
    if run.state == "claimed":  # the answer was lost, and is asked for again
        yield Step("claim", holder, at, run.token)
        yield Step("take over", holder, at, run.token)


def _stale_steps(at: int, run: Run) -> Iterator[Step]:
    """Return the same with the last token that is the run's no more, or with one that never was."""
    last = _token(at, run.attempt if run.token == "" else run.attempt - 1)
    for act in OF_HOLDERS:
        yield Step(act, int(run.instance), at, _token(at, 0) if last == run.token else last)


def do(step: Step, situation: Situation, world: World) -> tuple[Outcome, Situation]:
    """Make a step; return what the store answers, and what is the case afterwards."""
    match step.act:
        case "time passes":
            return None, situation._replace(elapsed=situation.elapsed + 1)
        case "clocks are set back":
            return None, situation._replace(set_back=world.back)
        case "crash":
            return None, _crashed(step.instance, situation)
    answer, table = call(step, situation.table, world, clocks(situation, world, step.instance))
    if table == situation.table:
        return answer, situation
    after = situation._replace(table=table)
    if isinstance(answer, Answer) and answer.outcome == "won":
        known = situation.forgotten
        after = after._replace(forgotten=(*known[: step.at], False, *known[step.at + 1 :]))
    return answer, after


def call(step: Step, table: Table, world: World, now: Now) -> tuple[Outcome, Table]:
    """Ask the store; return its answer and what it knows afterwards."""
    rules, at, token = world.rules, step.at, step.token
    match step.act:
        case "claim" | "take over":
            takeover = step.act == "take over"
            return claim_table.claim(
                table, rules, Asked(at, token, str(step.instance), takeover), now
            )
        case "heartbeat":
            return claim_table.heartbeat(table, rules, at, token, now)
        case "finish":
            return claim_table.finish(table, rules, at, token, now)
        case "fail, keep lease":
            return claim_table.finish(
                table, rules, at, token, now, status="failed", keep_lease=True
            )
        case "release":
            return claim_table.release(table, at, token, now, counted=True)
        case "give back":
            return claim_table.release(table, at, token, now)
        case "prune":
            return claim_table.prune(table, rules, now)
    raise ValueError(step.act)


def is_holder(run: Run, at: int, instance: int, situation: Situation) -> bool:
    """Say whether an instance knows the token of a run."""
    return run.token != "" and run.instance == str(instance) and not situation.forgotten[at]


def unfinished(situation: Situation) -> list[tuple[int, Run]]:
    """Return the runs that were begun and have not ended."""
    return [
        (at, run)
        for at, run in enumerate(situation.table.runs)
        if run is not None and run.state not in ENDED
    ]


def _crashed(instance: int, situation: Situation) -> Situation:
    forgotten = tuple(
        known or (run is not None and run.instance == str(instance))
        for known, run in zip(situation.forgotten, situation.table.runs, strict=True)
    )
    return situation._replace(forgotten=forgotten)


def _token(at: int, attempt: int) -> str:
    return f"{at}.{attempt}"
