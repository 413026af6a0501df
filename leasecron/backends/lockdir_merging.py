"""Keeping the history of a lock directory small: many files become one, of the records to keep.

The new file is complete before the old ones go, so that a crash leaves records twice, which reading
drops, and none is lost. Only files that were rotated for a while take part: whoever was still
writing to one has noticed by then.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leasecron.backends import lockdir_io as io
from leasecron.backends.lockdir_files import BARRED
from leasecron.backends.lockdir_history import History, Part, lines_of, rotated_name
from leasecron.backends.lockdir_marker import Directory
from leasecron.backends.lockdir_names import MERGED, private_name
from leasecron.backends.lockdir_records import Order, from_line, order_of
from leasecron.model import MAX_RECORDS, Retention, RunResult, to_ms

EVERY = 10 * 60 * 1000
"""Milliseconds: between two looks at the whole history, and before a file is merged."""

FILES = 16
"""So many files are merged, whatever is in them."""

MOST = 8_000_000
"""Bytes of history that are read at once for this."""

_DAY = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class _Source:
    """A file that may be merged, as it was read: its lines, and the records in them."""

    path: str
    content: bytes
    records: tuple[tuple[Order, bytes], ...]
    lines: int


class Merging:
    """Merges the history of one open lock directory."""

    def __init__(self, directory: Directory, history: History, now: int) -> None:
        self._directory = directory
        self._history = history
        self._retentions: dict[str, Retention] = {}
        self._last = now
        self._place = ""

    def merge(self, retentions: Sequence[Retention], now: int) -> None:
        """Merge what is worth it; looks at the history at most every ten minutes.

        A job of which no retention was ever given keeps all.
        """
        self._retentions.update((retention.job, retention) for retention in retentions)
        if self._last <= now < self._last + EVERY:
            return
        self._rotate_unused(now)
        resting = [part for part in self._history.parts() if self._is_at_rest(part, now)]
        sources, records = self._read(self._next(resting))
        self._merge(sources, _needed(records, self._retentions, now), now)
        self._last = now

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

    def _next(self, resting: Sequence[Part]) -> list[Part]:
        """Return the files that come next, in turn, and not too much: claims wait meanwhile."""
        later = [part for part in resting if part.name > self._place]
        chosen: list[Part] = []
        left = MOST
        for part in sorted(later or resting, key=lambda part: part.name):
            found = io.status_of(self._history.path_of(part))
            size = 0 if found is None else found.st_size
            if chosen and size > left:
                break
            chosen.append(part)
            left -= size
        self._place = chosen[-1].name if chosen else ""
        return chosen

    def _read(self, parts: Sequence[Part]) -> tuple[list[_Source], dict[Order, RunResult]]:
        """Read files once: what is decided about a line must come from that very reading."""
        sources: list[_Source] = []
        records: dict[Order, RunResult] = {}
        for part, content in self._history.contents(parts):
            if content is None:
                continue
            found: list[tuple[Order, bytes]] = []
            lines = 0
            for line in lines_of(content):
                lines += 1
                result = from_line(line)
                if result is not None:
                    order = order_of(result)
                    records.setdefault(order, result)
                    found.append((order, line))
            sources.append(_Source(self._history.path_of(part), content, tuple(found), lines))
        return sources, records

    def _is_at_rest(self, part: Part, now: int) -> bool:
        if part.rotated is None or part.rotated > now - EVERY:
            return False
        modified = io.modified_ms(self._history.path_of(part))
        return modified is not None and modified <= now - EVERY

    def _merge(self, sources: Sequence[_Source], needed: set[Order], now: int) -> None:
        kept: dict[Order, bytes] = {}
        for source in sources:
            for order, line in source.records:
                if order in needed:
                    kept.setdefault(order, line)
        lines = sum(source.lines for source in sources)
        if len(sources) < FILES and 2 * len(kept) >= lines > 0:
            return
        if kept:
            self._write(b"".join(line + b"\n" for line in kept.values()), now)
        for source in sources:
            found = io.status_of(source.path)
            if found is not None and found.st_size == len(source.content):
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


def _needed(
    records: Mapping[Order, RunResult], retentions: Mapping[str, Retention], now: int
) -> set[Order]:
    """Return which records have to stay: by number or by age, and never more than the limit."""
    jobs: defaultdict[str, list[Order]] = defaultdict(list)
    for order, result in records.items():
        jobs[result.job].append(order)
    needed: set[Order] = set()
    for job, orders in jobs.items():
        retention = retentions.get(job)
        if retention is None:
            needed.update(orders)
            continue
        orders.sort(reverse=True)
        oldest = now - retention.age * 1000
        needed.update(orders[: min(retention.records, MAX_RECORDS)])
        needed.update(o for o in orders[:MAX_RECORDS] if to_ms(records[o].ended_at) >= oldest)
    return needed
