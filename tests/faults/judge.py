"""What must hold after an attack, wherever it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from faults.stage import VICTIM, NotedMemory, Stage
from leasecron.events import RunSkipped
from leasecron.model import WAITING, NewRun
from leasecron.runs import Key

SETTLE = 15.0
"""Seconds in which every lease that was left behind is over and taken over."""

_ROUND = 65.0  # all jobs are due again in it


_LAST_DEEDS = "what was done to it last:"
_NOT_RUN = "neither run nor skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was wrong: the promises that were broken, and what the victim is deaf to for good.

    An instance that is deaf keeps every promise to the others: it is no cover for a broken one.
    """

    broken: list[str]
    deaf: list[str]


def judge(stage: Stage) -> Verdict:
    """Let time go on after a play, bring the victim back, and say what is wrong."""
    stage.heal(VICTIM)
    stage.slow_store(0)
    stage.skew(VICTIM, 0)
    stage.advance(SETTLE)
    if stage.victim_died:
        stage.restart(VICTIM)
    stage.advance(SETTLE)
    broken = [*_promises(stage), *_permissions(stage), *_lost(stage)]
    deaf: list[str] = []
    (deaf if stage.others_are_away else broken).extend(_not_ended(stage))
    stage.crash(1)
    stage.crash(2)
    stage.advance(SETTLE)
    alone = stage.clock.now()
    asked = _ask_for_one(stage)
    stage.advance(_ROUND)
    deaf += [f"it does not run {job}" for job in _not_run(stage, alone)]
    if asked is not None and asked not in {(a.job, a.slot) for a in stage.attempts}:
        deaf.append(f"it does not run {asked[0]}, which it was asked for")
    broken += _held(stage, alone)
    if not all(stage.stops):
        deaf.append("it did not stop in the middle of the play")
    if not stage._instances[VICTIM].stop(30.0):
        deaf.append("it does not stop at the end")
    for line in _promises(stage):
        (deaf if _NOT_RUN in line else broken).append(f"with the victim alone: {line}")
    return Verdict([*broken, *_permissions(stage)], deaf)


def _promises(stage: Stage) -> list[str]:
    try:
        stage.check()
    except AssertionError as error:
        found = str(error).splitlines()[1:]
        if _LAST_DEEDS in found:
            found = found[: found.index(_LAST_DEEDS)]
        # An error just before a handler is called is one of the attempt, and recorded as that.
        allowed = "recorded as failed, but never made" if stage.met_error else "(none)"
        return [line for line in found if allowed not in line]
    return []


def _permissions(stage: Stage) -> Iterator[str]:
    for attempt in stage.attempts:
        if attempt.context.token not in stage.won:
            yield f"began without a won claim: {attempt}"


def _lost(stage: Stage) -> Iterator[str]:
    """Yield the slots of which nobody can say what became of them."""
    told = {(a.job, a.slot) for a in stage.attempts}
    told |= {(r.job, r.slot) for r in stage.history(limit=1000) if r.status == "failed"}
    told |= {(s.job, s.slot) for s in stage.events.of(RunSkipped) if s.reason != "taken"}
    if stage.store.kind == "claim-only":  # a slot that was won is gone, whatever became of it
        told |= {(claim.job, claim.slot) for claim in stage.won.values()}
    for name, slots in _slots(stage, stage.began, stage.clock.now() - timedelta(seconds=SETTLE)):
        for slot in slots:
            if (name, slot) not in told:
                yield f"nobody ran {name} at {slot.time()}"


def _ask_for_one(stage: Stage) -> Key | None:
    """Ask the victim for a run: by word, or where its store is polled without one."""
    store, line = stage.store, stage._instances[VICTIM].line
    if not isinstance(store, NotedMemory):
        return None
    store.tells = store.look_every is None
    now = stage.clock.now()  # which no slot of a schedule is at, in whole milliseconds
    slot = now.replace(microsecond=max(1, now.microsecond // 1000) * 1000)
    declared = stage.schedulers[VICTIM].jobs
    names = [j.name for j in store.jobs() if j.name in declared and j.paused_at is None]
    if not names:
        return None
    line.add_runs([NewRun(names[0], slot, "the judge")])
    return names[0], slot


def _not_ended(stage: Stage) -> Iterator[str]:
    """Yield the runs that no newer one replaces and that nobody has brought to an end."""
    if not isinstance(stage.store, NotedMemory):
        return
    last = {*stage.asked_for}
    for name, slots in _slots(
        stage, stage.began, stage.clock.now() - timedelta(seconds=2 * SETTLE)
    ):
        options = stage.schedulers[VICTIM].jobs[name].options
        if slots and (options.retries or options.overlap in WAITING):
            last.add((name, slots[-1]))
    for name, slot in sorted(last):
        state = stage.store.run_state(name, slot)
        if state is None or not state.has_ended:
            yield f"nobody brought {name} at {slot.time()} to an end: {state}"
    for backfill in stage.store.backfills():
        yield f"nobody brought a backfill to an end: {backfill}"


def _held(stage: Stage, since: datetime) -> Iterator[str]:
    """Yield the runs of before ``since`` whose leases are kept alive, though nothing goes on."""
    if isinstance(stage.store, NotedMemory):
        for state in stage.store.unfinished([*stage.schedulers[VICTIM].jobs]):
            if state.alive and state.slot < since:
                yield f"a lease is kept for ever: {state}"


def _not_run(stage: Stage, since: datetime) -> Iterator[str]:
    """Yield the jobs of which the victim ran no slot, nor had to leave it.

    It has to where there was no room in time, or where a failure has paused the job.
    """
    ran = {a.job for a in stage.attempts if a.slot > since}
    told = [s for s in stage.events.of(RunSkipped) if s.slot > since]
    ran |= {s.job for s in told if s.reason in ("late", "paused")}
    for name, slots in _slots(stage, since, since + timedelta(seconds=60)):
        if slots and name not in ran:
            yield name


def _slots(stage: Stage, since: datetime, until: datetime) -> Iterator[tuple[str, list[datetime]]]:
    for name, job in stage.schedulers[VICTIM].jobs.items():
        slots = []
        slot = job.schedule.next_after(since)
        while slot is not None and slot <= until:
            slots.append(slot)
            slot = job.schedule.next_after(slot)
        yield name, slots
