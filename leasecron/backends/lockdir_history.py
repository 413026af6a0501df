"""The history of a lock directory: a file per instance and kernel, merged when it is read.

Over a network two hosts that append to one file overwrite each other, so none does: a file belongs
to one instance under one kernel, where appending is safe, and a lock that need not reach further
keeps its rotation apart from its use. A line that a crash or a full disk cut off is skipped, and
counted. A record that is written twice is read once.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leasecron.backends import lockdir_descriptors as descriptors
from leasecron.backends import lockdir_io as io
from leasecron.backends.lockdir_clock import ServerClock, now_ms
from leasecron.backends.lockdir_locks import locked_file
from leasecron.backends.lockdir_marker import Directory
from leasecron.backends.lockdir_names import HISTORY, file_of_instance
from leasecron.backends.lockdir_records import Order, from_line, mentions, order_of, to_line
from leasecron.errors import BackendUnavailable
from leasecron.model import RunResult

ROTATE_AT = 1_000_000
"""Bytes after which a file is put aside for a new one."""

_ENDING = ".jsonl"
_READS = 3
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the history. ``rotated`` is when it was put aside, in ms; None while in use."""

    name: str
    rotated: int | None


class History:
    """The history of one open lock directory; ``kernel`` is where this process runs."""

    def __init__(self, directory: Directory, server: ServerClock, kernel: str) -> None:
        self.folder = os.path.join(directory.path, HISTORY)
        self.torn = 0
        self._directory = directory
        self._server = server
        self._kernel = kernel

    def append(self, results: Sequence[RunResult]) -> None:
        """Write records; a second time does no harm."""
        lines: defaultdict[str, list[bytes]] = defaultdict(list)
        for result in results:
            lines[result.instance].append(to_line(result))
        for instance, written in lines.items():
            stem = file_of_instance(instance, self._kernel)
            self._append(stem, b"".join(written))

    def newest(self, job: str | None, limit: int, before: RunResult | None) -> list[RunResult]:
        """Return records, newest first."""
        if limit <= 0:
            return []
        found = self.read(job)
        below = None if before is None else order_of(before)
        orders = sorted((order for order in found if below is None or order < below), reverse=True)
        return [found[order] for order in orders[:limit]]

    def read(self, job: str | None = None) -> dict[Order, RunResult]:
        """Return all records; counts the lines that are none."""
        found: dict[Order, RunResult] = {}
        for _ in range(_READS):
            parts = self.parts()
            found, whole = self._read(parts, None if job is None else mentions(job))
            # A file that was renamed or merged meanwhile can have been missed under both names.
            if whole and {part.name for part in self.parts()} <= {part.name for part in parts}:
                break
        return found

    def parts(self) -> list[Part]:
        """Return the files, those that were put aside first and in that order."""
        parts = [part for name in io.names_in(self.folder) if (part := _part(name)) is not None]
        return sorted(parts, key=lambda part: (part.rotated is None, part.rotated or 0, part.name))

    def path_of(self, part: Part) -> str:
        """Return where a file is."""
        return os.path.join(self.folder, part.name)

    def rotate(self, part: Part) -> None:
        """Put a file in use aside, unless it is busy or gone; whoever writes it makes another."""
        with locked_file(self.path_of(part), create=None) as descriptor:
            if descriptor is not None and descriptors.is_at(descriptor, self.path_of(part)):
                self._put_aside(part.name.removesuffix(_ENDING))

    def _read(
        self, parts: Sequence[Part], needle: bytes | None
    ) -> tuple[dict[Order, RunResult], bool]:
        found: dict[Order, RunResult] = {}
        torn, whole = 0, True
        for part in parts:
            content = io.read_file(self.path_of(part), None)
            whole = whole and content is not None
            for line in lines_of(content or b""):
                if needle is not None and needle not in line and line.endswith(b"}"):
                    continue
                result = from_line(line)
                if result is None:
                    torn += 1
                else:
                    found.setdefault(order_of(result), result)
        self.torn = torn
        return found, whole

    @io.again_if_stale
    def _append(self, stem: str, data: bytes) -> None:
        path = os.path.join(self.folder, stem + _ENDING)
        for _ in range(_TRIES):
            with locked_file(path, create=self._directory.modes.file) as descriptor:
                if descriptor is None:
                    raise BackendUnavailable(
                        f"the store {self._directory.path} cannot keep a record: {path} is locked "
                        "by another process"
                    )
                if not descriptors.is_at(descriptor, path):
                    continue  # it was put aside between its opening and the lock
                if descriptors.size_of(descriptor) >= ROTATE_AT:
                    self._put_aside(stem)
                    continue
                descriptors.append(descriptor, data)
                if descriptors.has_name(descriptor):
                    return
        raise BackendUnavailable(
            f"the store {self._directory.path} cannot keep a record: {path} is always replaced"
        )

    def _put_aside(self, stem: str) -> None:
        name = rotated_name(stem, now_ms(self._server))
        io.move(os.path.join(self.folder, stem + _ENDING), os.path.join(self.folder, name))


def rotated_name(stem: str, now: int) -> str:
    """Return a name that nobody has for a file that is put aside now."""
    return f"{stem}.{now}-{os.urandom(6).hex()}{_ENDING}"


def lines_of(content: bytes) -> Iterator[bytes]:
    """Return the lines that are not empty, without their newlines."""
    return (line for line in content.split(b"\n") if line)


def _part(name: str) -> Part | None:
    if name.startswith(".") or not name.endswith(_ENDING):
        return None
    _stem, dot, mark = name.removesuffix(_ENDING).partition(".")
    if not dot:
        return Part(name, None)
    since = mark.partition("-")[0]
    return Part(name, int(since)) if since.isascii() and since.isdigit() else Part(name, 0)
