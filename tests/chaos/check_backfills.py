"""A backfill runs what never succeeded, counts it, and comes to its end."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from chaos.jobs import work_of
from chaos.kept import Kept
from chaos.lives import lives
from chaos.story import Attempt, Filling, Run, Story
from chaos.violation import Violation, violation

_ENDED = ("success", "failed", "abandoned")


def backfills(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find all that is wrong with backfills."""
    yield from run_after_success(story, kept)
    by_backfill: defaultdict[tuple[str, int], list[Filling]] = defaultdict(list)
    for filling in story.fillings:
        by_backfill[filling.job, filling.asked].append(filling)
    for key, fillings in by_backfill.items():
        yield from wrong_counts(fillings)
        if fillings[-1].ended and key not in story.cancelled:
            yield from unfinished(fillings[-1], kept, is_last=fillings[-1] is story.fillings[-1])
    yield from left_alone(story)


def run_after_success(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find slots that were run again though one of their runs had succeeded."""
    run_of = lives(story, kept)
    attempts: defaultdict[Run, list[Attempt]] = defaultdict(list)
    for attempt in story.attempts:
        attempts[attempt.run].append(attempt)
    for record in kept.records:
        if record.status != "success":
            continue
        times = run_of[record.run, record.fence][-1]
        for attempt in attempts[record.run]:
            if run_of[attempt.run, attempt.fence][-1] > times:
                yield violation("a slot that succeeded was run again", record, attempt)


def wrong_counts(fillings: list[Filling]) -> Iterator[Violation]:
    """Find counts that fall, or are more than there are slots."""
    for before, after in pairwise(fillings):
        fell = after.succeeded < before.succeeded or after.failed < before.failed
        if fell or (before.ended and not after.ended):
            yield violation("a backfill went back", before, after)
    for filling in fillings:
        if filling.succeeded + filling.failed > filling.total:
            yield violation("a backfill has counted more than its slots", filling)


def unfinished(last: Filling, kept: Kept, *, is_last: bool) -> Iterator[Violation]:
    """Find slots of a backfill that has ended by itself, that have not.

    Those of an earlier backfill a later one may have put in again.
    """
    for slot in work_of(last.job).slots(last.start / 1000, last.end / 1000):
        claim = kept.claims.get((last.job, slot))
        if claim is None or (is_last and claim.state not in _ENDED):
            yield violation(f"a backfill has ended, and its slot {slot} has not", last, claim)


def left_alone(story: Story) -> Iterator[Violation]:
    """Find a backfill that has not come to its end in the calm after all that happened."""
    if story.filled is None or not story.fillings or story.fillings[-1].ended:
        return
    if not story.was_busy(story.calm_since, story.filled):
        yield violation("a backfill has not come to its end", story.fillings[-1])
