"""The one listener that logs: every event becomes a line of the logger ``leasecron``."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

from leasecron.clock import Clock
from leasecron.errors import MOST, printable, shown
from leasecron.events import (
    Event,
    EventName,
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


class Printable(logging.Filter):
    """Lets no text from outside become a line of its own in a log, or be obeyed by a terminal.

    The name of a job or the text of an error may hold anything. A message is one printable line,
    and a traceback whose exceptions say more than that has its lines indented below its headings.
    A record that is harmless stays as it is, and the exception itself always does.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            said = record.getMessage()
        except Exception:  # noqa: BLE001 - the repr of a listener is code of the user's
            said = f"{record.msg} (what this is about cannot be shown)"
            record.msg, record.args = said, ()
        if (line := printable(said, _MOST_OF_MESSAGE)) != said:
            record.msg, record.args = line, ()
        exception = record.exc_info[1] if record.exc_info else None
        if exception is not None and not record.exc_text:
            record.exc_text = _unless_harmless(exception)
        return True


logger.addFilter(Printable())

_MOST_OF_MESSAGE = 2 * MOST
"""More than one error says at most: what stands beside it, such as a name, is not cut off."""

_MOST_OF_TRACEBACK = 50_000
_AS_IT_IS = frozenset({"", "Traceback (most recent call last):"})

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

    def wants(self, name: EventName) -> bool:
        """Say whether such an event may make a line: what every run sends does at INFO alone."""
        return name not in ("start", "success") or logger.isEnabledFor(logging.INFO)

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted():
                logger.info(
                    "run started job=%s slot=%s attempt=%d%s trigger=%s late=%.3fs",
                    event.job,
                    event.slot.isoformat(),
                    event.attempt,
                    _retry(event.retry),
                    event.trigger,
                    event.lateness,
                )
            case RunSucceeded():
                logger.info(
                    "run succeeded job=%s slot=%s attempt=%d%s duration=%.3fs",
                    event.job,
                    event.slot.isoformat(),
                    event.result.attempt,
                    _retry(event.result.retries),
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
                    "run skipped job=%s slot=%s reason=%s%s",
                    event.job,
                    event.slot.isoformat(),
                    event.reason,
                    f" holder={event.holder}" if event.holder is not None else "",
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
        logger.log(
            logging.WARNING if event.will_retry else logging.ERROR,
            "run failed%s job=%s slot=%s attempt=%d%s error=%s",
            " and will be tried again" if event.will_retry else "",
            event.job,
            event.slot.isoformat(),
            event.result.attempt,
            _retry(event.result.retries),
            event.result.error,
            exc_info=event.exception,
        )

    def _store_failed(self, event: StoreFailed) -> None:
        error = shown(event.exception, MOST)
        fault = (event.operation, error)
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
            "%s failed job=%s slot=%s error=%s%s",
            event.operation,
            event.job,
            event.slot and event.slot.isoformat(),
            error,
            f" (and {repeats} times more since the last line)" if repeats else "",
        )


def _retry(number: int) -> str:
    """Say which retry it is; nothing of a first try, as most are."""
    return f" retry={number}" if number else ""


def _unless_harmless(exception: BaseException) -> str | None:
    """Return the traceback as text that forges no line; None where the usual one does not either.

    A formatter takes over a text that is in the record already.
    """
    try:
        told = traceback.TracebackException.from_exception(exception)
        if all(map(_is_one_line, _chain(told))):
            return None
        text = "".join(told.format())
    except Exception:  # noqa: BLE001 - code of the user's: what it raises must not hide the failure
        return f"{shown(type(exception))} (its traceback cannot be had)"
    lines = text[:_MOST_OF_TRACEBACK].splitlines()
    if len(text) > _MOST_OF_TRACEBACK:
        lines.append("... (cut)")
    # A line of the user's source may have tabs, which harm nobody.
    return "\n".join(
        line if line in _AS_IT_IS else f"  {printable(line.expandtabs())}" for line in lines
    )


def _is_one_line(told: traceback.TracebackException) -> bool:
    text = "".join(told.format_exception_only()).removesuffix("\n")
    return printable(text) == text


def _chain(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """Return what is told of an exception, of its causes, and of those in a group."""
    left = [told]
    while left:
        one = left.pop()
        yield one
        left += filter(None, (one.__cause__, one.__context__, *(one.exceptions or ())))
