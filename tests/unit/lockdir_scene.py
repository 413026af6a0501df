"""A lock directory in use, and what somebody else puts in the place of its files and folders."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from contract.driver import at
from contract.hand_clock import START, HandClock
from contract.server_clock import lock_directory
from lockdir_bench import claim
from test_lockdir_history import record

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.backends.lockdir.names import file_of_instance, folder_of_job
from leasecron.model import Declaration, to_ms

DAY = 86_400.0
MOST_WORK = 1.0
"""Seconds of this process's own time for all that a test does, most of which takes milliseconds."""


@dataclass
class Scene:
    """A store in use, a folder of somebody else, and what is put from there into the store."""

    backend: LockDirBackend
    clock: HandClock
    locks: Path
    outside: Path
    held: ExitStack = field(default_factory=ExitStack)

    def place(self, name: str) -> Path:
        """Return a path in the store by what it is."""
        job = self.locks / "jobs" / folder_of_job("job")
        history = self.locks / "history"
        older, newer = (job / at(slot).date().isoformat() for slot in (-5 * DAY, 0))
        places = {
            "claim": newer / str(to_ms(at(0))),
            "day": newer,
            "older day": older,
            "job": job,
            "job.json": job / "job.json",
            "another's history": history / f"{file_of_instance('two', 'boot-a')}.jsonl",
            "own history": history / f"{file_of_instance('one', 'boot-a')}.jsonl",
            "prune.lock": self.locks / "locks" / "prune.lock",
        }
        return places.get(name, self.locks / name)

    def put(self, kind: str, path: Path) -> Path:
        """Put something in the place of what is there, since three days; return where that is."""
        moved = self.outside.with_name("moved")
        path.rename(moved)
        KINDS[kind](self, path)
        os.utime(path, (START - 3 * DAY,) * 2, follow_symlinks=False)
        return moved

    def saw(self) -> dict[str, tuple[int, bytes | None]]:
        """Return what is outside: when it was changed, and what is in it."""
        return {
            str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
            for path in (self.outside, *self.outside.rglob("*"))
        }


def _pipe_with_writer(scene: Scene, path: Path) -> None:
    os.mkfifo(path)
    scene.held.callback(os.close, os.open(path, os.O_RDWR))


def _socket(scene: Scene, path: Path) -> None:
    made = scene.held.enter_context(socket.socket(socket.AF_UNIX))
    before = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    made.bind(path.name)
    os.chdir(before)


def _giant(_scene: Scene, path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(20_000_000_000)


KINDS: dict[str, Callable[[Scene, Path], object]] = {
    "folder": lambda _scene, path: path.mkdir(),
    "link": lambda scene, path: path.symlink_to(scene.outside),
    "link to nothing": lambda scene, path: path.symlink_to(scene.outside / "nothing"),
    "link to itself": lambda _scene, path: path.symlink_to(path),
    "link to /dev/zero": lambda _scene, path: path.symlink_to("/dev/zero"),
    "pipe": lambda _scene, path: os.mkfifo(path),
    "pipe with writer": _pipe_with_writer,
    "socket": _socket,
    "giant": _giant,
}


@pytest.fixture
def scene(tmp_path: Path, locks: Path, clock: HandClock) -> Iterator[Scene]:
    """A store with claims of two jobs and records of two instances.

    Whatever a test does: outside of the store nothing is made, changed or removed.
    """
    outside = tmp_path / "outside"
    fill_outside(outside)
    backend = lock_directory(locks, clock)
    backend.open(clock)
    for job in ("job", "third"):
        for slot in (0, -5 * DAY):
            assert claim(backend, slot, "a", job=job, max_late=1e9).outcome == "won"
    backend.declare([Declaration("job", ""), Declaration("third", "")])
    backend.save_results([record(0, instance="one"), record(1, instance="two")])
    for path in (locks / "history").iterdir():
        os.utime(path, (START, START))
    made = Scene(backend, clock, locks, outside)
    before, began = made.saw(), time.process_time()
    yield made
    backend.close()
    made.held.close()
    assert time.process_time() - began < MOST_WORK
    assert made.saw() == before
    assert {path.name for path in tmp_path.iterdir()} <= {"locks", "outside", "moved"}


def fill_outside(outside: Path) -> None:
    """Make files that look like what a store removes from time to time, and are none of its."""
    days = [at(slot).date().isoformat() for slot in (0, -5 * DAY)]
    slot = str(to_ms(at(-5 * DAY)))
    names = [slot, "5", "-5", ".5.abc", ".job.json.abc", ".merged.abc", "x.1-0.jsonl", "prune.lock"]
    for folder in (outside, *(outside / day for day in days)):
        folder.mkdir()
        for name in names:
            (folder / name).write_bytes(b"precious")
    for path in sorted(outside.rglob("*"), reverse=True):
        os.utime(path, (START - 9 * DAY,) * 2)
