"""A few instances in front of one store: what each step leads to.

A crash makes an instance forget the tokens that it holds; whoever claims under its name afterwards
is the restarted one. What no step does to a run, such as nobody ever acting again, needs no step.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from model import backfilling, claim_table, control, holding
from model.values import (
    ENDED,
    Answer,
    Asked,
    Backfill,
    Lost,
    Now,
    Rules,
    Run,
    Table,
    Went,
    goes_on,
    has_succeeded,
)

THREE = (0, 0, 0)
"""The hosts of three instances that share one."""
OF_HOLDERS = ("heartbeat", "finish", "fail, keep lease", "release")
"""What is done with a token, whatever the world."""
WITH_TOKEN = frozenset({*OF_HOLDERS, "give back", "retry", "fail, pause", "make way"})
ADVANCES = frozenset({"advance", "advance an earlier one"})


class World(NamedTuple):
    """What does not change: the rules, the host of each instance, and how far hosts' clocks differ.

    ``horizon`` is how much time passes at most; the clocks are set back once, by ``back``. A run is
    tried again up to ``retries`` times; ``pausing`` says that the job can be paused, and ``asked``
    for which slots a run can be asked for. ``filled`` are the slots of a backfill, oldest first.
    """

    rules: Rules
    hosts: tuple[int, ...] = THREE
    ahead: tuple[int, ...] = (0,)
    horizon: int = 5
    back: int = 3
    retries: int = 0
    pausing: bool = False
    asked: tuple[int, ...] = ()
    filled: tuple[int, ...] = ()


class Situation(NamedTuple):
    """What the store knows, the time that has passed, and what happened to clocks and instances.

    In a world with backfills ``succeeded`` are the slots that ever did, and ``known`` those that
    had when the newest backfill was asked for.
    """

    table: Table
    elapsed: int = 0
    set_back: int = 0
    forgotten: tuple[bool, ...] = ()
    succeeded: frozenset[int] = frozenset()
    known: frozenset[int] = frozenset()


class Step(NamedTuple):
    """One thing that one instance does; ``token`` is the one that it shows to the store.

    Who goes on with a backfill does so from ``cursor``, to slot ``at`` or, with -1, to its end.
    """

    act: str
    instance: int = -1
    at: int = -1
    token: str = ""
    retries: int = 0
    cursor: int | None = None

    def __str__(self) -> str:
        who = "" if self.instance < 0 else f"instance {self.instance}: "
        what = "" if self.at < 0 else f" slot {self.at}"
        token = f" with token {self.token}" if self.token else ""
        count = f", {self.retries} times" if self.act == "retry" else ""
        origin = f" from {self.cursor}" if self.act in ADVANCES else ""
        return f"{who}{self.act}{what}{token}{count}{origin}"


Outcome = Answer | Went | Backfill | tuple[Lost, ...] | str | bool | None
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
    if world.filled and step.at >= 0 and has_succeeded(table.runs[step.at]):
        after = after._replace(succeeded=situation.succeeded | {step.at})
    if step.act == "backfill":
        after = after._replace(known=situation.succeeded)
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
        case "backfill":
            return backfilling.add_backfill(table, instance)
        case "advance" | "advance an earlier one":
            slot, earlier = None if at < 0 else at, step.act != "advance"
            return backfilling.advance(table, rules, step.cursor, slot, now, of_earlier=earlier)
        case "cancel backfill":
            return backfilling.cancel_backfill(table, rules, now)
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


def recorded(answer: Outcome) -> tuple[Lost, ...]:
    """Return the attempts that an answer says were recorded."""
    if answer is None or isinstance(answer, str | bool | Backfill):
        return ()
    return answer.closed if isinstance(answer, Answer | Went) else answer


def is_over(situation: Situation) -> bool:
    """Say whether every run has ended, and the backfill too."""
    return not unfinished(situation) and not goes_on(situation.table)


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
