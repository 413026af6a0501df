"""Which run an attempt is of: a slot that a backfill runs again has a second one, or more."""

from collections import defaultdict
from collections.abc import Mapping

from chaos.jobs import FILLED
from chaos.kept import Kept
from chaos.story import Run, Story

RunAgain = tuple[str, int, int]
"""A run, and how often its slot had been begun anew before."""


def lives(story: Story, kept: Kept) -> Mapping[tuple[Run, int | None], RunAgain]:
    """Return the run of each attempt and record, which are known by slot and fence.

    Of a job that people backfill each first attempt, in the order of fences, begins a new one.
    """
    numbers: defaultdict[Run, dict[int | None, int]] = defaultdict(dict)
    for record in kept.records:
        numbers[record.run][record.fence] = record.attempt
    for attempt in story.attempts:
        numbers[attempt.run][attempt.fence] = attempt.attempt
    found: dict[tuple[Run, int | None], RunAgain] = {}
    for run, by_fence in numbers.items():
        times = 0
        for place, fence in enumerate(sorted(by_fence, key=lambda each: each or 0)):
            if place and run[0] == FILLED and by_fence[fence] == 1:
                times += 1
            found[run, fence] = (*run, times)
    return found
