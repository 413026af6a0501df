"""The claim table as a model: values that never change, and functions from one to the next.

It is written from the rules alone and shares nothing with the package, so that a mistake in one is
not a mistake in both. Times are whole numbers without a unit. ``at`` is the number of a slot, from
the oldest; a token is a text, and an instance too.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Fault = Literal[
    "",
    "a lease that is over is renewed",
    "a won claim settles nothing",
    "finish needs no token",
    "a lease that is alive is taken",
    "an ended run is won again",
    "other runs' leases do not matter",
    "a fence is given twice",
    "nobody takes over",
]
"""A rule that is broken on purpose."""

ENDED = frozenset({"success", "failed", "abandoned", "replaced"})


class Rules(NamedTuple):
    """What all claims of the job say, when its slots are, and how long rows are kept."""

    slots: tuple[int, ...]
    lease: int
    max_late: int
    keep: int
    overlap: Literal["skip", "allow"] = "skip"
    max_attempts: int = 2
    fault: Fault = ""


class Now(NamedTuple):
    """What an observer's clocks show; only on one host do two observers share ``elapsed``."""

    host: int
    elapsed: int
    wall: int


class Run(NamedTuple):
    """A row. ``host`` is the one by whose clock the lease runs; None: it was ended for good."""

    state: str
    token: str
    instance: str
    attempt: int
    lost: int
    fence: int
    released_fence: int | None
    host: int | None
    elapsed_until: int
    wall_until: int


class Table(NamedTuple):
    """All that a store knows of the job; ``pruned`` is the newest slot that was removed."""

    runs: tuple[Run | None, ...]
    next_fence: int
    pruned: int | None = None


class Lost(NamedTuple):
    """An attempt that is recorded, by most calls as lost."""

    at: int
    attempt: int
    fence: int
    instance: str


class Answer(NamedTuple):
    """The answer to a claim."""

    outcome: str
    attempt: int | None = None
    fence: int | None = None
    holder: str | None = None
    other: int | None = None
    closed: tuple[Lost, ...] = ()
    abandoned: bool = False


class Asked(NamedTuple):
    """A claim."""

    at: int
    token: str
    instance: str
    takeover: bool = False


def is_live(run: Run, now: Now) -> bool:
    """A lease is live by its expiry alone, whatever the state of its run."""
    if run.host is None:
        return False
    if run.host == now.host:
        return run.elapsed_until > now.elapsed
    return run.wall_until > now.wall


def claim(table: Table, rules: Rules, asked: Asked, now: Now) -> tuple[Answer, Table]:
    """Answer by the first row of the claim table that fits."""
    at, run = asked.at, table.runs[asked.at]
    if run is None:
        return _claim_unclaimed(table, rules, asked, now)
    live = is_live(run, now)
    if run.token == asked.token and live and run.state not in ENDED:
        renewed = _renewed(run, rules, now)
        return Answer("won", run.attempt, run.fence), _with(table, at, renewed)
    if run.state in ENDED and rules.fault != "an ended run is won again":
        return Answer("done", holder=run.instance), table
    if live and rules.fault != "a lease that is alive is taken":
        return Answer("running", run.attempt, holder=run.instance), table
    newer = zip(rules.slots[at + 1 :], table.runs[at + 1 :], strict=True)
    if any(other is not None and slot <= now.wall for slot, other in newer):
        closed = (_lost(at, run),) if run.state == "claimed" else ()
        done = Answer("done", holder=run.instance, closed=closed)
        return done, _with(table, at, _closed(run, "replaced", now))
    if run.lost + (run.state == "claimed") >= rules.max_attempts:
        closed = (_lost(at, run),) if run.state == "claimed" else ()
        done = Answer("done", holder=run.instance, closed=closed, abandoned=True)
        return done, _with(table, at, _closed(run, "abandoned", now))
    if rules.fault == "nobody takes over":
        return Answer("running", run.attempt, holder=run.instance), table
    return _overlap(table, rules, at, now) or _win(table, rules, asked, now)


def heartbeat(table: Table, rules: Rules, at: int, token: str, now: Now) -> tuple[str, Table]:
    """Renew a lease that is live and has the token, whatever the state of its run."""
    run = table.runs[at]
    if run is None or run.token != token:
        return "lost", table
    if not is_live(run, now) and rules.fault != "a lease that is over is renewed":
        return "lost", table
    return "ok", _with(table, at, _renewed(run, rules, now))


def finish(
    table: Table,
    rules: Rules,
    at: int,
    token: str,
    now: Now,
    *,
    status: str = "success",
    keep_lease: bool = False,
) -> tuple[bool, Table]:
    """Record the end of a run and end its lease, unless that is kept as it is."""
    run = table.runs[at]
    if run is None or (run.token != token and rules.fault != "finish needs no token"):
        return False, table
    if run.state not in ENDED:
        run = run._replace(state=status)
    if not keep_lease and run.host is not None:
        run = _without_lease(run, now)
    return True, _with(table, at, run)


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
    return True, _with(table, at, _without_lease(run, now))


