"""No slot lost that could have run, and no run left to itself by those who stand by.

A slot could have run where an instance was up and nothing befell it, or the store, when it was due.
Such a witness answers each of its slots, and what it answers must be true.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from chaos.jobs import MAX_LATE, WORKS, Work, work_of
from chaos.kept import Claimed, Kept
from chaos.story import Attempt, Life, Run, Said, Story, length_of
from chaos.violation import Violation, violation

BEFORE, AFTER = 2.0, 3.0
"""Seconds around a slot in which nothing may befall its witness."""

ANSWERED = MAX_LATE + AFTER
"""Seconds after a slot in which a witness has answered it, and be it that it came too late."""

RUN, EXPLAINED, WITHOUT_A_WITNESS, LOST = "run", "explained", "without a witness", "lost"
"""What can have become of a slot."""

_STARTING = 3.0
_STARTING_IN_TROUBLE = 15.0
_SLACK = 1.5
_CLOCK = 0.1
"""Seconds by which the clocks of the machine may have drifted apart since a run began."""

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
            for slot in work.slots(since, until + self.story.offset):
                if slot in begun:
                    self.found[RUN] += 1
                else:
                    yield from self._judge(work, slot)

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
        if not self.story.is_calm(life.life, at - BEFORE, at + AFTER):
            return False
        calm = self.story.is_calm(life.life, life.spawned, life.up + _STARTING)
        return life.up + (_STARTING if calm else _STARTING_IN_TROUBLE) <= at

    def _is_true(self, work: Work, slot: int, said: Said) -> bool:
        match said.reason or said.name:
            case "overlap":
                others = self._attempts[work.name]
                overlaps = any(self._overlaps(work, other, slot, said) for other in others)
                return overlaps or self._meets_a_dead_claim(work, slot, said)
            case "late":
                return self._came_late(slot / 1000 - self.story.offset, said)
            case "taken" | "start":  # what was won, and begun, and of which no handler has told
                claim = self.kept.claims.get((work.name, slot))
                return claim is not None and self._befell(claim, said.m)
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
        """Say whether the machine or what befell a process took most of a time from it."""
        kept = [
            *self.story.busy.between(None, since, until),
            *self.story.troubles.between(None, since, until),
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
        since, until = other.begun - _STORED, other.last.m + _STORED
        if not self.story.is_at_leisure(other.life, since - AFTER, until):
            since, until = since - work.lease, until + work.lease
        return since <= said.m <= until

    def _meets_a_dead_claim(self, work: Work, slot: int, said: Said) -> bool:
        """Say whether one that was killed before its handler began may have left the lease."""
        begun = {attempt.slot for attempt in self._attempts[work.name]}
        for (job, other), claim in self.kept.claims.items():
            if job != work.name or other in begun or other == slot or not self.story.leases:
                continue
            life = self.story.lives[_winner(claim)]
            if life.killed is None or work.overlap == "allow":
                continue
            if life.killed - AFTER <= said.m <= life.gone + work.lease + _STORED:
                return True
        return False

    def _befell(self, claim: Claimed, m: float) -> bool:
        """Say whether anything can have kept a winner from beginning what it had won."""
        return not self.story.is_at_leisure(_winner(claim), m - AFTER, m + AFTER)


@dataclass(slots=True)
class Takeovers:
    """Finds runs that no backup has taken over in time, and counts those that it could judge."""

    story: Story
    kept: Kept
    seen: int = 0
    judged: int = 0

    def missing(self) -> Iterator[Violation]:
        """Find them."""
        by_job: defaultdict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.story.attempts:
            by_job[attempt.job].append(attempt)
            self.seen += attempt.attempt > 1
        backups: defaultdict[Run, dict[int, float]] = defaultdict(dict)
        for said in self.story.said:
            if said.name == "skip" and said.job is not None and said.slot is not None:
                backups[said.job, said.slot].setdefault(said.life, said.m)
        for attempt in self.story.attempts:
            yield from self._judge(attempt, by_job[attempt.job], backups[attempt.run])

    def _judge(
        self, attempt: Attempt, of_job: list[Attempt], backups: dict[int, float]
    ) -> Iterator[Violation]:
        work = work_of(attempt.job)
        given_up = self._given_up(attempt, work)
        if given_up is None or attempt.attempt >= work.max_attempts:
            return
        left, until = given_up
        if self._is_replaced(attempt, work, of_job, left, until):
            return
        calm = [
            backup
            for backup, since in backups.items()
            if since < left and self.story.is_calm(backup, left - 1.0, until)
        ]
        if not calm:
            return
        self.judged += 1
        if not any(each.run == attempt.run and each.attempt > attempt.attempt for each in of_job):
            text = f"not taken over by {until:.3f}, though backups were there: {calm}"
            yield violation(text, attempt, self.kept.claims.get(attempt.run))
        elif not self.story.was_busy(left, until) and not any(
            each.run == attempt.run and each.attempt > attempt.attempt and each.begun <= until
            for each in of_job
        ):
            yield violation(f"taken over too late, after {until:.3f}", attempt)

    def _given_up(self, attempt: Attempt, work: Work) -> tuple[float, float] | None:
        """Return when the holder was gone, and when a backup is to have begun at the latest."""
        wait = 2 * work.heartbeat + _SLACK
        life = self.story.lives[attempt.life]
        if attempt.how is None and life.killed is not None:
            return life.killed, life.gone + work.lease + wait
        if attempt.how == "aborted" and attempt.last.told == "stop":
            return attempt.last.m, attempt.last.m + wait
        return None

    def _is_replaced(
        self, attempt: Attempt, work: Work, of_job: list[Attempt], left: float, until: float
    ) -> bool:
        """Say whether another run of the job stands in the way, or was to come first."""
        if (attempt.slot + work.step) / 1000 - self.story.offset <= until:
            return True
        begun = {each.slot for each in of_job}
        for (job, slot), claim in self.kept.claims.items():
            if job == attempt.job and slot > attempt.slot and slot not in begun:
                life = self.story.lives[_winner(claim)]
                if life.spawned <= until and life.gone >= attempt.begun:
                    return True  # that one was claimed, and its instance died before it began
        for each in of_job:
            if each.slot == attempt.slot or each.begun > until:
                continue
            due = each.slot / 1000 - self.story.offset <= until
            # A clock that is ahead claims newer slots that replace nothing until they are due.
            if each.slot > attempt.slot and (due or each.begun >= left):
                return True
            if work.overlap == "skip" and each.last.m >= left - work.lease:
                return True
        return False


def left_behind(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find claims whose holder is gone, and that those who came later have not closed."""
    newer: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in story.attempts:
        newer[attempt.job].append(attempt)
    for (job, slot), claim in kept.claims.items():
        life = story.lives[_winner(claim)]
        if claim.state != "claimed" or not story.leases:
            continue
        if life.clean:
            yield violation(f"a process that was stopped cleanly left a claim: {job} {slot}", claim)
        over = life.gone + work_of(job).lease + 1.0
        for attempt in newer[job]:
            if attempt.slot > slot and attempt.begun > over:
                text = f"a crashed run was not closed by the next one: {job} {slot}"
                yield violation(text, claim, attempt)
                break


def _winner(claim: Claimed) -> int:
    """Return the life of the process that has won."""
    return int(claim.instance.partition("-")[2])
