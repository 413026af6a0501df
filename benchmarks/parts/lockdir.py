"""The lock directory: claims beside raw link and fsync, and after a million claims.

A batch is 100 jobs at one slot, so each claim lies in a folder of its own job. Raw does what the
same promise needs, a complete file that was made once and survives a power failure, and nothing
else: write a private file, fsync, link, unlink the private name; and at the end of the batch fsync
each folder that has a new name. The folders of jobs and days are there before the clock starts.
Raw, a new directory and one of a million claims take turns, batch by batch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from benchmarks.measuring import Figure, Measured, Settings, rounds
from benchmarks.workers.claims import claims_of, now_ms
from benchmarks.workers.process import Worker
from leasecron.backends.lockdir.backend import LockDirBackend

JOBS = 1000
BATCH = 100
CLAIMS = 1_000_000
_QUICK = 10_000
_PASSES = 2
_CONTENT = 170  # bytes that a claim says
_PRIVATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_RAW, _NEW, _FULL = "raw", "new", "full"

_Batch = Callable[[Sequence[str], int], float]
"""Claims these jobs at a slot, and returns the seconds that it took."""


def measure(settings: Settings) -> Measured:
    """Fill a directory, and measure it beside a new one and raw."""
    claims = _QUICK if settings.quick else CLAIMS
    jobs = settings.count(JOBS)
    with settings.store("lockdir") as folder:
        settings.progress(f"filling a lock directory with {claims:,} claims")
        with Worker("filling_locks", store=f"{folder}/full", claims=claims, jobs=jobs) as worker:
            worker.hear()
        with closing(_opened(folder / "full")) as full:
            found = rounds(settings, lambda: _round(settings, full, jobs))
    return Measured(tuple(_figures(found, claims)))


def _round(settings: Settings, full: LockDirBackend, count: int) -> Mapping[str, float]:
    """Return claims a second."""
    jobs = [f"job-{number}" for number in range(count)]
    batches = [jobs[first : first + BATCH] for first in range(0, count, BATCH)]
    with settings.store("locks") as folder, ExitStack() as stack:
        new = stack.enter_context(closing(_opened(folder / "new")))
        ways: dict[str, _Batch] = {
            _RAW: partial(_link, folder / "raw"),
            _NEW: partial(_claim, new),
            _FULL: partial(_claim, full),
        }
        took = dict.fromkeys(ways, 0.0)
        for batch in batches:  # makes the folders
            for way in ways.values():
                way(batch, now_ms())
        names = list(ways)  # in another order each time: a disk has work left from the one before
        for batch in batches * _PASSES:
            for name in names:
                took[name] += ways[name](batch, now_ms())
            names.append(names.pop(0))
    return {name: _PASSES * count / seconds for name, seconds in took.items()}


def _opened(folder: Path) -> LockDirBackend:
    backend = LockDirBackend(folder, create=True)
    backend.open()
    return backend


def _claim(backend: LockDirBackend, jobs: Sequence[str], slot: int) -> float:
    claims = claims_of(jobs, slot, "instance")
    began = time.perf_counter()
    answers = backend.claim(claims)
    took = time.perf_counter() - began
    if any(answer.outcome != "won" for answer in answers):
        raise RuntimeError(f"all of the runs should be free, and not {answers}")
    return took


def _link(root: Path, jobs: Sequence[str], slot: int) -> float:
    folders = [f"{root}/{job}/day" for job in jobs]
    for folder in folders:
        os.makedirs(folder, exist_ok=True)
    contents = [os.urandom(_CONTENT // 2).hex().encode() for _ in folders]
    began = time.perf_counter()
    for folder, content in zip(folders, contents, strict=True):
        private = f"{folder}/.{slot}"
        descriptor = os.open(private, _PRIVATE, 0o600)
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.close(descriptor)
        os.link(private, f"{folder}/{slot}")
        os.unlink(private)
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    return time.perf_counter() - began


def _figures(found: Sequence[Mapping[str, float]], claims: int) -> Iterator[Figure]:
    def rate(name: str) -> tuple[float, ...]:
        return tuple(each[name] for each in found)

    def share(name: str, of: str) -> tuple[float, ...]:
        return tuple(100 * each[name] / each[of] for each in found)

    yield Figure(f"raw link and fsync, {BATCH} files at once", "/s", rate(_RAW))
    yield Figure(f"LockDirBackend.claim, {BATCH} claims a call", "/s", rate(_NEW))
    yield Figure("LockDirBackend.claim, of raw", "%", share(_NEW, _RAW), at_least=60)
    yield Figure(f"after {claims:,} claims", "/s", rate(_FULL))
    yield Figure(
        f"after {claims:,} claims, of a new directory", "%", share(_FULL, _NEW), at_least=85
    )
