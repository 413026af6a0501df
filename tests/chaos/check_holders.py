"""No two valid holders at once.

A holder is valid while its signal is not set. One whose lease is over is to be told before anybody
else can have won the run, if its process runs; if it was stopped or starved, at the next moment at
which it runs. What is strict here is that moment: how long a process did not run is measured in it.
"""

from collections import defaultdict
from collections.abc import Iterator

from chaos.jobs import work_of
from chaos.story import Attempt, Look, Story
from chaos.violation import Violation, violation

GRACE = 0.35
"""Seconds that a thread may need to get its turn, and for which a gap of its process is not noted.

It is less than the margin by which the holder of the shortest lease gives it up before the store.
"""

_LONGEST = 60.0  # no handler is seen for longer
_REASONS_THAT_KEEP_A_LEASE = ("timeout", "stop", "replaced")


def not_told(story: Story) -> Iterator[Violation]:
    """Find holders that went on untold while another one had won their run, or their job."""
    for loser, winner in _pairs(story):
        for look in loser.looks:
            if look.told is None and look.m > _to_be_told(story, loser, winner, look):
                yield violation(
                    f"two valid holders: the first was seen at {look.m:.3f}, and not told",
                    loser,
                    winner,
                )
                break


def beside_a_kept_lease(story: Story) -> Iterator[Violation]:
    """Find runs begun beside a handler that goes on after its end, and keeps its lease for that."""
    for loser, winner in _pairs(story):
        lease = work_of(loser.job).lease
        told = _told_at(loser, winner.begun)
        if (
            told in _REASONS_THAT_KEEP_A_LEASE
            and loser.last.m > winner.begun
            and _kept_its_lease(story, loser, winner.begun - lease - 1.0, winner.begun)
        ):
            yield violation(
                f"a run beside a handler that was told ({told}) and goes on", loser, winner
            )


def told_for_nothing(story: Story) -> Iterator[Violation]:
    """Find holders that have lost their lease though nothing befell them, or their store.

    On a machine without time to spare nobody can tell what kept the heartbeats.
    """
    for attempt in story.attempts:
        told = next((look for look in attempt.looks if look.told is not None), None)
        if told is None or told.told not in ("lease-lost", "takeover"):
            continue
        lease = work_of(attempt.job).lease
        since = story.won_since(attempt, lease)
        costs = story.costs_of_a_lease(attempt.life, since, told.m)
        if not (costs or story.was_busy(max(since, told.m - lease), told.m)):
            yield violation(f"a lease was lost for nothing at {told.m:.3f}", attempt)


def twice_in_one_process(story: Story) -> Iterator[Violation]:
    """Find runs of one job side by side in one process, on a store without leases."""
    going_on: dict[tuple[str, int], Attempt] = {}
    for attempt in story.attempts:
        if work_of(attempt.job).overlap == "allow":
            continue
        key = (attempt.job, attempt.life)
        before = going_on.get(key)
        if before is not None and (before.how is None or before.last.m > attempt.begun):
            yield violation("two runs of one job at once in one process", before, attempt)
        going_on[key] = attempt


def _pairs(story: Story) -> Iterator[tuple[Attempt, Attempt]]:
    """Yield who won first and who won later, where both cannot hold a lease at once."""
    groups: defaultdict[object, list[Attempt]] = defaultdict(list)
    for attempt in story.attempts:
        alone = work_of(attempt.job).overlap != "allow"
        groups[attempt.job if alone else attempt.run].append(attempt)
    for group in groups.values():
        for place, attempt in enumerate(group):
            for later in group[place + 1 :]:
                if later.begun > attempt.begun + _LONGEST:
                    break
                first, second = sorted((attempt, later), key=lambda each: each.fence or 0)
                if second.begun <= first.last.m:
                    yield first, second


def _to_be_told(story: Story, loser: Attempt, winner: Attempt, look: Look) -> float:
    """Return when the loser is to be told at the latest, as it runs since it last did not."""
    over = winner.begun - work_of(loser.job).margin
    for gap in story.gaps.between(loser.life, over - GRACE, look.m):
        over = max(over, gap.until)
    for trouble in story.troubles.between(loser.life, over - GRACE, look.m):
        if trouble.kind == "frozen":
            over = max(over, min(trouble.until, look.m))
    return max(winner.begun, over + GRACE)


def _told_at(attempt: Attempt, m: float) -> str | None:
    """Return what the handler had been told when it last looked before ``m``."""
    told = None
    for look in attempt.looks:
        if look.m <= m:
            told = look.told
    return told


def _kept_its_lease(story: Story, attempt: Attempt, since: float, until: float) -> bool:
    """Say whether nothing can have cost the lease of an attempt that goes on."""
    troubles = story.costs_of_a_lease(attempt.life, since, until)
    return all(trouble.kind == "ending" for trouble in troubles)
