"""Reads what handlers, instances and the driver wrote, and the store, and finds broken promises."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from chaos.check_backfills import backfills
from chaos.check_claims import (
    begun_in_an_outage,
    early,
    fences_fall,
    in_a_child,
    too_many_lost,
    without_a_claim,
    won_again,
)
from chaos.check_controls import controls
from chaos.check_holders import (
    beside_a_kept_lease,
    not_told,
    told_for_nothing,
    twice_in_one_process,
)
from chaos.check_lateness import Lateness
from chaos.check_records import wrong_statuses
from chaos.check_slots import Slots
from chaos.check_takeovers import Takeovers, left_behind
from chaos.jobs import Work, works_for
from chaos.kept import Kept
from chaos.story import Story
from chaos.verdict import Verdict
from chaos.violation import Violation, violation


def check(story: Story, kept: Kept) -> Verdict:
    """Return all that is wrong with a run; ``kept`` is what its store holds afterwards."""
    verdict = check_jobs(story, kept, works_for(leases=story.leases))
    verdict.violations += chain(_lives(story), _stores(story, kept))
    return verdict


def check_jobs(story: Story, kept: Kept, works: Sequence[Work]) -> Verdict:
    """Return what is wrong with some jobs, of which alone ``story`` and ``kept`` tell."""
    slots, takeovers = Slots(story, kept, works), Takeovers(story, kept)
    lateness = Lateness(story)
    found = chain(
        slots.lost(),
        without_a_claim(story, kept),
        won_again(story, kept),
        begun_in_an_outage(story),
        in_a_child(story),
        early(story),
        lateness.late(),
        wrong_statuses(story, kept),
        _for_leases(story, kept, takeovers) if story.leases else twice_in_one_process(story),
    )
    return Verdict(
        [*found],
        slots.found,
        Counter(attempt.how or "never heard of again" for attempt in story.attempts),
        Counter(record.status for record in kept.records),
        takeovers.seen,
        takeovers.judged,
        lateness.found,
        lateness.back,
    )


def _for_leases(story: Story, kept: Kept, takeovers: Takeovers) -> Iterator[Violation]:
    yield from not_told(story)
    yield from told_for_nothing(story)
    yield from beside_a_kept_lease(story)
    yield from too_many_lost(story, kept)
    yield from fences_fall(story)
    yield from controls(story, kept)
    yield from backfills(story, kept)
    yield from takeovers.missing()
    yield from left_behind(story, kept)


def _lives(story: Story) -> Iterator[Violation]:
    """Find processes that ended otherwise than they were told to."""
    for text in story.bad_forks:
        yield violation("a fork in a handler went wrong", text)
    for life in story.lives.values():
        if life.hung:
            yield violation("a process did not end when it was told to", life)
        elif life.killed is None and life.told is None:
            yield violation("a process ended by itself", life)
        elif life.killed is None and life.up is not None and life.code != 0:
            yield violation("a process that was told to end failed", life)
        elif (
            life.told is not None
            and life.clean is False
            and not story.troubles.between(None, life.told, life.gone)
        ):
            yield violation("a handler did not end though it was told to", life)


def _stores(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find a damaged store, and one that was made where none should be."""
    if story.trespassed:
        yield violation("something was put into a folder that is no store", *story.trespassed)
    if kept.integrity != "ok":
        yield violation("the store's file is damaged", kept.integrity)
