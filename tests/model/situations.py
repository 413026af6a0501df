"""A few instances in front of one store: every step that may come next, and what it leads to.

A crash makes an instance forget the tokens that it holds; whoever claims under its name afterwards
is the restarted one. What no step does to a run, such as nobody ever acting again, needs no step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypedDict

from model import claim_table, control, holding
from model.values import ENDED, Answer, Asked, Lost, Now, Rules, Run, Table, is_paused

THREE = (0, 0, 0)
"""The hosts of three instances that share one."""
OF_HOLDERS = ("heartbeat", "finish", "fail, keep lease", "release")
"""What is done with a token, whatever the world."""
WITH_TOKEN = frozenset({*OF_HOLDERS, "give back", "retry", "fail, pause", "make way"})


class World(NamedTuple):
    """What does not change: the rules, the host of each instance, and how far hosts' clocks differ.

    ``horizon`` is how much time passes at most; the clocks are set back once, by ``back``. A run is
    tried again up to ``retries`` times; ``pausing`` says that the job can be paused, and ``asked``
    for which slots a run can be asked for.
    """

    rules: Rules
    hosts: tuple[int, ...] = THREE
    ahead: tuple[int, ...] = (0,)
    horizon: int = 5
    back: int = 3
    retries: int = 0
    pausing: bool = False
    asked: tuple[int, ...] = ()


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
    retries: int = 0

    def __str__(self) -> str:
        who = "" if self.instance < 0 else f"instance {self.instance}: "
        what = "" if self.at < 0 else f" slot {self.at}"
        token = f" with token {self.token}" if self.token else ""
        count = f", {self.retries} times" if self.act == "retry" else ""
        return f"{who}{self.act}{what}{token}{count}"


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
        for instance in range(len(world.hosts)):
            yield Step("claim", instance, at, fresh)
            yield Step("take over", instance, at, fresh)
        if run is not None:
            yield from _holders_steps(at, run, situation, world)
            yield from _stale_steps(at, run, world)
    for instance in range(len(world.hosts)):
        yield Step("crash", instance)
    for host in set(world.hosts):
        yield from _anybodys_steps(world.hosts.index(host), situation, world)
    if situation.elapsed < world.horizon:
        yield Step("time passes")
    if not situation.set_back:
        yield Step("clocks are set back")


def _anybodys_steps(instance: int, situation: Situation, world: World) -> Iterator[Step]:
    """Return what decides by its host's clock alone who does it, or not even by that."""
    yield Step("prune", instance)
    if world.pausing:
        yield Step("resume" if is_paused(situation.table) else "pause", instance)
    for at in world.asked:
        if situation.table.pruned is None or world.rules.slots[at] > situation.table.pruned:
            yield Step("ask for", instance, at)
        yield Step("withdraw", instance, at)


def _holders_steps(at: int, run: Run, situation: Situation, world: World) -> Iterator[Step]:
    """Return what can be done by who knows the run's token."""
    holder = int(run.instance)
    if not is_holder(run, at, holder, situation):
        return
    for act in OF_HOLDERS:
        yield Step(act, holder, at, run.token)
    if run.attempt == 1:  # so that the number of attempts has an end
        yield Step("give back", holder, at, run.token)
    if run.cancelled:
        yield Step("make way", holder, at, run.token)
    if world.rules.pause_on_failure:
        yield Step("fail, pause", holder, at, run.token)
    for retries in range(max(1, run.retries - 1), min(run.retries + 1, world.retries) + 1):
        yield Step("retry", holder, at, run.token, retries)
    if run.state == "claimed":  # the answer was lost, and is asked for again
        yield Step("claim", holder, at, run.token)
        yield Step("take over", holder, at, run.token)


def _stale_steps(at: int, run: Run, world: World) -> Iterator[Step]:
    """Return the same with the last token that is the run's no more, or with one that never was."""
    last = _token(at, run.attempt if run.token == "" else run.attempt - 1)
    stale = _token(at, 0) if last == run.token else last
    for act in OF_HOLDERS:
        yield Step(act, int(run.instance), at, stale)
    if world.rules.overlap == "cancel":
        yield Step("make way", int(run.instance), at, stale)
    if world.rules.pause_on_failure:
        yield Step("fail, pause", int(run.instance), at, stale)
    if world.retries:
        yield Step("retry", int(run.instance), at, stale, run.retries + 1)


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
    rules, at, token, instance = world.rules, step.at, step.token, str(step.instance)
    match step.act:
        case "claim" | "take over":
            asked = Asked(at, token, instance, takeover=step.act == "take over")
            return claim_table.claim(table, rules, asked, now)
        case "heartbeat":
            return holding.heartbeat(table, rules, at, token, now)
        case "retry":
            return holding.retry(table, rules, at, token, step.retries, now)
        case "finish" | "fail, keep lease" | "fail, pause" | "make way":
            return holding.finish(table, rules, at, token, now, **_ENDS[step.act])
        case "release":
            return holding.release(table, at, token, now, counted=True)
        case "give back":
            return holding.release(table, at, token, now)
        case "prune":
            return holding.prune(table, rules, now)
        case "pause":
            return control.pause(table, now)
        case "resume":
            return control.resume(table, now)
        case "ask for":
            return control.ask_for(table, at, instance, now)
        case "withdraw":
            return control.withdraw(table, rules, at)
    raise ValueError(step.act)


class _End(TypedDict, total=False):
    status: str
    keep_lease: bool
    pauses: bool


_ENDS: dict[str, _End] = {
    "finish": {},
    "fail, keep lease": {"status": "failed", "keep_lease": True},
    "fail, pause": {"status": "failed", "pauses": True},
    "make way": {"status": "replaced"},
}


def is_holder(run: Run, at: int, instance: int, situation: Situation) -> bool:
    """Say whether an instance knows the token of a run."""
    return run.token != "" and run.instance == str(instance) and not situation.forgotten[at]


def unfinished(situation: Situation) -> list[tuple[int, Run]]:
    """Return the runs that have not ended, and those that wait."""
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
