"""Every step that may come next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model.situations import OF_HOLDERS, Situation, Step, World, clocks, is_holder
from model.values import Run, is_paused


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
    if world.filled:
        yield from _steps_of_backfills(instance, situation, world)


def _steps_of_backfills(instance: int, situation: Situation, world: World) -> Iterator[Step]:
    """Return what can be done by who knows the schedule, now or since an older look."""
    if world.rules.slots[world.filled[-1]] <= clocks(situation, world, instance).wall:
        yield Step("backfill", instance)
    if situation.table.backfill is None:
        return
    yield Step("cancel backfill", instance)
    for cursor in {situation.table.backfill.cursor, None}:
        for at in next_slots(cursor, situation, world):
            yield Step("advance", instance, at, cursor=cursor)
    yield Step("advance an earlier one", instance, world.filled[0])


def next_slots(cursor: int | None, situation: Situation, world: World) -> Sequence[int]:
    """Return which slot is next, by what has succeeded, and by what had at the beginning; or -1.

    Of what is long over and pruned everybody knows it, from history.
    """
    runs, succeeded, known = situation.table.runs, situation.succeeded, situation.known
    later = [at for at in world.filled if (cursor is None or at > cursor) and at not in known]
    left = next((at for at in later if at not in succeeded), -1)
    seen = next((at for at in later if at not in succeeded or runs[at] is not None), -1)
    return (left,) if left == seen else (left, seen)


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


def _token(at: int, attempt: int) -> str:
    return f"{at}.{attempt}"
