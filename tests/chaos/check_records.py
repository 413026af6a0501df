"""What is recorded of an attempt is what happened to it."""

from collections import defaultdict
from collections.abc import Iterator

from chaos.jobs import work_of
from chaos.kept import Kept, Record
from chaos.story import Attempt, Run, Story, Trouble
from chaos.violation import Violation, violation

_RECORDED_IN = 5.0
"""Seconds after its end in which the end of an attempt is decided and stored, if nothing befalls"""


def wrong_statuses(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find attempts whose record says what did not happen, or is missing."""
    records: defaultdict[tuple[Run, int | None], list[Record]] = defaultdict(list)
    for record in kept.records:
        records[record.run, record.fence].append(record)
    # Of the tries of an attempt, the last one is recorded.
    last = {(attempt.run, attempt.token): attempt for attempt in story.attempts}
    for attempt in last.values():
        found = records.pop((attempt.run, attempt.fence), [])
        if len(found) > 1:
            yield violation("two records of one attempt", attempt, *found)
        status = found[0].status if found else None
        right = _may_be_recorded(story, attempt)
        if status not in right:
            say = ", ".join(sorted(each or "nothing" for each in right))
            troubles = _costs_of_its_lease(story, attempt)
            text = f"an attempt is recorded as {status or 'nothing'}; right is {say}"
            yield violation(text, attempt, *troubles)
    for left in records.values():
        for record in left:
            # Its instance was gone, or told to stop, between the claim and the call.
            if record.status not in ("lost", "interrupted"):
                yield violation("the end of an attempt that was never begun", record)


def _may_be_recorded(story: Story, attempt: Attempt) -> set[str | None]:
    """Return the statuses that are right for what the log says of an attempt."""
    right = _by_its_end(story, attempt)
    life = story.lives[attempt.life]
    if life.killed is not None or not life.clean:
        right.add(None)  # it may have been killed before its end was stored
    if _costs_of_its_lease(story, attempt) or _was_starved(story, attempt):
        if story.leases:
            right.add("lost")
        # What was told to end in the moment in which it ended may have been told before.
        if attempt.how == "raised":
            right.add("interrupted")
        if work_of(attempt.job).timeout is not None:
            right.add("failed")
    return right


def _by_its_end(story: Story, attempt: Attempt) -> set[str | None]:
    work = work_of(attempt.job)
    in_time = work.timeout is None or attempt.last.m - attempt.begun < work.timeout - 0.2
    if attempt.how is None:
        # Nobody knows how it went on after it was last seen, unless that is all there is to it.
        return {"failed"} if work.timeout is not None else set()
    if attempt.last.told == "timeout":
        return {"failed"}
    match attempt.how:
        case "returned" if in_time or attempt.last.told is not None:
            return {"success"}
        case "returned":
            return {"success", "failed"}
        case "raised" if attempt.last.told is None and attempt.retry < work.retries:
            return {"interrupted"}  # while it waited for the next try
        case "raised" if attempt.last.told is None:
            return {"failed"}
        case "raised" | "aborted" if attempt.last.told is not None:
            return {"interrupted"}
    return set()


def _costs_of_its_lease(story: Story, attempt: Attempt) -> list[Trouble]:
    since = story.won_since(attempt, work_of(attempt.job).lease)
    return story.costs_of_a_lease(attempt.life, since, attempt.last.m + _RECORDED_IN)


def _was_starved(story: Story, attempt: Attempt) -> bool:
    """Say whether the machine had no time to spare when the lease was to be kept."""
    lease = work_of(attempt.job).lease
    since = max(story.won_since(attempt, lease), attempt.last.m - lease)
    return story.was_busy(since, attempt.last.m)
