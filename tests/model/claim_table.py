"""The claim table as a model: functions from one table to the next, and what they answer.

It is written from the rules alone and shares nothing with the package, so that a mistake in one is
not a mistake in both.
"""

from __future__ import annotations

from model.control import pause
from model.values import (
    ENDED,
    Answer,
    Asked,
    Lost,
    Now,
    Origin,
    Rules,
    Run,
    Table,
    is_begun,
    is_live,
    is_paused,
    is_waiting,
    lost,
    renewed,
    was_paused,
    with_run,
    without_lease,
)


def claim(table: Table, rules: Rules, asked: Asked, now: Now) -> tuple[Answer, Table]:
    """Answer by the first row of the claim table that fits."""
    at, run = asked.at, table.runs[asked.at]
    if run is None:
        return _claim_unclaimed(table, rules, asked, now)
    live = is_live(run, now)
    if run.token == asked.token and live and run.state not in ENDED:
        was_put_in = run.origin != ("takeover" if asked.takeover else "scheduled")
        again = Answer(
            *("won", run.attempt, run.fence),
            retries=run.retries,
            trigger=run.origin if run.attempt == 1 and was_put_in else None,
        )
        return again, with_run(table, at, renewed(run, rules, now))
    if run.state in ENDED and rules.fault != "an ended run is won again":
        return Answer("done", holder=run.instance), table
    if live and rules.fault != "a lease that is alive is taken":
        return Answer("running", run.attempt, holder=run.instance), table
    if _makes_way(table, rules, at, now):
        closed = (lost(at, run),) if run.state == "claimed" else ()
        done = Answer("done", holder=run.instance, closed=closed)
        return done, with_run(table, at, closed_by_another(run, "replaced", now))
    if run.lost + (run.state == "claimed") >= rules.max_attempts:
        return _abandon(table, rules, at, run, now)
    if rules.fault == "nobody takes over":
        return Answer("running", run.attempt, holder=run.instance), table
    if is_paused(table) and rules.fault != "a pause stops no takeover":
        return Answer("paused"), table
    return _overlap(table, rules, at, now) or _win(table, rules, asked, now)


def _makes_way(table: Table, rules: Rules, at: int, now: Now) -> bool:
    """Say whether a run that is not at work goes on no more, since a newer one came."""
    run = table.runs[at]
    assert run is not None
    if run.cancelled and rules.fault != "a cancelled run is taken over":
        return True
    if not _can_be_replaced(run, rules):
        return False
    return _newer_is_begun(table, rules, at, now)


def _newer_is_begun(table: Table, rules: Rules, at: int, now: Now) -> bool:
    """Say whether a newer slot, which is due, was begun by the schedule."""
    newer = zip(rules.slots[at + 1 :], table.runs[at + 1 :], strict=True)
    return any(slot <= now.wall and _counts(run, rules) for slot, run in newer)


def _counts(run: Run | None, rules: Rules) -> bool:
    if rules.fault == "a slot that waits replaces what was begun" and is_waiting(run):
        return True
    return is_begun(run) and run is not None and _can_replace(run, rules)


def _abandon(table: Table, rules: Rules, at: int, run: Run, now: Now) -> tuple[Answer, Table]:
    closed = (lost(at, run),) if run.state == "claimed" else ()
    done = Answer("done", holder=run.instance, closed=closed, abandoned=True)
    if rules.pause_on_failure and rules.fault != "used-up attempts pause nothing":
        _paused, table = pause(table, now)
    return done, with_run(table, at, closed_by_another(run, "abandoned", now))


def _claim_unclaimed(table: Table, rules: Rules, asked: Asked, now: Now) -> tuple[Answer, Table]:
    slot = rules.slots[asked.at]
    if asked.takeover:
        return Answer("none"), table
    if table.pruned is not None and slot <= table.pruned <= now.wall:
        return Answer("done"), table
    if is_paused(table) and rules.fault != "a pause stops no new run":
        return Answer("paused"), table
    if was_paused(table, slot) and rules.fault != "the slots of a pause are caught up":
        return Answer("paused"), table
    if now.wall - slot > rules.max_late:
        return Answer("late"), table
    found = _overlap(table, rules, asked.at, now)
    if found is not None and (
        rules.overlap in {"queue", "cancel"} or _meets_backfill_alone(table, rules, asked.at, now)
    ):
        return _wait(found[0], table, rules, asked, now)
    return found or _win(table, rules, asked, now)


def _overlap(table: Table, rules: Rules, at: int, now: Now) -> tuple[Answer, Table] | None:
    """Return the answer where another run is in the way: the oldest of those."""
    if rules.overlap == "allow" or rules.fault == "other runs' leases do not matter":
        return None
    others = [(other, run) for other, run in enumerate(table.runs) if run and other != at]
    found = [(other, run) for other, run in others if is_live(run, now)]
    if not found and rules.overlap == "queue":
        found = [(other, run) for other, run in others if other < at and _goes_on(run, rules)]
    if not found and rules.fault == "each waits for the other":
        found = [(other, run) for other, run in others if other > at and is_waiting(run)]
    if not found:
        return None
    other, run = found[0]
    return Answer("overlap", holder=run.instance, other=other), table


