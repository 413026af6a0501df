"""What must hold of backfills, and of slots that are run again."""

from __future__ import annotations

from model.situations import ADVANCES, Outcome, Situation, Step, World, clocks
from model.values import (
    ENDED,
    Answer,
    Backfill,
    Run,
    Table,
    Went,
    has_succeeded,
    is_live,
    is_paused,
    is_waiting,
)


def wrong_runs(table: Table) -> str | None:
    """Say which promise the rows break: one run of a backfill goes on at a time."""
    runs = [at for at, run in enumerate(table.runs) if _goes_on(run)]
    if len(runs) > 1:
        return f"several runs of a backfill go on: {runs}"
    return None


def is_run_again(step: Step, at: int, old: Run, new: Run | None) -> bool:
    """Say whether a run that did not succeed begins anew: what it was before is over."""
    if (step.act, step.at) != ("advance", at) or old.state == "success":
        return False
    return is_waiting(new, "backfill")


def wrong_run_again(old: Run, new: Run | None) -> str | None:
    """Say whether a run that begins anew has lost what its records need."""
    if new is None or (new.fence, new.released_fence) != (old.fence, old.released_fence):
        return "a run that begins anew has lost its fences"
    return None


def wrong_meeting(
    world: World, before: Situation, step: Step, answer: Outcome, after: Situation
) -> str | None:
    """Say whether a backfill has cost the schedule a slot: one that meets it alone waits."""
    if not isinstance(answer, Answer) or (step.act, answer.outcome) != ("claim", "overlap"):
        return None
    if before.table.runs[step.at] is not None:
        return None
    now = clocks(before, world, step.instance)
    live = [run for run in before.table.runs if run is not None and is_live(run, now)]
    if not live or any(run.origin != "backfill" for run in live):
        return None
    if is_waiting(after.table.runs[step.at], "scheduled"):
        return None
    return "a slot that met a backfill alone does not wait"


def wrong_backfill(
    world: World, before: Situation, step: Step, answer: Outcome, after: Situation
) -> str | None:
    """Say which promise a step breaks about the backfill."""
    old, new = before.table.backfill, after.table.backfill
    if old is None or new is None:
        return None
    wrong = _wrong_advance(world, before, step, answer, after) if step.act in ADVANCES else None
    if wrong is not None or old == new or (old.ended and step.act == "backfill"):
        return wrong
    if old.ended:
        return "a backfill changed that had ended"
    if step.act not in {"advance", "cancel backfill"}:
        return "a backfill went on by itself"
    if not new.ended and _place(new) <= _place(old):
        return "a backfill did not go forward"
    return _wrong_counts(world, old, new, before, step)


def _wrong_counts(
    world: World, old: Backfill, new: Backfill, before: Situation, step: Step
) -> str | None:
    """Say whether a run is not counted exactly when the backfill leaves it behind."""
    if new.succeeded > len((before.succeeded - before.known) & {*world.filled}):
        return "a backfill counted a success that never was"
    run = None if old.cursor is None else before.table.runs[old.cursor]
    of_backfill = run is not None and run.origin == "backfill" and run.state in ENDED
    success = int(has_succeeded(run))
    if new.failed - old.failed != int(of_backfill and not success):
        return "a backfill counted what had not failed, or did not count what had"
    expected = {success} if step.act == "advance" else {success, 0}
    if new.succeeded - old.succeeded not in expected:
        return "a success is not counted, or another is"
    return None


def _wrong_advance(
    world: World, before: Situation, step: Step, answer: Outcome, after: Situation
) -> str | None:
    assert isinstance(answer, Went)
    table = before.table
    assert table.backfill is not None
    if step.act != "advance" and answer.answer != "stale":
        return "an earlier backfill went on"
    if step.cursor != table.backfill.cursor and answer.answer != "stale":
        return "a backfill went on from where it is not"
    if answer.answer in {"stale", "paused", "busy"}:
        return None if after is before else "a backfill changed that did not go on"
    now = clocks(before, world, step.instance)
    if any(run.origin == "backfill" and is_live(run, now) for run in table.runs if run is not None):
        return "a backfill went on beside a handler of it"
    if answer.answer != "waiting" and any(_goes_on(run) for run in table.runs):
        return "a backfill went on before its run had ended"
    if answer.answer == "ended":
        return None
    if is_paused(table):
        return "a backfill went on in a pause"
    if any(is_waiting(run, "scheduled") for run in table.runs):
        return "a backfill went before a slot that waits"
    if answer.answer == "waiting" and step.at in before.succeeded:
        return "a slot that succeeded was put in again"
    return None


def _place(backfill: Backfill) -> int:
    return -1 if backfill.cursor is None else backfill.cursor


def _goes_on(run: Run | None) -> bool:
    return run is not None and run.origin == "backfill" and run.state not in ENDED
