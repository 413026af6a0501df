"""Which locks of a SQLite store a process holds that does not run: those keep the others from it.

The kernel is asked. Whoever tries for the lock himself meets that of somebody who does run, too,
and on a busy store cannot tell the one from the other.
"""

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_PROCESSES = Path("/proc")

_WRITE, _RECOVERY, _IN_USE = 120, 122, 128
"""Bytes of the index of a write-ahead log that one has to lock to write, to rebuild it, to make it.

Other bytes are for those who read, whom nobody waits for who writes, and for who brings the log
back into the database, which can be done later.
"""


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock on the bytes ``first`` to ``last`` of a file, which it has alone or shares."""

    file: str
    alone: bool
    first: int
    last: int

    def is_on(self, *bytes_: int) -> bool:
        """Say whether any of these bytes is locked."""
        return any(self.first <= byte <= self.last for byte in bytes_)

    def __str__(self) -> str:
        kind = "alone" if self.alone else "shared"
        return f"{self.file} {self.first}-{self.last} {kind}"


def are_told() -> bool:
    """Say whether the kernel tells which locks a process holds, by having it tell of one."""
    with tempfile.TemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            text = (_PROCESSES / "self" / "fdinfo" / str(file.fileno())).read_text()
        except FileNotFoundError:
            return False
    return "lock:" in text


def locks_of(pid: int, database: Path) -> list[Lock]:
    """Return those that a process has on a database and on the files beside it.

    They are known by their names alone, for the folder may be elsewhere by now.
    """
    return sorted({*_locks_of(pid, database.name)}, key=str)


def keep_others_out(locks: Sequence[Lock], database: Path) -> bool:
    """Say whether nobody else can write as long as somebody has these.

    The turnstile is no such lock: who has waited for it in vain goes on without it.
    """
    index = f"{database.name}-shm"
    logged = any(lock.file == index for lock in locks) or database.with_name(index).exists()
    return any(
        (lock.alone and lock.file == index and lock.is_on(_WRITE, _RECOVERY, _IN_USE))
        # Those who read a file without a log keep others from writing, too.
        or (lock.file == database.name and (lock.alone or not logged))
        for lock in locks
    )


def _locks_of(pid: int, name: str) -> Iterator[Lock]:
    folder = _PROCESSES / str(pid)
    try:
        descriptors = os.listdir(folder / "fd")
    except FileNotFoundError:  # it has died
        return
    for descriptor in descriptors:
        try:
            file = Path(os.readlink(folder / "fd" / descriptor)).name
            if file.startswith(name):
                text = (folder / "fdinfo" / descriptor).read_text()
                yield from _parsed(file, text)
        except (FileNotFoundError, ProcessLookupError):
            continue


def _parsed(file: str, text: str) -> Iterator[Lock]:
    """Yield the locks from lines such as ``lock: 1: POSIX ADVISORY WRITE 17 00:27:7 120 120``."""
    for line in text.splitlines():
        if line.startswith("lock:"):
            kind, *_, first, last = line.split()[4:]
            end = sys.maxsize if last == "EOF" else int(last)
            yield Lock(file, kind == "WRITE", int(first), end)
