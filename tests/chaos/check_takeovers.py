"""No run left to itself by those who stand by, and nothing left behind by those who are gone."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from chaos.jobs import MAX_LATE, Work, work_of
from chaos.kept import Kept
from chaos.outages import claims_until, may_leave_claims, of_a_server
from chaos.story import Attempt, Run, Story
from chaos.violation import Violation, violation

_SLACK = 1.5


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
        if self.story.may_be_paused(work.name, left - work.lease, until):
            return
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
                life = self.story.lives.get(claim.life)  # none of what people have put in
                if life is not None and life.spawned <= until and life.gone >= attempt.begun:
                    return True  # that one was claimed, and its instance died before it began
        for each in of_job:
            if each.slot == attempt.slot or each.begun > until:
                continue
            due = each.slot / 1000 - self.story.offset <= until
            # A clock that is ahead claims newer slots that replace nothing until they are due.
            if each.slot > attempt.slot and (due or each.begun >= left):
                return True
            if work.overlap != "allow" and each.last.m >= left - work.lease:
                return True
        return False


def left_behind(story: Story, kept: Kept) -> Iterator[Violation]:
    """Find claims whose holder is gone, and that those who came later have not closed."""
    newer: defaultdict[str, list[Attempt]] = defaultdict(list)
    for attempt in story.attempts:
        newer[attempt.job].append(attempt)
    for (job, slot), claim in kept.claims.items():
        if claim.state != "claimed" or not story.leases:
            continue
        life = story.lives[claim.life]
        if life.clean and not may_leave_claims(story, life):
            yield violation(f"a process that was stopped cleanly left a claim: {job} {slot}", claim)
        over = claims_until(story, life) + work_of(job).lease + 1.0
        for attempt in newer[job]:
            # One that the server could not answer may have been won long before it was begun.
            answered_late = of_a_server(story, attempt.begun - MAX_LATE, attempt.begun)
            if attempt.slot > slot and attempt.begun > over and not answered_late:
                text = f"a crashed run was not closed by the next one: {job} {slot}"
                yield violation(text, claim, attempt)
                break
