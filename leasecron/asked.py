"""A run that was asked for, as whoever asked for it sees it."""

from __future__ import annotations

import queue
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime

from leasecron.clock import Clock
from leasecron.errors import BackendUnavailable, SchedulerStateError, shown
from leasecron.model import RunResult, RunState

KeptOpen = Callable[[], AbstractContextManager[None]]
"""Keeps the store open while it is asked again and again."""

LOOK_EVERY = 0.25
"""Seconds after which the store is asked again how something stands."""

_RECORD_WITHIN = 2.0  # seconds after the end: it is written right after it, or never


class Run:
    """A run that was asked for: one job at one instant, whichever instance has it."""

    def __init__(
        self,
        job: str,
        slot: datetime,
        clock: Clock,
        look: Callable[[], RunState | None],
        kept_open: KeptOpen,
    ) -> None:
        self.job = job
        self.slot = slot
        self._clock = clock
        self._look = look
        self._kept_open = kept_open

    def wait(self, timeout: float | None = None) -> RunResult | None:
        """Wait up to ``timeout`` seconds, or for ever; return how the run ended, or None.

        What is returned is the record of its last attempt. While the store is away it goes on
        waiting. Raises :class:`SchedulerStateError` where the store no longer knows the run.
        """
        give_up = None if timeout is None else self._clock.monotonic() + timeout
        with self._kept_open():
            return self._wait_until(give_up)

    def _wait_until(self, give_up: float | None) -> RunResult | None:
        recorded_by: float | None = None
        while True:
            state = self._state()
            if state is not None and state.result is not None and state.has_ended:
                return state.result
            now = self._clock.monotonic()
            if state is not None and state.has_ended:
                recorded_by = recorded_by or now + _RECORD_WITHIN
                if now >= recorded_by:
                    return state.without_record()
            if give_up is not None and now >= give_up:
                return None
            left = LOOK_EVERY if give_up is None else min(LOOK_EVERY, give_up - now)
            sleep(self._clock, left)

    def _state(self) -> RunState | None:
        try:
            state = self._look()
        except BackendUnavailable:
            return None
        if state is None:
            raise SchedulerStateError(
                f"the store knows no run of job {shown(self.job)} at {self.slot.isoformat()}: it"
                " was taken back, or removed with the history"
            )
        return state

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return (self.job, self.slot) == (other.job, other.slot)

    def __hash__(self) -> int:
        return hash((self.job, self.slot))

    def __repr__(self) -> str:
        return f"Run(job={self.job!r}, slot={self.slot.isoformat()!r})"


def sleep(clock: Clock, seconds: float) -> None:
    """Sleep so many seconds of the clock."""
    try:
        clock.waker().get(max(0.0, seconds))
    except queue.Empty:
        return
