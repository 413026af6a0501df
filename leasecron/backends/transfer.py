"""What one store can hand over to another: the day that an application outgrows its machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from leasecron.backends.rows import RunRow
from leasecron.model import BackfillState, Pause, RunResult


@dataclass(frozen=True, slots=True)
class JobRow:
    """What a store knows of a job, in integer milliseconds; ``once_at`` of one that runs once."""

    name: str
    schedule: str
    first_seen: int
    last_seen: int
    pruned: int | None
    once_at: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some of what a store holds."""

    jobs: Sequence[JobRow] = field(default=())
    runs: Sequence[RunRow] = field(default=())
    results: Sequence[RunResult] = field(default=())
    pauses: Sequence[Pause] = field(default=())
    backfills: Sequence[BackfillState] = field(default=())


@dataclass(frozen=True, slots=True)
class Absorbed:
    """How much of a page was new to the store that took it.

    Fences are unique in a store, but not among the sources of one: ``clashing`` are the records
    that were left out, since another attempt has a record with the same fence.
    """

    jobs: int
    runs: int
    results: int
    clashing: int


@runtime_checkable
class Source(Protocol):
    """An open store whose contents can be handed over."""

    def in_use(self) -> str | None:
        """Say by what an instance shows that it is alive here, if one does."""

    def next_fence(self) -> int:
        """Return a number above every fence that this store has given."""

    def pages(self) -> Iterator[Page]:
        """Yield all that is in the store, a bounded number of rows at a time."""


@runtime_checkable
class Target(Protocol):
    """An open store that can take over what another one holds."""

    def raise_fences(self, next_fence: int) -> None:
        """Give no fence below this one from now on."""

    def absorb(self, page: Page) -> Absorbed:
        """Keep what is not there yet, without a change of what is; a second time without effect."""
