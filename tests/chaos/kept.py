"""What the store of a chaos run holds afterwards."""

import json
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from support.store_file import StoreFile

from chaos.jobs import Work
from chaos.place import Place
from chaos.story import Run
from leasecron import RunResult
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.lockdir.names import JOBS, as_slot, folder_of_job
from leasecron.model import to_ms

_RECORDS = """
    SELECT job, slot, attempt, fence, instance, status FROM results
    WHERE job IN (SELECT value FROM json_each(?)) ORDER BY fence
"""
_CLAIMS = """
    SELECT job, slot, token, instance, attempt, state, fence, released_fence FROM runs
    WHERE job IN (SELECT value FROM json_each(?))
"""


@dataclass(frozen=True, slots=True)
class Record:
    """One attempt, as history keeps it."""

    job: str
    slot: int
    attempt: int
    fence: int | None
    instance: str
    status: str

    @property
    def run(self) -> Run:
        """What the run is known by."""
        return (self.job, self.slot)

    def __str__(self) -> str:
        return (
            f"recorded: {self.job} {self.slot} attempt {self.attempt} fence {self.fence}"
            f" in {self.instance}: {self.status}"
        )


@dataclass(frozen=True, slots=True)
class Claimed:
    """The latest claim of a run. A store without leases keeps no state and no fences."""

    token: str
    instance: str
    attempt: int = 1
    state: str = "claimed"
    fence: int | None = None
    released_fence: int | None = None

    @property
    def life(self) -> int:
        """The process that has won."""
        return int(self.instance.partition("-")[2])


@dataclass(slots=True)
class Kept:
    """All of it; ``integrity`` is ``ok`` or what is wrong with the file."""

    records: list[Record] = field(default_factory=list)
    claims: dict[Run, Claimed] = field(default_factory=dict)
    integrity: str = "ok"


class Contents(Protocol):
    """A store that nobody uses any more, to be read in parts."""

    def integrity(self) -> str:
        """Return ``ok`` or what is wrong with it as a whole."""

    def of(self, works: Sequence[Work]) -> Kept:
        """Return what is kept of these jobs."""


class ContentsOfFiles:
    """A store in files."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def integrity(self) -> str:
        """Return ``ok`` or what is wrong with the file, all of which is read for that."""
        if self._place.kind == "sqlite":
            return StoreFile(self._place.path).integrity()
        return "ok"

    def of(self, works: Sequence[Work]) -> Kept:
        """Return what is kept of these jobs."""
        if self._place.kind == "sqlite":
            return _from_file(self._place.path, [work.name for work in works])
        kept = Kept()
        for work in works:
            kept.claims.update(_claims_in(self._place.path, work.name))
            kept.records += self._records.get(work.name, ())
        return kept

    @cached_property
    def _records(self) -> dict[str, list[Record]]:
        """The history of a lock directory by job, all of which is read for any of it."""
        backend = LockDirBackend(self._place.path)
        backend.open()
        records = defaultdict(list)
        for result in backend.history(limit=sys.maxsize):
            records[result.job].append(_record(result))
        backend.close()
        return records


def _from_file(path: Path, jobs: Sequence[str]) -> Kept:
    kept = Kept()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as connection:
        for row in connection.execute(_RECORDS, (json.dumps(jobs),)):
            kept.records.append(Record(*row))
        for job, slot, *row in connection.execute(_CLAIMS, (json.dumps(jobs),)):
            kept.claims[job, slot] = Claimed(*row)
    return kept


def _claims_in(path: Path, job: str) -> Iterator[tuple[Run, Claimed]]:
    for file in (path / JOBS / folder_of_job(job)).glob("*-*-*/*"):
        slot = as_slot(file.name)
        if slot is not None:
            said = json.loads(file.read_text())
            yield (job, slot), Claimed(said["token"], said["instance"])


def _record(result: RunResult) -> Record:
    return Record(
        result.job,
        to_ms(result.slot),
        result.attempt,
        result.fence,
        result.instance,
        result.status,
    )
