"""What a run's holder does with its token, as a model; what the history takes, and pruning."""

from __future__ import annotations

from model.control import pause
from model.values import (
    ENDED,
    Lost,
    Now,
    Origin,
    Rules,
    Run,
    Table,
    is_begun,
    is_live,
    is_waiting,
    lost,
    renewed,
    with_run,
    without_lease,
)


def heartbeat(table: Table, rules: Rules, at: int, token: str, now: Now) -> tuple[str, Table]:
    """Renew a lease that is live and has the token, whatever the state of its run."""
    run = table.runs[at]
    if run is None or run.token != token:
        return "lost", table
    if not is_live(run, now) and rules.fault != "a lease that is over is renewed":
        return "lost", table
    told = run.cancelled and rules.fault != "a cancelled run is not told"
    return "replaced" if told else "ok", with_run(table, at, renewed(run, rules, now))


def retry(
    table: Table, rules: Rules, at: int, token: str, retries: int, now: Now
) -> tuple[bool, Table]:
    """Keep how often a run that is at work is tried again; a count that comes late is none."""
    run = table.runs[at]
    if run is None or run.token != token or run.state != "claimed" or not is_live(run, now):
        return False, table
    if run.retries > retries and rules.fault != "a count of retries can fall":
        return True, table
    return True, with_run(table, at, run._replace(retries=retries))


def finish(
    table: Table,
    rules: Rules,
    at: int,
    token: str,
    now: Now,
    *,
    status: str = "success",
    keep_lease: bool = False,
    pauses: bool = False,
) -> tuple[bool, Table]:
    """Record the end of a run and end its lease, unless that is kept as it is.

    ``status`` is the state that it ends in: ``replaced`` if it made way for a newer one.
    """
    run = table.runs[at]
    if run is None or (run.token != token and rules.fault != "finish needs no token"):
        return False, table
    if run.state not in ENDED:
        run = run._replace(state=status)
        if pauses and rules.fault != "a failed run pauses nothing":
            _paused, table = pause(table, now)
    if not keep_lease and run.host is not None:
        run = without_lease(run, now)
    return True, with_run(table, at, run)


def release(
    table: Table, at: int, token: str, now: Now, *, counted: bool = False
) -> tuple[bool, Table]:
    """Give a run back; of one that has ended, end the lease and nothing else."""
    run = table.runs[at]
    if run is None or run.token != token:
        return False, table
    if run.state == "claimed":
        run = run._replace(state="released", released_fence=run.fence, lost=run.lost + counted)
    elif run.host is None:
        return True, table
    return True, with_run(table, at, without_lease(run, now))


def takes_record(table: Table, at: int, fence: int) -> bool:
    """Say whether the history takes a record of this attempt from its own holder.

    Of a run that was closed in its holder's place nobody has the token. One that is to be run again
    has the fence of the attempt before, until it is begun.
    """
    run = table.runs[at]
    if run is None:
        return False
    if not run.attempt and run.fence == fence:
        return True
    return (
        (run.fence == fence and run.token != "") or fence < run.fence or run.released_fence == fence
    )


def prune(table: Table, rules: Rules, now: Now) -> tuple[tuple[Lost, ...], Table]:
    """Remove what need not be kept, and say which attempts nobody saw the end of.

    The newest slot that the schedule or a backfill has begun is kept, with all newer slots, and
    what waits.
    """
    newest = max((at for at, run in enumerate(table.runs) if _counts(run)), default=0)
    gone = []
    for at, run in enumerate(table.runs):
        if run is None or is_live(run, now) or is_waiting(run):
            continue
        if run.origin != "manual" and at >= newest:
            continue
        if max(rules.slots[at], run.wall_until) + rules.keep < now.wall:
            gone.append((at, run))
    for at, _run in gone:
        table = with_run(table, at, None)
    marks = [rules.slots[at] for at, run in gone if run.origin in _of_schedule(rules)]
    if marks:
        marks += [] if table.pruned is None else [table.pruned]
        table = table._replace(pruned=max(marks))
    return tuple(lost(at, run) for at, run in gone if run.state == "claimed"), table


def _counts(run: Run | None) -> bool:
    return is_begun(run, "scheduled") or (run is not None and run.origin == "backfill")


def _of_schedule(rules: Rules) -> set[Origin]:
    if rules.fault == "a backfilled slot that is pruned is free":
        return {"scheduled"}
    return {"scheduled", "backfill"}
