"""No attempt without a won claim, none of a run that has ended, and none while none can be won."""

import math
from collections import defaultdict
from collections.abc import Iterator

from chaos.jobs import FILLED, work_of
from chaos.kept import Claimed, Kept, Record
from chaos.lives import RunAgain, lives
from chaos.story import Attempt, Story, Trouble
from chaos.violation import Violation, violation
from leasecron.model import WAITING

_NOTICED = {"lock": 0.5, "away": 2.0, "down": 1.0}
"""Seconds after which no claim is won any more, and one that was won before has led to a run."""

_EARLY_BY_ITS_STORE, _EARLY = 1.1, 0.2
"""Seconds that a run may begin before its slot by the true time, where the store has a clock of its
own that says so, and where the process has, and that was right."""


def without_a_claim(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find attempts that the store does not know of."""
    recorded = {(record.run, record.fence): record for record in kept.records}
    for attempt in story.attempts:
        claim = kept.claims.get(attempt.run)
        if claim is None:
            yield violation("an attempt of a run that nobody has claimed", attempt)
        elif not story.leases:
            if (claim.token, claim.instance) != (attempt.token, attempt.instance):
                yield violation("an attempt of a run that another one has claimed", attempt, claim)
        elif claim.fence == attempt.fence and claim.attempt:  # else one waits to be run again
            theirs = claim.state in ("abandoned", "replaced")  # such a run has a token of its own
            if claim.attempt != attempt.attempt or not (theirs or claim.token == attempt.token):
                yield violation("an attempt that is not the one claimed", attempt, claim)
        elif (attempt.run, attempt.fence) in recorded:
            record = recorded[attempt.run, attempt.fence]
            if (record.attempt, record.instance) != (attempt.attempt, attempt.instance):
                yield violation("an attempt that is not the one recorded", attempt, record)
        elif _is_older(claim, attempt) or not _died(story, attempt):
            # One that was given back is in no row any more, and its record was to come next.
            yield violation("an attempt of which the store knows nothing", attempt, claim)


def won_again(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find runs with two attempts of one number, and such as went on after their end."""
    run_of = lives(story, kept)
    attempts: defaultdict[RunAgain, list[Attempt]] = defaultdict(list)
    for attempt in story.attempts:
        attempts[run_of[attempt.run, attempt.fence]].append(attempt)
    ends: defaultdict[RunAgain, list[Record]] = defaultdict(list)
    for record in kept.records:
        if record.status in ("success", "failed"):
            ends[run_of[record.run, record.fence]].append(record)
    for run, ended in ends.items():
        if len(ended) > 1:
            yield violation("a run with two ends", *ended, *attempts[run])
        for attempt in attempts[run]:
            if attempt.attempt > ended[0].attempt:
                yield violation("a run was begun again after its end", ended[0], attempt)
    for tries in attempts.values():
        # The tries of an attempt have its token.
        each = [*{attempt.token: attempt for attempt in tries}.values()]
        numbers = [attempt.attempt for attempt in each]
        if len(set(numbers)) < len(numbers):
            yield violation("two attempts have one number", *each)
        by_number = sorted(each, key=lambda attempt: attempt.attempt)
        fences = [attempt.fence or 0 for attempt in by_number]
        if story.leases and fences != sorted(set(fences)):
            yield violation("the fences of a run do not rise with its attempts", *by_number)
        if not story.leases and len(each) > 1:
            yield violation("two attempts on a store that has no second ones", *each)


def too_many_lost(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find runs that were tried again after their last attempt was lost."""
    run_of = lives(story, kept)
    lost: defaultdict[RunAgain, list[Record]] = defaultdict(list)
    for record in kept.records:
        if record.status == "lost":
            lost[run_of[record.run, record.fence]].append(record)
    for (job, _, _), records in lost.items():
        if len(records) > work_of(job).max_attempts:
            yield violation("more attempts were lost than there may be", *records)


def begun_in_an_outage(story: Story) -> Iterator[Violation]:
    """Find attempts that were begun while no claim could be won."""
    for attempt in story.attempts:
        if attempt.retry:  # its claim was won long before
            continue
        for outage in story.troubles.between(None, attempt.begun, attempt.begun):
            # However late one begins that had won before, its fence is an older one.
            if outage.next_fence is None or attempt.fence is None:
                wrong = _begun_too_late(story, attempt, outage)
            else:
                wrong = attempt.fence >= outage.next_fence
            if wrong:
                yield violation("a run was begun while no claim could be won", attempt, outage)


def _begun_too_late(story: Story, attempt: Attempt, outage: Trouble) -> bool:
    """Say whether an attempt cannot well be one that was won before an outage."""
    noticed = _NOTICED.get(outage.kind)
    if noticed is None or attempt.begun < outage.since + noticed:
        return False
    # One that had won before may only now have come to its turn.
    return not (
        story.gaps.between(attempt.life, outage.since - 0.5, attempt.begun)
        or story.was_busy(outage.since, attempt.begun)
    )


def in_a_child(story: Story) -> Iterator[Violation]:
    """Find handlers that run in a process that somebody forked."""
    for attempt in story.attempts:
        if attempt.pid != story.lives[attempt.life].pid:
            yield violation("a run in a forked child", attempt)


def early(story: Story) -> Iterator[Violation]:
    """Find runs begun before their time, by a clock that was right or by that of their store."""
    for attempt in story.attempts:
        ahead = attempt.slot / 1000 - (attempt.begun + story.offset)
        if ahead > _EARLY and ahead > _most_ahead(story, attempt):
            yield violation(f"a run was begun {ahead:.3f} s before its time", attempt)


def _most_ahead(story: Story, attempt: Attempt) -> float:
    if not _comes_from_a_wrong_clock(story, attempt):
        return _EARLY
    return _EARLY_BY_ITS_STORE if story.has_clock else math.inf


def _comes_from_a_wrong_clock(story: Story, attempt: Attempt) -> bool:
    """Say so; whoever takes over what one with a wrong clock has won does so at once.

    And whoever begins what such a one has put in, to wait for the end of an older run.
    """
    if attempt.attempt == 1 and work_of(attempt.job).overlap not in WAITING:
        return _has_a_wrong_clock(story, attempt.life, attempt.begun)
    return any(_has_a_wrong_clock(story, life, attempt.begun) for life in story.lives)


def fences_fall(story: Story) -> Iterator[Violation]:
    """Find runs of slots that were due after an outage of the server, with fences as of before."""
    for outage in story.troubles.of(None):
        if outage.kind != "down":
            continue
        before = [each.fence or 0 for each in story.attempts if each.begun <= outage.since]
        newest = max(before, default=0)
        for attempt in story.attempts:
            due = attempt.slot / 1000 - story.offset
            won_after = attempt.attempt == 1 and attempt.begun >= due > outage.until
            if not won_after or _has_a_wrong_clock(story, attempt.life, attempt.begun):
                continue
            if (attempt.fence or 0) <= newest:
                text = f"a server gave a fence as of before its outage, when it was at {newest}"
                yield violation(text, attempt)


def _has_a_wrong_clock(story: Story, life: int, m: float) -> bool:
    return any(each.kind == "clock" for each in story.troubles.between(life, m, m))


def _is_older(claim: Claimed, attempt: Attempt) -> bool:
    """Say whether a claim is not of a later attempt; those of a slot run again begin anew."""
    if attempt.job == FILLED:
        return (claim.fence or 0) < (attempt.fence or 0)
    return claim.attempt <= attempt.attempt


def _died(story: Story, attempt: Attempt) -> bool:
    life = story.lives[attempt.life]
    return life.killed is not None or not life.clean
