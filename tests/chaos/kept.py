"""What the store of a chaos run holds afterwards."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from support.store_file import Row as Values
from support.store_file import StoreFile

from chaos.jobs import WORKS
from chaos.place import Place
from chaos.story import Run
from leasecron import RunResult
from leasecron.backends.lockdir import LockDirBackend
from leasecron.backends.lockdir_names import JOBS, as_slot, folder_of_job
from leasecron.model import to_ms

_PAGE = 1000


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


@dataclass(slots=True)
class Kept:
    """All of it; ``integrity`` is ``ok`` or what is wrong with the file."""

    records: list[Record] = field(default_factory=list)
    claims: dict[Run, Claimed] = field(default_factory=dict)
    integrity: str = "ok"


def read_kept(place: Place) -> Kept:
    """Read the store, which nobody uses any more."""
    return _sqlite(StoreFile(place.path)) if place.kind == "sqlite" else _lockdir(place.path)


def _sqlite(store: StoreFile) -> Kept:
    kept = Kept(integrity=store.integrity())
    for work in WORKS:
        for row in store.runs(work.name):
            names = ("token", "instance", "attempt", "state", "fence", "released_fence")
            kept.claims[(work.name, row["slot"])] = Claimed(**_only(row, names))
        names = ("job", "slot", "attempt", "fence", "instance", "status")
        kept.records += [Record(**_only(row, names)) for row in store.results(work.name)]
    return kept


def _only(row: Values, names: tuple[str, ...]) -> Values:
    return {name: row[name] for name in names}


def _lockdir(path: Path) -> Kept:
    kept = Kept()
    for work in WORKS:
        for file in (path / JOBS / folder_of_job(work.name)).glob("*-*-*/*"):
            slot = as_slot(file.name)
            if slot is not None:
                said = json.loads(file.read_text())
                kept.claims[(work.name, slot)] = Claimed(said["token"], said["instance"])
    backend = LockDirBackend(path)
    backend.open()
    last: RunResult | None = None
    while page := backend.history(limit=_PAGE, before=last):
        kept.records += map(_record, page)
        last = page[-1]
    backend.close()
    return kept


def _record(result: RunResult) -> Record:
    return Record(
        result.job,
        to_ms(result.slot),
        result.attempt,
        result.fence,
        result.instance,
        result.status,
    )
