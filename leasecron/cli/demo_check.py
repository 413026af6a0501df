"""The verdict: what the store's history and the handlers' own calls say about each slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from leasecron.cli.demo_board import run_text
from leasecron.cli.demo_messages import Run
from leasecron.model import RunResult


@dataclass(frozen=True, slots=True)
class Kill:
    """The instance that was killed, the run that it held, and when by the monotonic clock."""

    instance: str
    run: Run
    monotonic: float


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job in the closing table; ``by`` counts the finished runs of each instance."""

    job: str
    slots: int
    once: int
    by: Mapping[str, int]
    lost_attempts: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The closing table, and everything that is not as it should be."""

    rows: tuple[JobRow, ...]
    problems: tuple[str, ...]


def judge(
    history: Sequence[RunResult],
    calls: Mapping[Run, int],
    expected: Mapping[str, Sequence[datetime]],
    kill: Kill,
) -> Verdict:
    """Hold the history against the slots that must have run.

    Each slot must have been run to its end once. More attempts than one are right only where the
    killed instance made the earlier ones, and no handler may have been called beside an attempt.
    """
    records: dict[Run, list[RunResult]] = {}
    for result in history:
        records.setdefault((result.job, result.slot), []).append(result)
    problems: list[str] = []
    rows = []
    for job, slots in expected.items():
        runs = [(job, slot) for slot in slots]
        faults = {run: _faults(records.get(run, []), calls.get(run, 0), kill) for run in runs}
        problems += [f"{run_text(run)} {fault}" for run, found in faults.items() for fault in found]
        rows.append(_row(job, [records.get(run, []) for run in runs], list(faults.values())))
        if not runs:
            problems.append(f"{job} had no slot, so nothing was shown")
    problems += _not_finished_elsewhere(records.get(kill.run, []), kill)
    return Verdict(tuple(rows), tuple(problems))


def _faults(attempts: Sequence[RunResult], calls: int, kill: Kill) -> list[str]:
    faults = []
    finished = [a for a in attempts if a.status == "success"]
    if not finished:
        faults.append(f"did not run to its end ({_told(attempts)})")
    if len(finished) > 1:
        faults.append(f"ran {len(finished)} times ({_told(attempts)})")
    if any(a.status != "success" and not _killed(a, kill) for a in attempts):
        faults.append(f"has an attempt that ended badly without a kill ({_told(attempts)})")
    if calls != len(attempts):
        faults.append(
            f"has {len(attempts)} attempts in the store, and {calls} calls of its handler"
        )
    return faults


def _killed(attempt: RunResult, kill: Kill) -> bool:
    return attempt.status == "lost" and attempt.instance == kill.instance


def _told(attempts: Sequence[RunResult]) -> str:
    ordered = sorted(attempts, key=lambda a: a.attempt)
    told = [f"attempt {a.attempt} by {a.instance}: {a.status}" for a in ordered]
    return ", ".join(told) or "no attempt at all"


def _not_finished_elsewhere(attempts: Sequence[RunResult], kill: Kill) -> list[str]:
    """Return the fault, if any, of the run whose holder was killed."""
    lost = [a.attempt for a in attempts if _killed(a, kill)]
    later = [
        a
        for a in attempts
        if a.status == "success" and a.instance != kill.instance and lost and a.attempt > lost[0]
    ]
    if later:
        return []
    who = f"{run_text(kill.run)}, whose holder {kill.instance} was killed,"
    return [f"{who} was not finished by another instance ({_told(attempts)})"]


def _row(job: str, attempts: Sequence[Sequence[RunResult]], faults: Sequence[list[str]]) -> JobRow:
    flat = [a for of_run in attempts for a in of_run]
    return JobRow(
        job=job,
        slots=len(attempts),
        once=sum(not found for found in faults),
        by=dict(sorted(Counter(a.instance for a in flat if a.status == "success").items())),
        lost_attempts=sum(a.status == "lost" for a in flat),
    )
