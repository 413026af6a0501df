"""What must hold after an attack, wherever it was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from faults.stage import VICTIM, Stage
from leasecron.events import RunSkipped

SETTLE = 15.0
"""Seconds in which every lease that was left behind is over and taken over."""

_ROUND = 65.0  # all jobs are due again in it


def judge(stage: Stage) -> list[str]:
    """Let time go on after a play, bring the victim back, and return what is wrong."""
    stage.heal(VICTIM)
    stage.slow_store(0)
    stage.skew(VICTIM, 0)
    stage.advance(SETTLE)
    if stage.victim_died:
        stage.restart(VICTIM)
    stage.advance(SETTLE)
    wrong = [*_promises(stage), *_permissions(stage), *_lost(stage)]
    stage.crash(1)
    stage.crash(2)
    stage.advance(SETTLE)
    alone = stage.clock.now()
    stage.advance(_ROUND)
    wrong += [f"the victim alone does not run {job}" for job in _not_run(stage, alone)]
    wrong += [f"the victim alone: {line}" for line in _promises(stage)]
    wrong += _permissions(stage)
    if not stage._instances[VICTIM].stop(30.0):
        wrong.append("the victim does not stop")
    return wrong


def _promises(stage: Stage) -> list[str]:
    try:
        stage.check()
    except AssertionError as error:
        # An error just before a handler is called is one of the attempt, and recorded as that.
        allowed = "recorded as failed, but never made" if stage.met_error else "(none)"
        return [line for line in str(error).splitlines()[1:] if allowed not in line]
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


def _not_run(stage: Stage, since: datetime) -> Iterator[str]:
    """Yield the jobs of which the victim ran no slot, nor had no room for it in time."""
    ran = {a.job for a in stage.attempts if a.slot > since}
    ran |= {s.job for s in stage.events.of(RunSkipped) if s.slot > since and s.reason == "late"}
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
