"""What the handlers' own log and the store must say after a server has been disturbed."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from support.soak_times import LONG_MS, TICK_MS
from support.span_log import Life, Span, SpanLog
from support.store_file import Row, StoreFile

UP_FOR_MS = 1_000
"""An instance that is up for so long after a slot and before the next one has run it."""

TAKEN_OVER_MS = 4_000
"""The lease and two heartbeats of the long job, and a second for a machine that is busy."""

STATUS = {"returned": "success", "aborted": "interrupted", None: "lost"}


class Record:
    """All that is known of a minute, read once every process has ended."""

    def __init__(self, folder: Path) -> None:
        log = SpanLog(folder / "spans.log")
        store = StoreFile(folder / "leasecron.db")
        self.spans = log.spans()
        self.lives = log.lives()
        self.integrity = store.integrity()
        self.results: dict[int, Row] = {
            row["fence"]: row for job in ("tick", "long") for row in store.results(job)
        }

    @property
    def died(self) -> set[int]:
        """Processes that ended without a chance to say so, or to have their handlers end."""
        unended = {span.pid for span in self.spans if span.ended is None}
        return unended.union(life.pid for life in self.lives if life.died)

    def slots(self, job: str) -> set[int]:
        """The slots for which a handler was called."""
        return {span.slot for span in self.spans if span.job == job}

    def handed_over(self, job: str) -> int:
        """How often a process went on with what another had begun."""
        return sum(span.attempt > 1 for span in self.spans if span.job == job)

    def summary(self) -> str:
        """Say how much has been seen."""
        counted = ", ".join(
            f"{len(self.slots(job))} slots of {job} in {len(spans)} attempts"
            for job in ("tick", "long")
            if (spans := [span for span in self.spans if span.job == job])
        )
        passed = f"{len(self.passed_over())} passed over while none was up"
        return f"{len(self.lives)} processes, of which {len(self.died)} died; {counted}; {passed}"

    def check(self) -> None:
        """Say what has been seen, and fail if any of it must not be."""
        print(self.summary())
        faults = self.faults()
        assert not faults, "\n".join(faults)
        assert len(self.slots("tick")) > 2 * len(self.passed_over())
        assert len(self.slots("long")) >= 2

    def faults(self) -> list[str]:
        """Return all that must not be."""
        found = [] if self.integrity == "ok" else [f"the store: {self.integrity}"]
        found += [f"lost: tick {slot}" for slot in sorted(self._lost())]
        found += [f"left alone: long {slot}" for slot in sorted(self._left_alone())]
        return [*found, *self._doubled(), *self._at_once(), *self._recorded_wrongly()]

    def passed_over(self) -> set[int]:
        """Slots without a call, since no instance was up until nearly the next one was due."""
        return self._without_a_call() - self._lost()

    def _lost(self) -> set[int]:
        """Slots that no handler was called for although an instance was up to do it."""
        begun_by_the_dead = {
            row["slot"] for row in self.results.values() if row["status"] == "lost"
        }
        return {
            slot
            for slot in self._without_a_call() - begun_by_the_dead
            if longest_up(self.lives, slot, slot + TICK_MS) >= UP_FOR_MS
        }

    def _without_a_call(self) -> set[int]:
        first = min(life.up for life in self.lives) * 1000
        last = max(life.until for life in self.lives) * 1000
        due = range(-int(-first // TICK_MS) * TICK_MS, int(last), TICK_MS)
        return set(due) - self.slots("tick")

    def _left_alone(self) -> Iterator[int]:
        """Runs of the long job that nobody went on with although an instance was up to do it."""
        until = {life.pid: life.until for life in self.lives}
        last = {span.slot: span for span in self.spans if span.job == "long"}
        for slot, span in last.items():
            left = 1000 * (until[span.pid] if span.ended is None else span.ended)
            up = longest_up(self.lives, left, slot + LONG_MS)
            if not self._successes("long", slot) and up >= TAKEN_OVER_MS:
                yield slot

    def _doubled(self) -> Iterator[str]:
        """Attempts without a right to be: a run is attempted again only if the last one failed."""
        runs: dict[tuple[str, int], list[Span]] = defaultdict(list)
        for span in self.spans:
            runs[span.job, span.slot].append(span)
        for (job, slot), spans in runs.items():
            statuses = [self._status(span) for span in spans]
            attempts = [span.attempt for span in spans]
            if attempts != sorted(set(attempts)) or "success" in statuses[:-1]:
                yield f"twice: {job} {slot} {spans} {statuses}"
            if self._successes(job, slot) > 1:
                yield f"two successes: {job} {slot}"

    def _at_once(self) -> Iterator[str]:
        """Calls for one run, or for any two of the long job, side by side, each with a lease."""
        held: dict[tuple[str, int], list[Span]] = defaultdict(list)
        for span in self.spans:
            if self._status(span) != "lost":
                held[span.job, span.slot if span.job == "tick" else 0].append(span)
        for spans in held.values():
            for before, after in pairwise(spans):
                if before.ended is None or after.began < before.ended:
                    yield f"at once: {before} {after}"

    def _recorded_wrongly(self) -> Iterator[str]:
        """Ends that the store tells otherwise than the handler; a process may die in between."""
        for span in self.spans:
            status = self._status(span)
            died = span.pid in self.died
            if status != STATUS[span.how] and not (died and status in ("lost", None)):
                yield f"recorded as {status}: {span}"

    def _status(self, span: Span) -> str | None:
        row = self.results.get(span.fence)
        return None if row is None else str(row["status"])

    def _successes(self, job: str, slot: int) -> int:
        return sum(
            (row["job"], row["slot"], row["status"]) == (job, slot, "success")
            for row in self.results.values()
        )


def longest_up(lives: list[Life], begin: float, end: float) -> float:
    """Return the longest time in a row, in milliseconds, in which some instance was up."""
    longest, since, until = 0.0, begin, begin
    for life in sorted(lives, key=lambda life: life.up):
        if life.up * 1000 > until:
            since = until = min(life.up * 1000, end)
        until = max(until, min(life.until * 1000, end))
        longest = max(longest, until - since)
    return longest