def _meets_backfill_alone(table: Table, rules: Rules, at: int, now: Now) -> bool:
    """Say whether all that stands in the way of a slot are runs of a backfill."""
    if rules.fault == "a backfill costs a slot":
        return False
    others = [run for other, run in enumerate(table.runs) if run is not None and other != at]
    return all(run.origin == "backfill" for run in others if is_live(run, now))


def _goes_on(run: Run, rules: Rules) -> bool:
    """Say whether a run that was begun is to have a next attempt."""
    if rules.fault == "a queued slot waits for live leases alone":
        return False
    return is_begun(run) and run.state not in ENDED and not run.cancelled


def _wait(
    overlap: Answer, table: Table, rules: Rules, asked: Asked, now: Now
) -> tuple[Answer, Table]:
    """Keep a slot until it can be begun, unless a newer one is there: then it never will be."""
    at = asked.at
    older = [(other, run) for other, run in enumerate(table.runs[:at]) if run is not None]
    newer_waits = any(is_waiting(run, "scheduled") for run in table.runs[at + 1 :])
    runs = not newer_waits and not _newer_is_begun(table, rules, at, now)
    for other, run in older:
        if is_waiting(run, "scheduled") and rules.fault != "all slots wait":
            table = with_run(table, other, closed_by_another(run, "replaced", now))
    if rules.overlap == "cancel" and (runs or rules.fault == "a slot that will not run cancels"):
        origin: Origin | None = "scheduled"
        if rules.fault == "what was asked for is cancelled":
            origin = None
        for other, run in older:
            if (is_live(run, now) or run.state not in ENDED) and is_begun(run, origin):
                table = with_run(table, other, run._replace(cancelled=True))
    waiting = Run(
        state="released" if runs else "replaced",
        token="",
        instance=asked.instance,
        attempt=0,
        lost=0,
        fence=0,
        released_fence=None,
        host=None,
        elapsed_until=0,
        wall_until=now.wall,
    )
    answer = overlap if runs else Answer("done", holder=asked.instance)
    return answer, with_run(table, at, waiting)


def _win(table: Table, rules: Rules, asked: Asked, now: Now) -> tuple[Answer, Table]:
    at, run, fence = asked.at, table.runs[asked.at], table.next_fence
    waited = run is not None and not run.attempt
    was_lost = run is not None and run.state == "claimed"
    closed: tuple[Lost, ...] = (lost(at, run),) if run is not None and was_lost else ()
    forgets = run is None or rules.fault == "the next attempt forgets the count"
    won = Run(
        state="claimed",
        token=asked.token,
        instance=asked.instance,
        attempt=1 if run is None else run.attempt + 1,
        lost=0 if run is None else run.lost + was_lost,
        fence=fence,
        released_fence=None if run is None else run.released_fence,
        host=now.host,
        elapsed_until=now.elapsed + rules.lease,
        wall_until=now.wall + rules.lease,
        retries=0 if run is None or forgets else run.retries,
        origin="scheduled" if run is None else run.origin,
    )
    if rules.fault != "a won claim settles nothing":
        settled, table = _settle(table, rules, at, won, now)
        closed += settled
    rise = rules.fault != "a fence is given twice" or fence % 2
    table = with_run(table, at, won)._replace(next_fence=fence + rise)
    trigger = won.origin if waited else None
    answer = Answer("won", won.attempt, fence, None, None, closed, False, won.retries, trigger)
    return answer, table


def _settle(
    table: Table, rules: Rules, at: int, won: Run, now: Now
) -> tuple[tuple[Lost, ...], Table]:
    """Replace older slots of the schedule by a newer one, and end the leases that seem over."""
    closed: tuple[Lost, ...] = ()
    for other, run in enumerate(table.runs):
        if run is None or other == at or is_live(run, now):
            continue
        if other < at and run.state not in ENDED and _may_replace(won, run, rules):
            closed += (lost(other, run),) if run.state == "claimed" else ()
            table = with_run(table, other, closed_by_another(run, "replaced", now))
        elif run.host is not None and (rules.overlap != "allow" or run.state in ENDED):
            # A kept lease too: its holder may see it as alive, and would renew it.
            table = with_run(table, other, without_lease(run, now))
    return closed, table


def _may_replace(newer: Run, older: Run, rules: Rules) -> bool:
    return _can_replace(newer, rules) and _can_be_replaced(older, rules)


def _can_replace(run: Run, rules: Rules) -> bool:
    if rules.fault == "what was asked for replaces a slot" and run.origin == "manual":
        return True
    if rules.fault == "a backfilled run replaces" and run.origin == "backfill":
        return True
    return run.origin == "scheduled"


def _can_be_replaced(run: Run, rules: Rules) -> bool:
    if rules.fault == "a slot replaces what was asked for" and run.origin == "manual":
        return True
    if rules.fault == "a backfilled run is replaced" and run.origin == "backfill":
        return True
    return run.origin == "scheduled"


def closed_by_another(run: Run, state: str, now: Now) -> Run:
    """End a run in its holder's place. Nobody has the token that it gets."""
    was_lost = run.state == "claimed"
    ended = run._replace(state=state, token="", lost=run.lost + was_lost, cancelled=False)
    return without_lease(ended, now)
