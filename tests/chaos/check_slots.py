"""No slot lost that could have run.

A slot could have run where an instance was up and nothing befell it, or the store, when it was due.
Such a witness answers each of its slots, and what it answers must be true.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from chaos.jobs import FILLED, MAX_LATE, WORKS, Work
from chaos.kept import Claimed, Kept
from chaos.outages import (
    AFTER,
    BEFORE,
    claims_until,
    decided_by,
    may_leave_claims,
    without_outlived,
)
from chaos.story import Attempt, Life, Run, Said, Story, length_of
from chaos.violation import Violation, violation
from leasecron.model import WAITING

ANSWERED = MAX_LATE + AFTER
"""Seconds after a slot in which a witness has answered it, and be it that it came too late."""

RUN, EXPLAINED, WITHOUT_A_WITNESS, LOST = "run", "explained", "without a witness", "lost"
"""What can have become of a slot."""

_STARTING = 3.0
_STARTING_IN_TROUBLE = 15.0
_CLOCK = 0.1
"""Seconds by which the clocks of the machine may have drifted apart since a run began."""

_TAKEN_OVER = 1.5
"""Seconds that a takeover may need beside the checks of a backup."""

_STORED = 0.5
"""Seconds between what a handler, and what the store says of the beginning and the end of a run."""


@dataclass(slots=True)
class Slots:
    """Finds lost slots, and counts how many it could judge."""

    story: Story
    kept: Kept
    works: Sequence[Work] = WORKS
    found: Counter[str] = field(default_factory=Counter)
    _attempts: defaultdict[str, list[Attempt]] = field(default_factory=lambda: defaultdict(list))
    _answers: defaultdict[Run, list[Said]] = field(default_factory=lambda: defaultdict(list))
    _said: defaultdict[tuple[str, int], list[Said]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def __post_init__(self) -> None:
        for attempt in self.story.attempts:
            self._attempts[attempt.job].append(attempt)
        for said in self.story.said:
            if said.name in ("start", "skip") and said.job is not None and said.slot is not None:
                self._answers[said.job, said.slot].append(said)
                self._said[said.job, said.life].append(said)

    def lost(self) -> Iterator[Violation]:
        """Find them."""
        since = self.story.began + self.story.offset
        until = max((life.gone for life in self.story.lives.values()), default=0.0)
        for work in self.works:
            begun = {attempt.slot for attempt in self._attempts[work.name]}
            for slot in self._slots(work, since, until + self.story.offset):
                if slot in begun:
                    self.found[RUN] += 1
                else:
                    yield from self._judge(work, slot)

    def _slots(self, work: Work, since: float, until: float) -> Sequence[int]:
        """Return the slots of a job between two wall times, as far as they are known."""
        if work.once is None:
            return work.slots(since, until)
        # What a process said last is what the store has fixed, if it has had the time to ask.
        said = self.story.fixed.get(work.name, {})
        fixed = {slot for life, slot in said.items() if self._was_long_up(life)}
        return [slot for slot in fixed if since <= slot / 1000 < until - ANSWERED]

    def _was_long_up(self, number: int) -> bool:
        life = self.story.lives[number]
        return life.up is not None and life.gone > self.story.calm_since

    def _judge(self, work: Work, slot: int) -> Iterator[Violation]:
        at = slot / 1000 - self.story.offset
        witnesses = {life.life for life in self.story.lives.values() if self._is_witness(life, at)}
        if not witnesses:
            self.found[WITHOUT_A_WITNESS] += 1
            return
        said = self._answers[work.name, slot]
        answers = [answer for answer in said if answer.life in witnesses]
        wrong = [answer for answer in answers if not self._is_true(work, slot, answer)]
        if wrong or not (answers or all(self._is_behind(work, slot, life) for life in witnesses)):
            text = f"the slot {slot} of {work.name}, at {at:.3f}, is lost"
            yield violation(text, f"witnesses: {sorted(witnesses)}", *said)
            self.found[LOST] += 1
        else:
            self.found[EXPLAINED] += 1

    def _is_witness(self, life: Life, at: float) -> bool:
        if life.up is None or not life.up <= at <= life.gone:
            return False  # most are like that, and it is soon said
        until = decided_by(self.story, at) or at + AFTER
        befell = self.story.troubles_of(life.life, at - BEFORE, until)
        if without_outlived(self.story, at, befell):
            return False
        calm = self.story.is_calm(life.life, life.spawned, life.up + _STARTING)
        return life.up + (_STARTING if calm else _STARTING_IN_TROUBLE) <= at

    def _is_true(self, work: Work, slot: int, said: Said) -> bool:
        match said.reason or said.name:
            case "overlap":
                others = self._attempts[work.name]
                overlaps = any(self._overlaps(work, other, slot, said) for other in others)
                return (
                    overlaps
                    or self._meets_a_dead_claim(work, slot, said)
                    or self._waits_for_a_takeover(work, slot, said)
                )
            case "paused":
                at = slot / 1000 - self.story.offset
                return self.story.may_be_paused(work.name, min(at, said.m) - _CLOCK, said.m)
            case "late":
                return self._came_late(slot / 1000 - self.story.offset, said)
            case "taken" | "start":  # what was won, and begun, and of which no handler has told
                claim = self.kept.claims.get((work.name, slot))
                if claim is not None and not claim.attempt:  # a newer one waited already
                    return work.overlap in WAITING or work.name == FILLED
                at = slot / 1000 - self.story.offset
                return claim is not None and self._befell(claim, at, said.m)
            case _:
                return False

    def _came_late(self, at: float, said: Said) -> bool:
        """Say whether one had to come to a slot too late, and did."""
        clocks = self.story.troubles.between(said.life, at, said.m)
        too_late = said.m - at > MAX_LATE - _CLOCK or any(each.kind == "clock" for each in clocks)
        return too_late and self._was_kept(said.life, at, said.m)

    def _is_behind(self, work: Work, slot: int, life: int) -> bool:
        """Say whether a witness had no time to answer a slot, by what it did around that time."""
        at = slot / 1000 - self.story.offset
        if not self._was_kept(life, at, at + AFTER):
            return False
        said = self._said[work.name, life]
        before = [each for each in said if each.slot is not None and each.slot < slot]
        if before:
            # Whoever comes to a slot waits for the next one after that moment, and so passes over
            # what was due until then.
            latest = max(before, key=lambda each: each.slot or 0)
            due = (latest.slot or 0) / 1000 - self.story.offset
            if latest.m >= at and self._was_kept(life, due, latest.m):
                return True
        return self._was_cut_short(work, slot, life)

    def _was_cut_short(self, work: Work, slot: int, life: int) -> bool:
        """Say whether something befell a witness before it came to a slot or a later one."""
        at = slot / 1000 - self.story.offset
        later = (
            each
            for each in self._said[work.name, life]
            if each.slot is not None and each.slot >= slot + 2 * work.step
        )
        until = min((each.m for each in later), default=at + ANSWERED)
        return until > at + AFTER and not self.story.is_calm(life, at, min(until, at + ANSWERED))

    def _was_kept(self, life: int, since: float, until: float) -> bool:
        """Say whether the machine or what befell a process took most of a time from it.

        The time begins when a slot was due.
        """
        kept = [
            *self.story.busy.between(None, since, until),
            *without_outlived(self.story, since, self.story.troubles.between(None, since, until)),
            *self.story.troubles.between(life, since, until),
        ]
        without = [each for each in kept if each.kind != "clock"]  # that takes no time
        return length_of(without, since, until) > (until - since) / 2

    def _overlaps(self, work: Work, other: Attempt, slot: int, said: Said) -> bool:
        """Say whether an attempt of another slot can have had a live lease at that moment."""
        if work.overlap == "allow" or other.slot == slot:
            return False
        if not self.story.leases and other.life != said.life:
            return False
        # One that was starved begins late, and one that was killed leaves a lease behind.
        since, until = other.begun - _STORED, other.last.m + _longest_wait(work, other) + _STORED
        if not self.story.is_at_leisure(other.life, since - AFTER, until):
            since, until = since - work.lease, until + work.lease
        if other.attempt > 1 and not self._was_begun(other.run, other.attempt - 1):
            # Somebody has won before and not begun; his lease was over before this one began.
            since = min(since, other.begun - work.lease - 2 * work.heartbeat - _TAKEN_OVER)
        return since <= said.m <= until

    def _waits_for_a_takeover(self, work: Work, slot: int, said: Said) -> bool:
        """Say whether an older run may have been to be taken over, for which a queue waits."""
        if work.overlap != "queue":
            return False
        wait = work.lease + 2 * work.heartbeat + _TAKEN_OVER
        for other in self._attempts[work.name]:
            lost = not self.story.is_calm(other.life, other.begun, other.last.m + AFTER)
            if other.slot < slot and lost and other.last.m <= said.m <= other.last.m + 3 * wait:
                return True
        return False

    def _was_begun(self, run: Run, number: int) -> bool:
        job, slot = run
        return any((slot, number) == (each.slot, each.attempt) for each in self._attempts[job])

    def _meets_a_dead_claim(self, work: Work, slot: int, said: Said) -> bool:
        """Say whether one that was killed before its handler began may have left the lease."""
        begun = {attempt.slot for attempt in self._attempts[work.name]}
        for (job, other), claim in self.kept.claims.items():
            if job != work.name or other in begun or other == slot or not self.story.leases:
                continue
            life = self.story.lives.get(claim.life)
            if life is None:  # it was put in by people, and nobody has begun it
                continue
            if work.overlap == "allow" or not may_leave_claims(self.story, life):
                continue
            until = claims_until(self.story, life) + work.lease + _STORED
            if (life.killed or life.told or 0.0) - AFTER <= said.m <= until:
                return True
        return False

    def _befell(self, claim: Claimed, at: float, m: float) -> bool:
        """Say whether anything can have kept a winner from beginning what it had won.

        A wrong clock cannot: whoever has won begins.
        """
        costs = self.story.costs_of_a_lease(claim.life, m - AFTER, m + AFTER)
        busy = self.story.busy.between(None, m - AFTER, m + AFTER)
        return bool(busy or without_outlived(self.story, at, costs))


def _longest_wait(work: Work, tried: Attempt) -> float:
    """Return for how long a run that failed keeps its lease until it is tried again."""
    if tried.how != "raised" or tried.retry >= work.retries:
        return 0.0
    return work.backoff * (1 << tried.retry)
