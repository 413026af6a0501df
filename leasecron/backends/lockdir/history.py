"""The history of a lock directory: a file per instance and kernel, merged when it is read.

Over a network two hosts that append to one file overwrite each other, so none does: a file belongs
to one instance under one kernel, where appending is safe, and a lock that need not reach further
keeps its rotation apart from its use. A line that a crash or a full disk cut off is skipped, and
counted. A record that is written twice is read once.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leasecron.backends.lockdir import descriptors, io
from leasecron.backends.lockdir.clock import ServerClock, now_ms
from leasecron.backends.lockdir.files import BARRED
from leasecron.backends.lockdir.locks import locked_file
from leasecron.backends.lockdir.marker import Directory
from leasecron.backends.lockdir.names import HISTORY, file_of_instance
from leasecron.backends.lockdir.records import (
    Order,
    began_at,
    from_line,
    mentions,
    order_of,
    to_line,
)
from leasecron.errors import BackendUnavailable
from leasecron.model import RunResult

ROTATE_AT = 1_000_000
"""Bytes after which a file is rotated for a new one."""

LARGEST = 100_000_000
"""Bytes of a file that is none of ours, which stay below half of that."""

_ENDING = ".jsonl"
_READS = 3
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the history. ``rotated`` is when it was rotated, in ms; None while in use."""

    name: str
    rotated: int | None


class History:
    """The history of one open lock directory; ``kernel`` is where this process runs."""

    def __init__(self, directory: Directory, server: ServerClock, kernel: str) -> None:
        self.folder = os.path.join(directory.path, HISTORY)
        self.torn = 0  # lines that were no records when it was last read
        self.barred = 0  # and what could not be read at all
        self.was_read = False
        self._directory = directory
        self._server = server
        self._kernel = kernel

    def append(self, results: Sequence[RunResult]) -> None:
        """Write records; a second time does no harm."""
        io.check_folder(self.folder)
        lines: defaultdict[str, list[bytes]] = defaultdict(list)
        for result in results:
            lines[result.instance].append(to_line(result))
        for instance, written in lines.items():
            stem = file_of_instance(instance, self._kernel)
            self._append(stem, b"".join(written))

    def newest(self, job: str | None, limit: int, before: RunResult | None) -> list[RunResult]:
        """Return records, newest first; counts the lines that are none."""
        below = None if before is None else order_of(before)
        found: dict[Order, RunResult] = {}
        oldest = 0
        # Only what is asked for is read in full: there may be hundreds of thousands.
        for began, line in sorted(self.lines(job), reverse=True):
            if len(found) >= limit and began < oldest:
                break
            result = from_line(line)
            if result is None:
                self.torn += 1
            elif below is None or order_of(result) < below:
                found.setdefault(order_of(result), result)
                oldest = began
        return [found[order] for order in sorted(found, reverse=True)[:limit]]

    def lines(self, job: str | None = None) -> list[tuple[int, bytes]]:
        """Return the lines of all records, or of a job's, with when each run began."""
        lines: list[tuple[int, bytes]] = []
        for _ in range(_READS):
            parts = self.parts()
            lines, whole = self._read(parts, None if job is None else mentions(job))
            # A file that was renamed or merged meanwhile can have been missed under both names.
            if whole and {part.name for part in self.parts()} <= {part.name for part in parts}:
                break
        return lines

    def parts(self) -> list[Part]:
        """Return the files, those that were rotated first and in that order."""
        io.check_folder(self.folder)
        parts = [part for name in io.names_in(self.folder) if (part := _part(name)) is not None]
        return sorted(parts, key=lambda part: (part.rotated is None, part.rotated or 0, part.name))

    def path_of(self, part: Part) -> str:
        """Return where a file is."""
        return os.path.join(self.folder, part.name)

    def contents(self, parts: Sequence[Part]) -> Iterator[tuple[Part, bytes | None]]:
        """Return what the files hold that can be read; None for one that is gone.

        What somebody put among them, such as a folder, does not take the rest away; it is counted.
        """
        self.barred = 0
        for part in parts:
            path = self.path_of(part)
            found = io.status_of(path)
            if found is not None and not (stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST):
                self.barred += 1
                continue
            try:
                content = io.read_file(path, None)
            except OSError as error:
                if error.errno not in BARRED:
                    raise
                self.barred += 1
            else:
                yield part, content

    def rotate(self, part: Part) -> None:
        """Rotate a file in use, unless it is busy or gone; whoever writes it makes another."""
        with locked_file(self.path_of(part), create=None) as descriptor:
            if descriptor is not None and descriptors.is_at(descriptor, self.path_of(part)):
                self._rotate_file(part.name.removesuffix(_ENDING))

    def _read(
        self, parts: Sequence[Part], needle: bytes | None
    ) -> tuple[list[tuple[int, bytes]], bool]:
        found: list[tuple[int, bytes]] = []
        torn, whole = 0, True
        for _, content in self.contents(parts):
            whole = whole and content is not None
            for line in lines_of(content or b""):
                began = began_at(line)
                if began is None:
                    torn += 1
                elif needle is None or needle in line:
                    found.append((began, line))
        self.torn = torn
        self.was_read = True
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
                    continue  # it was rotated between its opening and the lock
                if descriptors.size_of(descriptor) >= ROTATE_AT:
                    self._rotate_file(stem)
                    continue
                descriptors.append(descriptor, data)
                if descriptors.has_name(descriptor):
                    return
        raise BackendUnavailable(
            f"the store {self._directory.path} cannot keep a record: {path} is always replaced"
        )

    def _rotate_file(self, stem: str) -> None:
        name = rotated_name(stem, now_ms(self._server))
        io.move(os.path.join(self.folder, stem + _ENDING), os.path.join(self.folder, name))


def rotated_name(stem: str, now: int) -> str:
    """Return a name that nobody has for a file that is rotated now."""
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
