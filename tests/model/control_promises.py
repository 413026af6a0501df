"""What must hold of pauses, of slots that wait, and of runs that are asked for or tried again."""

from __future__ import annotations

from model.situations import Step, World
from model.values import (
    ENDED,
    Answer,
    Run,
    Table,
    is_begun,
    is_paused,
    is_waiting,
    was_paused,
)


def wrong_table(table: Table) -> str | None:
    """Say which promise the rows break: one slot waits, and who makes way makes it for a slot."""
    waiting = [at for at, run in enumerate(table.runs) if is_waiting(run, "scheduled")]
    if len(waiting) > 1:
        return f"several slots wait: {waiting}"
    for at, run in enumerate(table.runs):
        if run is None or run.state in ENDED or not run.cancelled:
            continue
        newer = table.runs[at + 1 :]
        if not any(is_waiting(run, "scheduled") or is_begun(run, "scheduled") for run in newer):
            return "a run has to make way, and nothing comes"
    return None


def wrong_start(world: World, table: Table, at: int, answer: Answer) -> str | None:
    """Say which promise a won claim breaks that begins an attempt; ``table`` is that before it."""
    run = table.runs[at]
    if is_paused(table):
        return "a claim won in a pause"
    if run is None and was_paused(table, world.rules.slots[at]):
        return "a slot of a pause was begun after it"
    if run is not None and run.cancelled:
        return "a run that made way was taken over"
    if answer.retries != (0 if run is None else run.retries):
        return "a winner was told another count"
    if answer.trigger != (run.origin if run is not None and is_waiting(run) else None):
        return "a run that waited was not begun as what it is"
    if world.rules.overlap == "queue":
        for older in table.runs[:at]:
            if older is not None and is_begun(older) and older.state not in ENDED:
                return "a queued run was begun before an older one had ended"
    return None


def wrong_row(step: Step, at: int, old: Run, new: Run | None, after: Table) -> str | None:
    """Say which promise the change of a row breaks."""
    if new is None:
        if is_waiting(old) and (step.act, step.at, old.origin) != ("withdraw", at, "manual"):
            return "a run that waited is gone"
        if step.act == "withdraw" and is_begun(old):
            return "a run that was begun was withdrawn"
        return None
    if new.retries < old.retries or new.attempt < old.attempt:
        return "a count fell"
    if new.origin != old.origin:
        return "a run changed its origin"
    if old.cancelled and not new.cancelled and new.state not in ENDED:
        return "a run no longer has to make way"
    if new.cancelled and not old.cancelled:
        return _wrong_cancel(at, new, after)
    if new.state == "replaced" and old.state not in ENDED:
        return _wrong_replacement(step, at, old, after)
    return None


def wrong_pause(world: World, before: Table, step: Step, after: Table) -> str | None:
    """Say which promise about pauses a step breaks."""
    if is_paused(before) and not is_paused(after) and step.act != "resume":
        return "a pause ended by itself"
    if not world.rules.pause_on_failure or is_paused(after):
        return None
    was = before.runs[step.at] if step.at >= 0 else None
    now = after.runs[step.at] if step.at >= 0 else None
    failed = {"abandoned"} | ({"failed"} if step.act == "fail, pause" else set())
    if was is not None and was.state not in ENDED and now is not None and now.state in failed:
        return "a run failed for good, and its job goes on"
    return None


def _wrong_cancel(at: int, run: Run, after: Table) -> str | None:
    if run.origin != "scheduled":
        return f"a run of origin {run.origin} has to make way"
    if not any(is_waiting(newer, "scheduled") for newer in after.runs[at + 1 :]):
        return "a run has to make way for none"
    return None


def _wrong_replacement(step: Step, at: int, old: Run, after: Table) -> str | None:
    """Look for what a run was replaced by: a newer slot that was begun, or waits in its place."""
    if old.origin == "manual":
        return "a run that was asked for was replaced"
    if old.origin == "backfill" and (is_begun(old) or step.act != "cancel backfill"):
        return "a run of a backfill was replaced"
    if old.origin == "backfill":
        return None
    if old.cancelled:
        return None
    newer = after.runs[at + 1 :]
    if any(is_begun(run, "scheduled") for run in newer):
        return None
    if is_waiting(old) and any(is_waiting(run, "scheduled") for run in newer):
        return None
    return "a run was replaced by none"
