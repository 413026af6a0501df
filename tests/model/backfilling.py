"""Backfills, as a model: they run again what never succeeded, one slot after the other."""

from __future__ import annotations

from model.claim_table import closed_by_another
from model.values import (
    ENDED,
    Backfill,
    Lost,
    Now,
    Rules,
    Run,
    Table,
    Went,
    goes_on,
    is_live,
    is_paused,
    is_waiting,
    lost,
    with_run,
)


def add_backfill(table: Table, instance: str) -> tuple[Backfill, Table]:
    """Begin a backfill unless one goes on; answer with the one that does then."""
    if not goes_on(table):
        table = table._replace(backfill=Backfill(instance))
    assert table.backfill is not None
    return table.backfill, table


def advance(
    table: Table,
    rules: Rules,
    cursor: int | None,
    slot: int | None,
    now: Now,
    *,
    of_earlier: bool = False,
) -> tuple[Went, Table]:
    """Go on from ``cursor`` to ``slot``, or to the end with None, unless somebody was faster."""
    backfill = table.backfill
    if backfill is None or not goes_on(table):
        return Went("stale"), table
    if of_earlier and rules.fault != "an earlier backfill goes on":
        return Went("stale"), table
    if backfill.cursor != cursor and rules.fault != "a backfill goes on from anywhere":
        return Went("stale"), table
    at_work = any(_is_at_work(run, rules, now) for run in table.runs)
    if at_work and rules.fault != "a backfill does not wait for its run":
        return Went("stale"), table
    if slot is None:
        if rules.fault == "a backfill never ends":
            return Went("stale"), table
        ended = _counted(table, backfill)._replace(ended=True)
        return Went("ended"), table._replace(backfill=ended)
    if is_paused(table) and rules.fault != "a pause stops no backfill":
        if rules.fault == "a backfill counts and does not go on":
            table = table._replace(backfill=_counted(table, backfill))
        return Went("paused"), table
    if _is_busy(table, rules, slot, now):
        return Went("busy"), table
    table = table._replace(backfill=_counted(table, backfill)._replace(cursor=slot))
    run = table.runs[slot]
    if run is not None and run.state == "success" and rules.fault != "what succeeded is run again":
        return Went("skipped"), table
    closed: tuple[Lost, ...] = (lost(slot, run),) if run and run.state == "claimed" else ()
    return Went("waiting", closed), with_run(
        table, slot, _again(run, rules, backfill.instance, now)
    )


def cancel_backfill(table: Table, rules: Rules, now: Now) -> tuple[Went, Table]:
    """End a backfill before its time: what nobody has begun is not, and a live run goes on."""
    backfill = table.backfill
    if backfill is None or backfill.ended:
        return Went("none"), table
    run = None if backfill.cursor is None else table.runs[backfill.cursor]
    if run is not None and is_waiting(run, "backfill"):
        assert backfill.cursor is not None
        table = with_run(table, backfill.cursor, closed_by_another(run, "replaced", now))
    elif run is not None and run.origin == "backfill":
        unended = rules.fault == "a cancelled backfill counts what goes on"
        backfill = _counted(table, backfill, unended=unended)
    return Went("cancelled"), table._replace(backfill=backfill._replace(ended=True))


def _is_at_work(run: Run | None, rules: Rules, now: Now) -> bool:
    """Say whether a run of a backfill has not ended, or its handler goes on past its end."""
    if run is None or run.origin != "backfill":
        return False
    if run.state in ENDED and rules.fault == "a backfill does not wait for a deaf handler":
        return False
    return run.state not in ENDED or is_live(run, now)


def _is_busy(table: Table, rules: Rules, slot: int, now: Now) -> bool:
    """Say whether a slot is being run, or one of the schedule waits: that goes first."""
    run = table.runs[slot]
    if run is not None and is_live(run, now):
        return rules.fault != "a backfill takes what is being run"
    if rules.fault == "a backfill goes before what waits" and not is_waiting(run):
        return False
    return any(is_waiting(run, "scheduled") for run in table.runs)


def _counted(table: Table, backfill: Backfill, *, unended: bool = False) -> Backfill:
    """Count how the run has ended that a backfill came to."""
    run = None if backfill.cursor is None else table.runs[backfill.cursor]
    if run is not None and run.state == "success":
        return backfill._replace(succeeded=backfill.succeeded + 1)
    if run is None or run.origin != "backfill" or (run.state not in ENDED and not unended):
        return backfill
    return backfill._replace(failed=backfill.failed + 1)


def _again(run: Run | None, rules: Rules, instance: str, now: Now) -> Run:
    """Return a run that nobody has begun; the fences of attempts before are kept."""
    knows = run is not None and rules.fault != "a backfill forgets the fences"
    return Run(
        state="released",
        token="",
        instance=instance,
        attempt=0,
        lost=0,
        fence=run.fence if run is not None and knows else 0,
        released_fence=run.released_fence if run is not None and knows else None,
        host=None,
        elapsed_until=0,
        wall_until=now.wall,
        origin="backfill",
    )
