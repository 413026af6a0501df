"""What happens between two lines: a trace of chosen files that can do harm at any of them.

Nothing of it is in the traced files: they are what production runs.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

Tracer = Callable[[FrameType, str, Any], Any]

_PART = re.compile(r"\.<(locals|listcomp|genexpr|dictcomp|setcomp)>")


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """The moment before a line is executed for the nth time while a kind of call is served.

    ``function`` is such as ``Runner.stop``, or ``Runner.stop.<lambda>`` for what is called later.
    ``doing`` is empty where the line does not serve a certain kind of call of the store.
    """

    file: str
    line: int
    function: str
    doing: str
    nth: int

    def __str__(self) -> str:
        doing = f" doing {self.doing}" if self.doing else ""
        return f"{Path(self.file).name}:{self.line} {self.function}{doing} #{self.nth}"


class Lines:
    """Counts the lines of some files that are about to be executed, and says which it is.

    ``reached`` is called in the traced thread and may crash, stop or raise there. Tracing ends
    for a thread in which it raises. ``mine`` says whether the calling thread counts. With ``only``
    no other line is looked at, which is faster.
    """

    def __init__(
        self,
        files: Collection[str],
        mine: Callable[[], bool],
        reached: Callable[[Point], None],
        only: int | None = None,
    ) -> None:
        self._files = frozenset(files)
        self._mine = mine
        self._reached = reached
        self._only = only
        self._counts: Counter[tuple[str, int, str, str]] = Counter()
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
            self.end()

    @contextmanager
    def of_this_thread(self) -> Iterator[None]:
        """Trace the functions that are called meanwhile."""
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(before)

    def end(self) -> None:
        """Trace nothing more."""
        self._open = False

    def _call(self, frame: FrameType, _event: str, _arg: object) -> Tracer | None:
        if not self._open:
            sys.settrace(None)
            return None
        code = frame.f_code
        if code.co_filename not in self._files or not self._mine():
            return None
        return self._line if self._only is None or self._only in _lines_of(code) else None

    def _line(self, frame: FrameType, event: str, _arg: object) -> Tracer:
        if event == "line" and self._open and self._only in (None, frame.f_lineno):
            code = frame.f_code
            function = _PART.sub("", code.co_qualname)
            key = (code.co_filename, frame.f_lineno, function, _doing(frame))
            self._counts[key] += 1
            self._reached(Point(*key, self._counts[key]))
        return self._line


@cache
def _lines_of(code: CodeType) -> frozenset[int]:
    return frozenset(line for *_, line in code.co_lines() if line)


def _doing(frame: FrameType) -> str:
    """Return the kind of call that a function of the store thread serves at the moment."""
    if not frame.f_code.co_filename.endswith(("/store.py", "/passes.py", "/calls.py")):
        return ""
    names = frame.f_code.co_varnames
    if "kind" in names:
        return str(frame.f_locals.get("kind", ""))
    call = frame.f_locals.get("call") if "call" in names else frame.f_locals.get("self")
    return str(getattr(call, "kind", ""))
