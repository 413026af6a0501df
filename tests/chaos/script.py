"""Invented chaos runs, for the tests of the checker: what a log would say, written by hand.

Times are seconds after the beginning, slots are given in seconds too, lives by small numbers.
"""

from chaos.jobs import work_of
from chaos.kept import Claimed, Kept, Record
from chaos.log import Line
from chaos.story import Story
from chaos.telling import tell, tell_part

WALL = 1_000_020.0  # a slot of every job
EVER = 1000.0


def ms(seconds: float) -> int:
    """Return the slot that is due then."""
    return round((WALL + seconds) * 1000)


class Script:
    """A run that is being invented; ``kept`` is what its store holds."""

    def __init__(self, *, leases: bool = True, has_clock: bool = False) -> None:
        self.leases = leases
        self.has_clock = has_clock or not leases
        self.kept = Kept()
        self._lines: list[Line] = []
        self._fence = 100
        self.note("clocks", 0.0, wall=WALL)

    def story(self) -> Story:
        """Return what has been invented so far."""
        return self._told(sorted(self._lines, key=lambda line: line["m"]))

    def story_of_part(self) -> Story:
        """Return it as told by two logs: what befell the processes, and what their jobs did."""
        lines = sorted(self._lines, key=lambda line: line["m"])
        of_jobs = [line for line in lines if line["what"] in ("begin", "alive", "end", "event")]
        rest = [line for line in lines if line not in of_jobs]
        return tell_part(self._told(rest), of_jobs)

    def _told(self, lines: list[Line]) -> Story:
        return tell(lines, leases=self.leases, has_clock=self.has_clock)

    def note(self, what: str, m: float, life: int = 0, **facts: object) -> None:
        """Add any line."""
        self._lines.append({"what": what, "m": m, "life": life, **facts})

    def process(
        self, life: int, *, since: float = -100.0, killed: float | None = None, until: float = EVER
    ) -> None:
        """Let a process live until it is killed, or told to end and does."""
        self.note("spawned", since, life, number=life, pid=life)
        self.note("up", since + 1.0, life)
        if killed is not None:
            self.note("killed", killed, life)
            self.note("gone", killed, life, code=-9)
        else:
            self.note("told", until, life)
            self.note("down", until, life, clean=True)
            self.note("gone", until, life, code=0)

    def attempt(
        self,
        job: str,
        slot: float,
        *looks: float,
        life: int = 1,
        number: int = 1,
        fence: int | None = None,
        pid: int | None = None,
        told: tuple[float, str] | None = None,
        how: str | None = "returned",
        record: str | None = "success",
        claimed: bool = True,
        retry: int = 0,
        trigger: str = "scheduled",
    ) -> Record:
        """Let a handler look at these times, be told at one of them, and be recorded.

        With a fence that was given before it is another try of that attempt.
        """
        self._fence += 1
        fence = (self._fence if fence is None else fence) if self.leases else None
        token = f"token-{self._fence if fence is None else fence}-{life}"
        facts = {"job": job, "slot": ms(slot), "attempt": number, "fence": fence}
        for place, m in enumerate(looks):
            seen = told[1] if told is not None and m >= told[0] else None
            line: Line = {"token": token, "retry": retry, "told": seen}
            if place == 0:
                line |= facts | {"instance": f"0-{life}", "pid": life if pid is None else pid}
                line["trigger"] = trigger
            last = place == len(looks) - 1 and how is not None
            self.note(
                "begin" if place == 0 else "end" if last else "alive", m, life, how=how, **line
            )
        if claimed:
            state = record if record in ("success", "failed") and self.leases else "claimed"
            claim = Claimed(token, f"0-{life}", number, state, fence)
            self.kept.claims[job, ms(slot)] = claim
        made = Record(job, ms(slot), number, fence, f"0-{life}", record or "")
        if record is not None:
            self.kept.records.append(made)
        return made

    def skip(self, job: str, slot: float, m: float, reason: str, life: int = 1) -> None:
        """Let an instance skip a slot."""
        facts: Line = {"name": "skip", "job": job, "slot": ms(slot), "reason": reason}
        self.note("event", m, life, error=None, **facts)

    def pause(self, job: str, since: float, until: float) -> None:
        """Let people pause a job and let it go on."""
        for what, m in (("pausing", since), ("paused", since), ("resuming", until)):
            self.note(what, m, job=job)
        self.note("resumed", until, job=job)

    def every_slot(self, job: str, until: float, *, but: float) -> None:
        """Let all slots of a job run in time, but one."""
        for slot in work_of(job).slots(WALL, WALL + until):
            at = slot / 1000 - WALL
            if slot != ms(but):
                self.attempt(job, at, at + 0.01, at + 0.02)
