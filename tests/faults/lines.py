"""What happens between two lines: a trace of chosen files that can do harm at any of them.

Nothing of it is in the traced files: they are what production runs.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

Tracer = Callable[[FrameType, str, Any], Any]


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """The moment before a line is executed for the nth time while a kind of call is served.

    ``doing`` is empty where the line does not serve a certain kind of call of the store.
    """

    file: str
    line: int
    doing: str
    nth: int

    def __str__(self) -> str:
        doing = f" doing {self.doing}" if self.doing else ""
        return f"{Path(self.file).name}:{self.line}{doing} #{self.nth}"


class Lines:
    """Counts the lines of some files that are about to be executed, and says which it is.

    ``reached`` is called in the traced thread and may crash, stop or raise there. Tracing ends
    for a thread in which it raises. ``mine`` says whether the calling thread counts.
    """

    def __init__(
        self,
        files: Collection[str],
        mine: Callable[[], bool],
        reached: Callable[[Point], None],
    ) -> None:
        self._files = frozenset(files)
        self._mine = mine
        self._reached = reached
        self._counts: Counter[tuple[str, int, str]] = Counter()
        self._open = True

    @contextmanager
    def of_new_threads(self) -> Iterator[None]:
        """Trace the threads that are started meanwhile, until the end of it."""
        before = threading.gettrace()
        threading.settrace(self._call)
        try:
            yield
        finally:
            threading.settrace(before)
            self._open = False

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        """Trace the functions that are called meanwhile."""
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, _event: str, _arg: object) -> Tracer | None:
        traced = frame.f_code.co_filename in self._files and self._open and self._mine()
        return self._line if traced else None

    def _line(self, frame: FrameType, event: str, _arg: object) -> Tracer:
        if event == "line" and self._open:
            key = (frame.f_code.co_filename, frame.f_lineno, _doing(frame))
            self._counts[key] += 1
            self._reached(Point(*key, self._counts[key]))
        return self._line


def _doing(frame: FrameType) -> str:
    """Return the kind of call that a function of the store thread serves at the moment."""
    if not frame.f_code.co_filename.endswith(("/store.py", "/calls.py")):
        return ""
    names = frame.f_code.co_varnames
    if "kind" in names:
        return str(frame.f_locals.get("kind", ""))
    call = frame.f_locals.get("call") if "call" in names else frame.f_locals.get("self")
    return str(getattr(call, "kind", ""))
