"""What people ask for is done, and a pause, a retry and a slot that waits are what they say.

Who holds a run beside another one is found with all others that may not: see ``check_holders``.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from chaos.jobs import MAX_LATE, work_of
from chaos.kept import Kept
from chaos.lives import RunAgain, lives
from chaos.story import Attempt, Run, Said, Story
from chaos.violation import Violation, violation
from leasecron.model import WAITING

BEGUN_IN = 4.0
"""Seconds in which a run that was asked for has begun where an instance is well and has time."""

_SLACK = 1.0
_CLOCK = 0.1
_ENDED = ("success", "failed", "abandoned")


def controls(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find all of it."""
    by_run: defaultdict[Run, list[Attempt]] = defaultdict(list)
    of_one_run: defaultdict[RunAgain, list[Attempt]] = defaultdict(list)
    run_of = lives(story, kept)
    for attempt in story.attempts:
        by_run[attempt.run].append(attempt)
        of_one_run[run_of[attempt.run, attempt.fence]].append(attempt)
    yield from begun_in_a_pause(story)
    yield from wrong_tries(of_one_run.values())
    yield from out_of_order(story, by_run)
    yield from not_cancelled(story, by_run)
    yield from not_run(story, kept, by_run)
    yield from at_two_instants(story, kept)


def begun_in_a_pause(story: Story) -> Iterator[Violation]:
    """Find runs that were won while their job was paused, and slots of a pause begun after it."""
    for attempt in story.attempts:
        if attempt.retry:  # won long before, and a run that goes on is left alone
            continue
        lease = work_of(attempt.job).lease
        won_since = story.won_since(attempt, lease)
        due = attempt.slot / 1000 - story.offset
        if _had_a_wrong_clock(story, attempt, lease):  # it may have won before the slot was due
            won_since, due = attempt.begun - lease, -math.inf
        for pause in story.pauses:
            if pause.job != attempt.job:
                continue
            if pause.since < won_since and attempt.begun < pause.until:
                yield violation("a run of a job that was paused", attempt, pause)
            was_due_in_it = pause.since + _CLOCK < due < pause.until - _CLOCK
            is_first = attempt.attempt == 1 and attempt.trigger != "manual"
            if was_due_in_it and is_first and attempt.begun > pause.over:
                yield violation("a slot of a pause was begun after it", attempt, pause)


def _had_a_wrong_clock(story: Story, attempt: Attempt, lease: float) -> bool:
    troubles = story.troubles.between(attempt.life, attempt.begun - lease, attempt.begun)
    return any(each.kind == "clock" for each in troubles)


def wrong_tries(of_each_run: Iterable[Sequence[Attempt]]) -> Iterator[Violation]:
    """Find tries that do not follow each other, or are more than there may be."""
    for attempts in of_each_run:
        work = work_of(attempts[0].job)
        ordered = sorted(attempts, key=lambda each: (each.attempt, each.begun))
        for before, after in pairwise(ordered):
            more = after.retry - before.retry
            same = after.attempt == before.attempt
            if more != 1 if same else more < 0:
                yield violation("a try that does not follow the one before", before, after)
            if same and not (before.how == "raised" or before.last.told == "timeout"):
                yield violation("a try after one that did not fail", before, after)
        if any(attempt.retry > work.retries for attempt in attempts):
            yield violation(f"a run was tried again more than {work.retries} times", *attempts)


def out_of_order(story: Story, by_run: dict[Run, list[Attempt]]) -> Iterator[Violation]:
    """Find slots that were begun before the end of an older run, or instead of a newer one."""
    by_job: defaultdict[str, list[tuple[int, list[Attempt]]]] = defaultdict(list)
    for (job, slot), attempts in by_run.items():
        if work_of(job).overlap == "queue":
            by_job[job].append((slot, attempts))
    for runs in by_job.values():
        for slot, attempts in runs:
            first = attempts[0]
            for older, others in runs:
                before = [each for each in others if each.begun < first.begun]
                again = [each for each in others if each.fence != before[0].fence] if before else []
                later = [each for each in again if each.begun > first.begun]
                if older < slot and before and later:
                    text = "a queued slot was begun before the end of an older run"
                    yield violation(text, first, before[-1], later[0])
    waits = _waits(story)
    for (job, slot), attempts in by_run.items():
        if slot not in waits[job] or attempts[0].trigger == "manual":
            continue
        won_since = story.won_since(attempts[0], work_of(job).lease)
        for newer, said in waits[job].items():
            # Of a slot that was begun first, this was said for another reason.
            waited = min((each.begun for each in by_run.get((job, newer), ())), default=math.inf)
            if newer > slot and waits[job][slot].m < said.m < min(won_since, waited):
                text = "a slot that waited was begun instead of a newer one"
                yield violation(text, attempts[0], waits[job][slot], said)
                break


def not_cancelled(story: Story, by_run: dict[Run, list[Attempt]]) -> Iterator[Violation]:
    """Find runs that are not told of a newer slot that waits for their end."""
    waits = _waits(story)
    for attempt in story.attempts:
        work = work_of(attempt.job)
        if work.overlap != "cancel" or attempt.trigger == "manual":
            continue
        for slot, said in waits[attempt.job].items():
            first = min(
                (each.begun for each in by_run.get((attempt.job, slot), ())), default=math.inf
            )
            is_told_of = attempt.begun < said.m - _SLACK and first > said.m
            if slot <= attempt.slot or not is_told_of:
                continue
            told_by = said.m + 2 * work.heartbeat + _SLACK
            for look in attempt.looks:
                if look.m > told_by and look.told is None:
                    if story.is_at_leisure(attempt.life, attempt.begun - work.lease, look.m):
                        text = f"a run that is in the way was not told at {look.m:.3f}"
                        yield violation(text, attempt, said)
                    break


def not_run(story: Story, kept: Kept, by_run: dict[Run, list[Attempt]]) -> Iterator[Violation]:
    """Find runs that people asked for and that were not run, or late, or have not ended."""
    for run, m in story.asked.items():
        attempts = by_run.get(run, [])
        if not attempts:
            if m < story.calm_since:
                yield violation("a run that was asked for was never begun", run)
            continue
        claim = kept.claims.get(run)
        if claim is None or claim.state not in _ENDED:
            yield violation("a run that was asked for has not ended", run, claim, *attempts)
        asked = run[1] / 1000 - story.offset
        by = asked + BEGUN_IN
        is_well = any(
            life.up is not None
            and life.up + MAX_LATE < asked
            and by < life.gone
            and story.is_at_leisure(life.life, asked - MAX_LATE, by)
            for life in story.lives.values()
        )
        if attempts[0].begun > by and is_well and attempts[0].attempt == 1:
            yield violation(f"a run that was asked for was begun after {by:.3f}", attempts[0])


def at_two_instants(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find jobs that run once and did so at more than one instant."""
    slots: defaultdict[str, set[int]] = defaultdict(set)
    for job, slot in chain(kept.claims, (attempt.run for attempt in story.attempts)):
        if work_of(job).once is not None:
            slots[job].add(slot)
    for job, found in slots.items():
        if len(found) > 1:
            yield violation(f"a job that runs once did so more often: {job}", *sorted(found))


def _waits(story: Story) -> dict[str, dict[int, Said]]:
    """Return the first time that a slot was said to have to wait, by job and slot."""
    found: defaultdict[str, dict[int, Said]] = defaultdict(dict)
    for said in story.said:
        if said.reason != "overlap" or said.job is None or said.slot is None:
            continue
        if work_of(said.job).overlap in WAITING:
            found[said.job].setdefault(said.slot, said)
    return found