def prune(table: Table, rules: Rules, now: Now) -> tuple[tuple[Lost, ...], Table]:
    """Remove what need not be kept, and say which attempts nobody saw the end of."""
    newest = max((at for at, run in enumerate(table.runs) if run is not None), default=0)
    gone = []
    for at, run in enumerate(table.runs[:newest]):
        if run is None or is_live(run, now):
            continue
        if max(rules.slots[at], run.wall_until) + rules.keep < now.wall:
            gone.append((at, run))
    for at, _run in gone:
        table = _with(table, at, None)
    if gone:
        marks = [rules.slots[gone[-1][0]], *([] if table.pruned is None else [table.pruned])]
        table = table._replace(pruned=max(marks))
    return tuple(_lost(at, run) for at, run in gone if run.state == "claimed"), table


def takes_record(table: Table, at: int, fence: int) -> bool:
    """Say whether the history takes a record of this attempt from its own holder."""
    run = table.runs[at]
    if run is None:
        return False
    owned = run.fence == fence and run.state not in {"abandoned", "replaced"}
    return owned or fence < run.fence or run.released_fence == fence


def _claim_unclaimed(table: Table, rules: Rules, asked: Asked, now: Now) -> tuple[Answer, Table]:
    slot = rules.slots[asked.at]
    if asked.takeover:
        return Answer("none"), table
    if table.pruned is not None and slot <= table.pruned <= now.wall:
        return Answer("done"), table
    if now.wall - slot > rules.max_late:
        return Answer("late"), table
    return _overlap(table, rules, asked.at, now) or _win(table, rules, asked, now)


def _overlap(table: Table, rules: Rules, at: int, now: Now) -> tuple[Answer, Table] | None:
    if rules.overlap == "allow" or rules.fault == "other runs' leases do not matter":
        return None
    for other, run in enumerate(table.runs):
        if other != at and run is not None and is_live(run, now):
            return Answer("overlap", holder=run.instance, other=other), table
    return None


def _win(table: Table, rules: Rules, asked: Asked, now: Now) -> tuple[Answer, Table]:
    at, run, fence = asked.at, table.runs[asked.at], table.next_fence
    lost = run is not None and run.state == "claimed"
    closed: tuple[Lost, ...] = (_lost(at, run),) if run is not None and lost else ()
    attempt = 1 if run is None else run.attempt + 1
    won = Run(
        state="claimed",
        token=asked.token,
        instance=asked.instance,
        attempt=attempt,
        lost=0 if run is None else run.lost + lost,
        fence=fence,
        released_fence=None if run is None else run.released_fence,
        host=now.host,
        elapsed_until=now.elapsed + rules.lease,
        wall_until=now.wall + rules.lease,
    )
    if rules.fault != "a won claim settles nothing":
        settled, table = _settle(table, rules, at, now)
        closed += settled
    rise = rules.fault != "a fence is given twice" or fence % 2
    table = _with(table, at, won)._replace(next_fence=fence + rise)
    return Answer("won", attempt, fence, closed=closed), table


def _settle(table: Table, rules: Rules, won: int, now: Now) -> tuple[tuple[Lost, ...], Table]:
    closed: tuple[Lost, ...] = ()
    for at, run in enumerate(table.runs):
        if run is None or at == won or is_live(run, now):
            continue
        if at < won and run.state not in ENDED:
            closed += (_lost(at, run),) if run.state == "claimed" else ()
            table = _with(table, at, _closed(run, "replaced", now))
        elif run.host is not None and (rules.overlap == "skip" or run.state in ENDED):
            # A kept lease too: its holder may see it as alive, and would renew it.
            table = _with(table, at, _without_lease(run, now))
    return closed, table


def _closed(run: Run, state: str, now: Now) -> Run:
    """End a run in its holder's place. Nobody has the token that it gets."""
    ended = run._replace(state=state, token="", lost=run.lost + (run.state == "claimed"))
    return _without_lease(ended, now)


def _renewed(run: Run, rules: Rules, now: Now) -> Run:
    return run._replace(
        host=now.host,
        elapsed_until=now.elapsed + rules.lease,
        wall_until=now.wall + rules.lease,
    )


def _without_lease(run: Run, now: Now) -> Run:
    """End a lease for good. Of several ends that are noted the earliest counts."""
    return run._replace(host=None, elapsed_until=0, wall_until=min(run.wall_until, now.wall))


def _lost(at: int, run: Run) -> Lost:
    return Lost(at, run.attempt, run.fence, run.instance)


def _with(table: Table, at: int, run: Run | None) -> Table:
    return table._replace(runs=(*table.runs[:at], run, *table.runs[at + 1 :]))
