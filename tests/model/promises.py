"""What must hold after every step, and in every situation.

Each promise is said here by what can be seen of the rows before and after, and not by the rule that
keeps it.
"""

from __future__ import annotations

from model.backfill_promises import (
    is_run_again,
    wrong_backfill,
    wrong_meeting,
    wrong_run_again,
    wrong_runs,
)
from model.control_promises import wrong_pause, wrong_row, wrong_start, wrong_table
from model.situations import WITH_TOKEN, Outcome, Situation, Step, World, clocks
from model.values import ENDED, Answer, Run, is_live


def wrong_step(
    world: World, before: Situation, step: Step, answer: Outcome, after: Situation
) -> str | None:
    """Say which promise a step breaks."""
    run = before.table.runs[step.at] if step.at >= 0 else None
    if step.act in WITH_TOKEN and (run is None or run.token != step.token):
        if after is not before:
            return "a stale token changed something"
        if answer not in {"lost", False}:
            return "a stale token was not told that it is one"
    wrong = wrong_meeting(world, before, step, answer, after)
    wrong = wrong or wrong_backfill(world, before, step, answer, after)
    if wrong is not None:
        return wrong
    if isinstance(answer, Answer) and answer.outcome == "won":
        return _wrong_win(world, before, step, answer) or _wrong_changes(world, before, step, after)
    if step.act == "heartbeat" and run is not None and run.cancelled and answer == "ok":
        return "a run that has to make way was not told"
    return None if after is before else _wrong_changes(world, before, step, after)


def wrong_situation(world: World, situation: Situation) -> str | None:
    """Say which promise a situation breaks: of one job, one lease that anybody sees as alive."""
    runs = situation.table.runs
    observers = [clocks(situation, world, instance) for instance in range(len(world.hosts))]
    live = [
        at
        for at, run in enumerate(runs)
        if run is not None and any(is_live(run, now) for now in observers)
    ]
    if world.rules.overlap != "allow" and len(live) > 1:
        return f"two live leases of one job, of the slots {live}"
    return wrong_table(situation.table) or wrong_runs(situation.table)


def _wrong_win(world: World, before: Situation, step: Step, answer: Answer) -> str | None:
    table = before.table
    run, fence = table.runs[step.at], answer.fence or 0
    if run is not None and run.state in ENDED:
        return "a finished run was won again"
    if run is None and table.pruned is not None and world.rules.slots[step.at] <= table.pruned:
        return "a run that was pruned was won again"
    if step.at in before.succeeded:
        return "a slot that succeeded was run again"
    if run is not None and (answer.attempt, fence) == (run.attempt, run.fence):
        return None
    if answer.attempt != (1 if run is None else run.attempt + 1):
        return "an attempt was made twice, or none"
    given = [other.fence for other in table.runs if other is not None]
    if fence <= max(given, default=0):
        return "a fence did not rise"
    return wrong_start(world, table, step.at, answer)


def _wrong_changes(world: World, before: Situation, step: Step, after: Situation) -> str | None:
    if after.table.next_fence < before.table.next_fence:
        return "the fences fell"
    for at, old in enumerate(before.table.runs):
        new = after.table.runs[at]
        if old is None or old is new:
            continue
        again = is_run_again(step, at, old, new)
        if old.state in ENDED and new is not None and _end(old) != _end(new) and not again:
            return "a finished run changed"
        wrong = wrong_run_again(old, new) if again else wrong_row(step, at, old, new, after.table)
        if wrong is not None:
            return wrong
        if step.at == at and step.token == old.token:
            continue
        if len(world.ahead) == 1 and _is_taken(old, new) and _was_live(old, before, world):
            return "a lease was taken before its time"
    return wrong_pause(world, before.table, step, after.table)


def _end(run: Run) -> tuple[object, ...]:
    made = (run.token, run.instance, run.attempt, run.lost, run.fence, run.retries, run.origin)
    return (run.state, *made)


def _was_live(run: Run, situation: Situation, world: World) -> bool:
    return is_live(run, clocks(situation, world, int(run.instance)))


def _is_taken(old: Run, new: Run | None) -> bool:
    return new is None or new.token != old.token or new.host is None
