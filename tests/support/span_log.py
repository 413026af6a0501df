"""The log that handlers write their own begin and end to; leasecron does not touch it."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasecron import RunAborted, RunContext
from leasecron.model import to_ms


@dataclass(frozen=True, slots=True)
class Span:
    """One call of a handler; without an end where its process died."""

    job: str
    slot: int
    attempt: int
    fence: int
    pid: int
    began: float
    ended: float | None
    how: str | None


@dataclass(frozen=True, slots=True)
class Life:
    """A process from its scheduler's start until it was told to end, or was last heard of."""

    pid: int
    up: float
    until: float
    died: bool


class SpanLog:
    """Each line is one ``write`` with O_APPEND, so those of several processes never mix.

    All times are seconds of the wall clock, by which slots are due.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, what: str, **facts: object) -> None:
        """Add a line; may be called in a process that ends."""
        line = {"what": what, "pid": os.getpid(), "at": time.time()}
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(file, (json.dumps(line | facts) + "\n").encode())
        finally:
            os.close(file)

    @contextmanager
    def span(self, ctx: RunContext) -> Iterator[None]:
        """Note the begin and the end of a handler; for handlers."""
        self.write("begin", job=ctx.job, slot=to_ms(ctx.slot), attempt=ctx.attempt, fence=ctx.fence)
        how = "raised"
        try:
            yield
            how = "returned"
        except RunAborted:
            how = "aborted"
            raise
        finally:
            self.write("end", fence=ctx.fence, how=how)

    def spans(self) -> list[Span]:
        """Return the calls of handlers in the order of their beginnings."""
        ends = {line["fence"]: line for line in self._lines("end")}
        found = [
            Span(
                begin["job"],
                begin["slot"],
                begin["attempt"],
                begin["fence"],
                begin["pid"],
                begin["at"],
                ends.get(begin["fence"], {}).get("at"),
                ends.get(begin["fence"], {}).get("how"),
            )
            for begin in self._lines("begin")
        ]
        return sorted(found, key=lambda span: span.began)

    def lives(self) -> list[Life]:
        """Return the processes that were instances."""
        heard = {line["pid"]: line["at"] for line in self._lines()}
        told = {line["pid"]: line["at"] for line in self._lines("told")}
        return [
            Life(pid, up["at"], told.get(pid, heard[pid]), died=pid not in told)
            for up in self._lines("up")
            for pid in [up["pid"]]
        ]

    def _lines(self, what: str | None = None) -> list[dict[str, Any]]:
        # A line that is being written may be seen in part; it is the last one.
        whole = self.path.read_text().rpartition("\n")[0] if self.path.exists() else ""
        lines = [json.loads(text) for text in whole.splitlines()]
        return [line for line in lines if what in (None, line["what"])]
