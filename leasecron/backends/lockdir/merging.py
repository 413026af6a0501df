"""Keeping the history of a lock directory small: many files become one, of the records to keep.

The new file is complete before the old ones go, so that a crash leaves records twice, which reading
drops, and none is lost. Only files that were rotated for a while take part: whoever was still
writing to one has noticed by then.
"""

from __future__ import annotations

import errno
import heapq
import math
import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from leasecron.backends.lockdir import io
from leasecron.backends.lockdir.files import BARRED
from leasecron.backends.lockdir.history import History, Part, lines_of, rotated_name
from leasecron.backends.lockdir.marker import Directory
from leasecron.backends.lockdir.names import LOCKS, MERGE_STAMP, MERGED, private_name
from leasecron.backends.lockdir.records import Order, from_line, job_in, mentions, order_of
from leasecron.model import MAX_RECORDS, Retention, RunResult, to_ms

EVERY = 10 * 60 * 1000
"""Milliseconds: between two looks at the whole history, and before a file is merged."""

FILES = 16
"""So many files are merged, whatever is in them."""

MOST = 8_000_000
"""Bytes of files that are merged at once."""

_DAY = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class _Source:
    """A file that may be merged, as it was read: its records to keep, and how many lines it has."""

    path: str
    size: int
    kept: Mapping[Order, bytes]
    lines: int


class Merging:
    """Merges the history of one open lock directory."""

    def __init__(self, directory: Directory, history: History) -> None:
        self._directory = directory
        self._history = history
        self._retentions: dict[str, Retention] = {}
        self._stamp = os.path.join(directory.path, LOCKS, MERGE_STAMP)
        self._last: int | None = None
        self._place: str | None = None

    def merge(self, retentions: Sequence[Retention], now: int) -> None:
        """Merge what is worth it; looks at the history at most every ten minutes.

        A job of which no retention was ever given keeps all.
        """
        self._retentions.update((retention.job, retention) for retention in retentions)
        if not self._is_time(now):
            return
        self._rotate_unused(now)
        parts = self._next(
            [part for part in self._history.parts() if self._is_at_rest(part, now)], now
        )
        if parts:
            self._merge(self._read(parts, self._kept_from(), now), now)

    def _is_time(self, now: int) -> bool:
        """Say whether nobody has looked for a while, neither this process nor another one."""
        if self._last is not None and self._last <= now < self._last + EVERY:
            return False
        self._last = now
        try:
            io.check_folder(os.path.dirname(self._stamp))
            stamped = io.modified_ms(self._stamp)
            if stamped is not None and stamped <= now < stamped + EVERY:
                return False
            io.stamp(self._stamp, self._directory.modes.file)
        except OSError as error:  # what somebody put in its place keeps nobody from looking
            if error.errno not in {*BARRED, errno.ENOENT, errno.ENOTDIR}:
                raise
        return True

    def _rotate_unused(self, now: int) -> None:
        for part in self._history.parts():
            if part.rotated is None:
                modified = io.modified_ms(self._history.path_of(part))
                if modified is not None and modified < now - _DAY:
                    self._rotate(part)

    def _rotate(self, part: Part) -> None:
        try:
            self._history.rotate(part)
        except OSError as error:  # what somebody put there keeps no file from being merged
            if error.errno not in BARRED:
                raise

    def _next(self, resting: Sequence[Part], now: int) -> list[Part]:
        """Return the files that come next, in turn, and not too much: claims wait meanwhile."""
        files = sorted(resting, key=lambda part: part.name)
        if files and self._place is None:  # processes that live for minutes do not all begin alike
            first = now // EVERY % len(files)
        else:
            place = self._place or ""
            first = next((n for n, part in enumerate(files) if part.name > place), 0)
        chosen: list[Part] = []
        left = MOST
        for part in [*files[first:], *files[:first]]:
            found = io.status_of(self._history.path_of(part))
            size = 0 if found is None else found.st_size
            if chosen and size > left:
                break
            chosen.append(part)
            left -= size
        self._place = chosen[-1].name if chosen else ""
        return chosen

    def _kept_from(self) -> dict[str, tuple[float, float]]:
        """Return, by job, the start from which on runs are among the newest ``keep``, and 100,000.

        That is a question to the whole history, of which the starts alone are read for it.
        """
        starts: defaultdict[bytes | None, set[int]] = defaultdict(set)
        for began, line in self._history.lines():
            starts[job_in(line)].add(began)
        found = {}
        for job, retention in self._retentions.items():
            of_job = starts[mentions(job)]
            number = min(retention.records, MAX_RECORDS)
            found[job] = (_nth_newest(of_job, number), _nth_newest(of_job, MAX_RECORDS))
        return found

    def _is_needed(
        self, result: RunResult, kept_from: Mapping[str, tuple[float, float]], now: int
    ) -> bool:
        retention = self._retentions.get(result.job)
        if retention is None:
            return True
        began = to_ms(result.started_at)
        by_number, at_most = kept_from[result.job]
        is_young = to_ms(result.ended_at) >= now - retention.age * 1000
        return began >= by_number or (is_young and began >= at_most)

    def _read(
        self, parts: Sequence[Part], kept_from: Mapping[str, tuple[float, float]], now: int
    ) -> list[_Source]:
        """Read files once: what is decided about a line must come from that very reading."""
        sources: list[_Source] = []
        for part, content in self._history.contents(parts):
            if content is None:
                continue
            kept: dict[Order, bytes] = {}
            lines = 0
            for line in lines_of(content):
                lines += 1
                result = from_line(line)
                if result is not None and self._is_needed(result, kept_from, now):
                    kept[order_of(result)] = line
            sources.append(_Source(self._history.path_of(part), len(content), kept, lines))
        return sources

    def _is_at_rest(self, part: Part, now: int) -> bool:
        if part.rotated is None or part.rotated > now - EVERY:
            return False
        modified = io.modified_ms(self._history.path_of(part))
        return modified is not None and modified <= now - EVERY

    def _merge(self, sources: Sequence[_Source], now: int) -> None:
        kept: dict[Order, bytes] = {}
        for source in sources:
            kept.update(source.kept)
        lines = sum(source.lines for source in sources)
        if len(sources) < FILES and 2 * len(kept) >= lines > 0:
            return
        if kept:
            self._write(b"".join(line + b"\n" for line in kept.values()), now)
        for source in sources:
            found = io.status_of(source.path)
            if found is not None and found.st_size == source.size:
                io.remove(source.path)

    def _write(self, content: bytes, now: int) -> None:
        folder = self._history.folder
        private = os.path.join(folder, private_name(MERGED, os.urandom(16).hex()))
        try:
            io.write_new(private, content, self._directory.modes.file)
            io.move(private, os.path.join(folder, rotated_name(MERGED, now)))
        except OSError:
            io.discard(private)
            raise
        io.sync_folder(folder)


def _nth_newest(starts: Collection[int], number: int) -> float:
    """Return from which start on a run is one of so many; equal starts count as one."""
    if len(starts) <= number:
        return -math.inf
    return heapq.nlargest(number, starts)[-1] if number else math.inf
