"""Armed: 100,000 jobs that wait for their slots.

``start()`` returns before the jobs are armed, so the time until the last one is asked for its next
slot is reported beside it; declaring the jobs comes before both. Memory is what the process has in
memory beyond that of a scheduler without a job, once all is at rest. Each round has processes of
its own. Three rounds are enough for what hardly varies, and the first one, with fewer jobs, only
warms up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from benchmarks.measuring import Figure, Measured, Settings, rounds
from benchmarks.workers.arming import EXPRESSIONS
from benchmarks.workers.process import Worker

JOBS = 100_000
ROUNDS = 3
_SECONDS = 20.0

_Case = tuple[str, str]
_CASES: Mapping[str, _Case] = {
    "every, memory://": ("every", "memory://"),
    "every, SQLite": ("every", "sqlite"),
    f"cron, {EXPRESSIONS} expressions, SQLite": ("cron", "sqlite"),
}
_Round = Mapping[str, Mapping[str, Any]]


def measure(settings: Settings) -> Measured:
    """Measure jobs of both kinds."""
    jobs = settings.count(JOBS)
    sizes = itertools.chain([max(1, jobs // 10)], itertools.repeat(jobs))
    few = replace(settings, rounds=min(ROUNDS, settings.rounds))
    found = rounds(few, lambda: _round(settings, next(sizes)))
    notes = ("armed: until the job that was declared last is asked for its next slot",)
    return Measured(tuple(_figures(found, jobs)), notes=notes)


def _round(settings: Settings, jobs: int) -> _Round:
    """Arm one case after the other, then let all idle at the same time."""
    seconds = settings.seconds or (_SECONDS / 10 if settings.quick else _SECONDS)
    found: dict[str, dict[str, Any]] = {}
    with settings.store("armed") as folder, ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for number, (case, (kind, store)) in enumerate(_CASES.items()):
            place = f"{folder}/{number}.db" if store == "sqlite" else store
            worker = Worker("arming", kind=kind, store=place, jobs=jobs)
            workers[case] = stack.enter_context(worker)
            found[case] = {"jobs": jobs, **worker.hear()}
        for worker in workers.values():
            worker.tell(seconds=seconds)
        for case, worker in workers.items():
            found[case] |= worker.hear()
    return found


def _figures(found: Sequence[_Round], jobs: int) -> Iterator[Figure]:
    for case, (kind, _store) in _CASES.items():
        of_case = [each[case] for each in found]
        yield from _times(of_case, f"{jobs:,} jobs, {case}")
        yield from _costs(of_case, f"{jobs:,} jobs, {case}", 2.0 if kind == "cron" else 1.5)


def _times(found: Sequence[Mapping[str, Any]], what: str) -> list[Figure]:
    return [
        Figure(f"{what}: declared in", "s", tuple(each["declared"] for each in found)),
        Figure(f"{what}: start()", "s", tuple(each["start"] for each in found), at_most=3),
        Figure(f"{what}: all armed after", "s", tuple(each["armed"] for each in found)),
    ]


def _costs(found: Sequence[Mapping[str, Any]], what: str, most: float) -> list[Figure]:
    def kilobytes(name: str) -> tuple[float, ...]:
        return tuple(each[name] / each["jobs"] / 1024 for each in found)

    idle = tuple(100 * each["processor"] / each["wall"] for each in found)
    pruning = tuple(1000 * each["pruning"] for each in found)
    return [
        Figure(f"{what}: memory of a job", "KB", kilobytes("bytes"), at_most=most),
        Figure(f"{what}: of that, before start()", "KB", kilobytes("declared_bytes")),
        Figure(f"{what}: idle, of a core", "%", idle, at_most=0.2),
        Figure(f"{what}: pruning all of them, every ten minutes", "ms", pruning),
    ]
