"""A folder of a chaos run's own for a store in files, which it also takes away and fills."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from support.lock_directory import LockDirectory

from chaos import locks
from chaos.plan import Kind

SIZE = 256
"""Megabytes of the small filesystem, where few runs are kept."""

_BLOCK = 4096
_TRIES = 100


class PlaceError(Exception):
    """There is no store to be made there; the text says why, or what would be right."""


class Place:
    """The store's folder; ``disk`` is the folder above, with a small filesystem if one can be had.

    What is made here is removed at the end, and nothing is used that was there before.
    """

    def __init__(self, url: str, journal: str, *, megabytes: int = SIZE) -> None:
        self.kind, self.path = _parsed(url)
        self.leases = self.kind == "sqlite"
        self.has_clock = self.kind == "lockdir"
        self.folder = self.path.parent if self.kind == "sqlite" else self.path
        self.disk = self.folder.parent
        if self.folder.exists():
            raise PlaceError(f"{self.folder} exists already; right is a folder that can be made")
        if journal != "auto" and self.kind != "sqlite":
            raise PlaceError("only a SQLite store has a journal")
        self.journal = journal
        self._megabytes = megabytes
        self.url = url if journal == "auto" else f"{url}?journal={journal}"
        self.small = False
        self.why_not_small = ""
        self._emptied = False
        self._aside = self.folder.with_name(self.folder.name + ".aside")

    def __str__(self) -> str:
        return self.url

    def url_of(self, number: int) -> str:
        """Return the URL for an instance, which is that for all."""
        return self.url

    def kinds(self) -> tuple[list[Kind], list[str]]:
        """Return what can befall it, and what cannot and why, once it is made."""
        kinds: list[Kind] = ["away"]
        lacks = []
        if self.kind == "sqlite":
            kinds.append("lock")
        if self.kind != "sqlite" or locks.are_told():
            kinds.append("freeze")
        else:
            lacks.append("no process is ever frozen: the kernel does not tell which locks it holds")
        if self.small:
            kinds.append("full")
        else:
            lacks.append(f"the disk is never full: {self.why_not_small}")
        return kinds, lacks

    def keep(self, folder: Path) -> None:
        """Copy what it holds."""
        shutil.copytree(self.folder, folder / "store")

    @contextmanager
    def made(self) -> Iterator[None]:
        """Have it there."""
        new = [folder for folder in (self.disk, *self.disk.parents) if not folder.exists()]
        self.disk.mkdir(parents=True, exist_ok=True)
        self._mount(new=bool(new))
        try:
            self.folder.mkdir()
            if self.kind == "lockdir":
                LockDirectory(self.path).make()
            yield
        finally:
            self._remove(new)

    def away(self) -> None:
        """Take the folder away.

        Every other time an empty one is in the place of a lock directory, as of an NFS mount that
        is missing; a SQLite store would rightly be made anew in it by an instance that starts.
        """
        self.folder.rename(self._aside)
        self._emptied = self.kind == "lockdir" and not self._emptied
        if self._emptied:
            self.folder.mkdir()

    def back(self) -> list[str]:
        """Bring it back; return the names of what was put into the empty one meanwhile."""
        names = []
        if self._emptied:
            names = sorted(os.listdir(self.folder))
            shutil.rmtree(self.folder)
        self._aside.rename(self.folder)
        return names

    def fill(self) -> None:
        """Leave no byte free on the disk, which for that becomes as small as what is on it."""
        for _ in range(_TRIES):
            state = os.statvfs(self.disk)
            used = (state.f_blocks - state.f_bfree) * state.f_frsize
            if self._resize(max(used, _BLOCK)):  # fails where somebody has written since
                return
        raise PlaceError(f"{self.disk} could not be made smaller")

    def empty(self) -> None:
        """Make room again."""
        if not self._resize(self._megabytes << 20):
            raise PlaceError(f"{self.disk} could not be made larger again")

    def _resize(self, size: int) -> bool:
        command = ["mount", "-o", f"remount,size={size}", str(self.disk)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _mount(self, *, new: bool) -> None:
        if not new:
            self.why_not_small = f"{self.disk} was there before, and is not to be filled"
            return
        command = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            f"size={self._megabytes}m",
            "tmpfs",
            str(self.disk),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            self.why_not_small = "there is no mount command"
            return
        self.small = done.returncode == 0
        self.why_not_small = done.stderr.strip()

    def _remove(self, new: list[Path]) -> None:
        for folder in (self.folder, self._aside):
            shutil.rmtree(folder, ignore_errors=True)
        if self.small:
            subprocess.run(["umount", str(self.disk)], check=True)
        for folder in new:
            folder.rmdir()


def _parsed(url: str) -> tuple[Literal["sqlite", "lockdir"], Path]:
    for kind in ("sqlite", "lockdir"):
        start = f"{kind}:////"
        if url.startswith(start) and "?" not in url:
            path = Path("/") / url.removeprefix(start)
            return ("sqlite" if kind == "sqlite" else "lockdir"), path
    raise PlaceError(
        f"{json.dumps(url)} is not a store for this; right are"
        " sqlite:////dev/shm/chaos/store/leasecron.db and lockdir:////dev/shm/chaos/store, and for"
        " a server that is started for this alone: postgres and redis"
    )
