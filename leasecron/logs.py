"""The one listener that logs: every event becomes a line of the logger ``leasecron``."""

from __future__ import annotations

import logging

from leasecron.clock import Clock
from leasecron.events import (
    Event,
    RunFailed,
    RunInterrupted,
    RunSkipped,
    RunStarted,
    RunSucceeded,
    StoreFailed,
)

logger = logging.getLogger("leasecron")


class UnconfiguredHandler(logging.Handler):
    """Prints errors to stderr in a program that has not set up logging, and nothing less.

    The standard library would print warnings too; a script whose job was merely skipped, or that
    ends while a run is live, must stay silent, but a failed job must not fail unseen.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is None or logging.getLogger().handlers:
            return
        if record.levelno >= logging.ERROR and logger.handlers == [self]:
            logging.lastResort.handle(record)


logger.addHandler(UnconfiguredHandler())

REPEAT_AFTER = 60.0
"""The same fault of the store is logged at most once in this many seconds."""


MOST_FAULTS = 100
"""Different faults of the store that are logged in that time."""


class EventLog:
    """Writes a line for each event; a fault that repeats is counted, not repeated."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._faults: dict[tuple[str, str], tuple[float, int]] = {}
        self._kinds: dict[tuple[str, type], float] = {}  # so that a flood hides no other kind
        self._told_of_flood = float("-inf")

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                logger.info(
                    "run started job=%s slot=%s attempt=%d trigger=%s late=%.3fs",
                    event.job,
                    event.slot.isoformat(),
                    event.attempt,
                    event.trigger,
                    event.lateness,
                )
            case RunSucceeded():
                logger.info(
                    "run succeeded job=%s slot=%s attempt=%d duration=%.3fs",
                    event.job,
                    event.slot.isoformat(),
                    event.result.attempt,
                    event.result.duration,
                )
            case RunFailed():
                self._failed(event)
            case RunInterrupted():
                logger.log(
                    logging.INFO if event.reason == "stop" else logging.WARNING,
                    "run interrupted job=%s slot=%s attempt=%d reason=%s",
                    event.job,
                    event.slot.isoformat(),
                    event.result.attempt,
                    event.reason,
                )
            case RunSkipped():
                # A slot taken by another instance is the ordinary case on all but one of them.
                level = logging.DEBUG if event.reason == "taken" else logging.WARNING
                logger.log(
                    level,
                    "run skipped job=%s slot=%s reason=%s holder=%s",
                    event.job,
                    event.slot.isoformat(),
                    event.reason,
                    event.holder,
                )
            case StoreFailed():
                self._store_failed(event)

    def _is_full(self, now: float) -> bool:
        """Say whether so many faults were logged that one more would be one of a flood."""
        if len(self._faults) < MOST_FAULTS:
            return False
        recent = {f: (at, n) for f, (at, n) in self._faults.items() if now - at < REPEAT_AFTER}
        self._faults = recent
        if len(recent) < MOST_FAULTS:
            return False
        if now - self._told_of_flood >= REPEAT_AFTER:
            self._told_of_flood = now
            logger.error("%d faults of the store were logged; more are not for now", MOST_FAULTS)
        return True

    @staticmethod
    def _failed(event: RunFailed) -> None:
        logger.error(
            "run failed job=%s slot=%s attempt=%d error=%s",
            event.job,
            event.slot.isoformat(),
            event.result.attempt,
            event.result.error,
            exc_info=event.exception,
        )

    def _store_failed(self, event: StoreFailed) -> None:
        fault = (event.operation, repr(event.exception))
        now = self._clock.monotonic()
        last, repeats = self._faults.get(fault, (now - REPEAT_AFTER, 0))
        if now - last < REPEAT_AFTER:
            self._faults[fault] = (last, repeats + 1)
            return
        kind = (event.operation, type(event.exception))
        is_new = now - self._kinds.get(kind, float("-inf")) >= REPEAT_AFTER
        if fault not in self._faults and self._is_full(now) and not is_new:
            return
        self._kinds[kind] = now
        self._faults[fault] = (now, 0)
        logger.error(
            "%s failed job=%s slot=%s error=%r%s",
            event.operation,
            event.job,
            event.slot and event.slot.isoformat(),
            event.exception,
            f" (and {repeats} times more since the last line)" if repeats else "",
        )
