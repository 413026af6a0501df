"""The way of one simulated process to its store: it can be cut, be slow, and lose answers."""

from __future__ import annotations

import contextlib
import queue
from functools import partial
from typing import Any

from leasecron.backends.base import Backend
from leasecron.backends.plain import has_control
from leasecron.clock import Clock
from leasecron.errors import BackendUnavailable
from leasecron.testing.witness import Witness

_ASKED = {"claim", "heartbeat", "finish", "release", "unfinished", "declare", "prune"}
_ASKED |= {"save_results", "history"}
_ASKED |= {"retry", "add_runs", "withdraw", "asked_for", "run_state", "fix"}
_ASKED |= {"pause", "resume", "pauses", "jobs"}
_ASKED |= {"add_backfill", "backfills", "backfill", "succeeded", "advance", "cancel_backfill"}


class Line:
    """A backend as one process sees it.

    Half of a call's ``delay`` (in seconds) passes before the store hears of it, and half before its
    answer is back. While the line is ``cut`` calls fail: those that have reached the store by then
    are done all the same, and only their answer is lost. ``witness`` hears of those.
    """

    def __init__(self, backend: Backend, clock: Clock, witness: Witness) -> None:
        self.cut = False
        self.delay = 0.0
        self._backend = backend
        self._clock = clock
        self._witness = witness
        self._opened = 0

    def open(self, clock: Clock | None = None) -> None:
        """Open the store by way of this line."""
        self._travel()
        self._backend.open(clock)
        if has_control(self._backend):
            for job in self._backend.jobs():  # type: ignore[attr-defined]
                if job.paused_at is not None:  # from before: the store may have had another life
                    self._witness.paused(job.name)
        self._travel()
        self._opened += 1

    def close(self) -> None:
        """Undo one ``open``."""
        if self._opened:
            self._opened -= 1
            self._backend.close()

    def break_off(self) -> None:
        """Close what is open, as the kernel does for a process that was killed."""
        while self._opened:
            self.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        return partial(self._ask, name) if name in _ASKED else found

    def _ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        self._travel()
        call = getattr(self._backend, name)
        if self._backend.kind != "lease":
            answer = call(*arguments, **options)
            self._travel()
            return answer
        asked = self._witness.asks(name, arguments)
        answer = call(*arguments, **options)
        self._witness.hears(name, arguments, answer, asked)
        self._travel()
        self._witness.arrives(name, arguments, answer)
        return answer

    def _travel(self) -> None:
        if self.delay:
            with contextlib.suppress(queue.Empty):
                self._clock.waker().get(self.delay / 2)
        if self.cut:
            raise BackendUnavailable(f"{self._backend.description} cannot be reached (simulated)")
