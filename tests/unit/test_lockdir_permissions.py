"""Permissions that are taken away for a while: every record is there in the end."""

from __future__ import annotations

import hashlib  # noqa: F401 - whoever the test becomes need not be able to read it
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import portalocker  # noqa: F401 - the same
import pytest
from contract.hand_clock import HandClock
from contract.server_clock import lock_directory
from fake_instances import START
from lockdir_bench import as_nobody, open_folder
from test_lockdir_history import record, slots

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.store import StoreQueue
from leasecron.testing import FakeClock

__all__ = ["as_nobody", "open_folder"]

LONG = 120.0


class Saving:
    """A store thread that saves records in a lock directory."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock(START)
        self.backend: LockDirBackend = lock_directory(path, HandClock())
        self.saved: list[int] = []
        self.reports: list[str] = []
        self.queue = StoreQueue(self.backend, self.clock, self._on_error)
        self.queue.open()

    def save(self, slot: int, instance: str) -> None:
        """Hand over a record."""
        self.queue.submit(
            "save_results",
            record(slot, instance=instance),
            lambda _answer, _asked_at: self.saved.append(slot),
        )

    def end(self) -> None:
        """Close the store, in which every record must be by now."""
        self.queue.close(lambda: None)
        self.clock.advance(LONG)
        assert self.queue.ended

    def _on_error(self, operation: str, items: Sequence[Any], _error: BaseException) -> None:
        self.reports += [operation] * len(items)


@pytest.fixture
def locks(open_folder: Path) -> Path:
    return open_folder / "locks"


@pytest.fixture
def saving(locks: Path, as_nobody: None) -> Iterator[Saving]:
    made = Saving(locks)
    yield made
    made.end()


@pytest.mark.parametrize(
    ("what", "mode", "others"),
    [
        (".", 0o000, "wait"),
        ("history", 0o000, "wait"),
        ("history", 0o555, "wait"),
        ("history/one-*.jsonl", 0o000, "go on"),
        ("history/one-*.jsonl", 0o444, "go on"),
        ("leasecron.json", 0o000, "wait"),
    ],
)
def test_records_wait_for_their_file_and_are_all_there_in_the_end(
    saving: Saving, locks: Path, what: str, mode: int, others: str
) -> None:
    saving.save(0, "one")
    saving.clock.advance(1)
    assert saving.saved == [0]
    (path,) = [locks] if what == "." else locks.glob(what)
    before = path.stat().st_mode & 0o777

    path.chmod(mode)
    barred_one = what != "history" or mode != 0o555  # what is there can still be appended to
    for slot in range(1, 5):
        saving.save(slot, "one" if slot % 2 else "two")
        saving.clock.advance(LONG)
    goes_on = {2, 4} if others == "go on" else set()
    assert set(saving.saved) == {0} | goes_on | (set() if barred_one else {1, 3})
    assert set(saving.reports) == {"save_results"}

    path.chmod(before)
    saving.clock.advance(LONG)
    assert sorted(saving.saved) == [*range(5)]
    assert slots(saving.backend) == [*range(5)]
    assert saving.backend.torn_lines == 0


@pytest.mark.parametrize("mode", [0o000, 0o555])
def test_a_stop_waits_for_the_records_that_are_not_saved(
    saving: Saving, locks: Path, mode: int
) -> None:
    (locks / "history").chmod(mode)
    saving.save(0, "one")
    saving.queue.close(lambda: None)
    saving.clock.advance(LONG)
    ended = [saving.queue.ended]
    (locks / "history").chmod(0o755)
    saving.clock.advance(LONG)
    ended.append(saving.queue.ended)
    assert ended == [False, True]
    again = lock_directory(locks, HandClock(), create=False)
    again.open()
    assert slots(again) == [0]
    again.close()
