"""Pauses, and runs that somebody asks for, as a model."""

from __future__ import annotations

from model.values import Now, Pause, Rules, Run, Table, is_paused, with_run


def pause(table: Table, now: Now) -> tuple[bool, Table]:
    """Let no claim win from now on. What is paused keeps its pause as it is.

    A pause in the moment in which one ended goes on with that one.
    """
    if is_paused(table):
        return True, table
    pauses = table.pauses
    if pauses and pauses[-1].until is not None and pauses[-1].until >= now.wall:
        return True, table._replace(pauses=(*pauses[:-1], Pause(pauses[-1].since)))
    return True, table._replace(pauses=(*pauses, Pause(now.wall)))


def resume(table: Table, now: Now) -> tuple[bool, Table]:
    """End a pause, if there is one."""
    if not is_paused(table):
        return True, table
    last = table.pauses[-1]
    ended = Pause(last.since, max(last.since, now.wall))
    return True, table._replace(pauses=(*table.pauses[:-1], ended))


def ask_for(table: Table, at: int, instance: str, now: Now) -> tuple[bool, Table]:
    """Put in a run that nobody has begun; False where the schedule has a run at that slot."""
    run = table.runs[at]
    if run is not None:
        return run.origin == "manual", table
    asked_for = Run(
        state="released",
        token="",
        instance=instance,
        attempt=0,
        lost=0,
        fence=0,
        released_fence=None,
        host=None,
        elapsed_until=0,
        wall_until=now.wall,
        origin="manual",
    )
    return True, with_run(table, at, asked_for)


def withdraw(table: Table, rules: Rules, at: int) -> tuple[bool, Table]:
    """Take back a run that was asked for, unless it has been begun."""
    run = table.runs[at]
    if run is None or run.origin == "scheduled":
        return False, table
    if run.attempt and rules.fault != "what was begun is withdrawn":
        return False, table
    return True, with_run(table, at, None)
