"""A store that notes what its calls cost, for schedulers and for direct use alike."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any

from leasecron.backends.base import Backend


@dataclass(slots=True)
class Spent:
    """The calls of one method: how many, on how many items, and the seconds of their thread."""

    calls: int = 0
    items: int = 0
    processor: float = 0.0
    wall: float = 0.0


class Watched:
    """Passes every call on to ``backend``; ``spent`` says by method what the calls took.

    A call that waits for the disk or for a lock costs wall time and no processor time.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.spent: defaultdict[str, Spent] = defaultdict(Spent)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        return partial(self._call, name, found) if callable(found) else found

    def _call(
        self, name: str, function: Callable[..., Any], *arguments: Any, **options: Any
    ) -> Any:
        wall, processor = time.perf_counter(), time.thread_time()
        try:
            return function(*arguments, **options)
        finally:
            spent = self.spent[name]
            spent.processor += time.thread_time() - processor
            spent.wall += time.perf_counter() - wall
            spent.calls += 1
            if arguments and isinstance(arguments[0], Sized):
                spent.items += len(arguments[0])
