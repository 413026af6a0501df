"""The values that options may have: their names and defaults, and each check of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, Final, TypedDict, get_args

from leasecron import durations
from leasecron.durations import Duration
from leasecron.errors import ConfigurationError, shown
from leasecron.model import LARGEST_INTEGER, MAX_RECORDS, Overlap
from leasecron.schedules import Every, Schedule

DAY: Final = 86_400.0
MAX_LATE: Final = 30 * DAY
"""The most that ``max_late`` may be; the store keeps a run's row for at least as long."""

CENTURY: Final = 100 * 365 * DAY
"""As good as for ever, and a store can still count in milliseconds what lies this far back."""

KEEP_RECORDS: Final = 1000

MOST_RETRIES: Final = 1000

DEFAULTS: Final[Mapping[str, Any]] = {
    "lease": 20.0,
    "max_late": 300.0,
    "timeout": None,
    "jitter": None,
    "overlap": "skip",
    "max_attempts": 3,
    "retries": 0,
    "backoff": 10.0,
    "backoff_max": 600.0,
    "retry_on": (Exception,),
    "pause_on_failure": False,
    "keep": KEEP_RECORDS,
}


class Unset(Enum):
    """The type of :data:`UNSET`."""

    UNSET = "not given"

    def __repr__(self) -> str:
        return self.name


UNSET: Final = Unset.UNSET
"""Marks an option that was not given. None will not do: ``max_late=None`` means 30 days."""


class JobOptionArgs(TypedDict, total=False):
    """The keywords that :class:`JobOptions` and the declaring methods of a scheduler take."""

    lease: Duration
    heartbeat: Duration
    max_late: Duration | None
    catch_up: Duration
    timeout: Duration | None
    jitter: Duration
    overlap: Overlap
    max_attempts: int
    retries: int
    backoff: Duration
    backoff_max: Duration
    retry_on: type[Exception] | tuple[type[Exception], ...]
    pause_on_failure: bool
    keep: int | str | timedelta


OPTION_NAMES: Final = tuple(JobOptionArgs.__annotations__)


def parse(arguments: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the options that were given, each checked by itself."""
    return {
        name: _parse_one(name, value, where)
        for name, value in arguments.items()
        if value is not UNSET
    }


def _parse_one(name: str, value: Any, where: str) -> Any:
    what = f"{where}option {name}"
    match name:
        case "overlap":
            return _overlap(value, what)
        case "max_attempts":
            return _count(value, what, most=LARGEST_INTEGER)
        case "retries":
            return _count(value, what, least=0, most=MOST_RETRIES)
        case "retry_on":
            return _exceptions(value, what)
        case "pause_on_failure":
            return _flag(value, what)
        case "keep":
            return _keep(value, what)
        case "max_late":
            if value is None:
                return MAX_LATE
            return durations.seconds(value, what=what, maximum=MAX_LATE)
        case "timeout" if value is None:
            return None
        case _:
            return durations.seconds(value, what=what, zero=name in {"catch_up", "jitter"})


def _overlap(value: Any, what: str) -> Overlap:
    rules: tuple[Overlap, ...] = get_args(Overlap)
    for rule in rules:
        if isinstance(value, str) and value == rule:
            return rule
    right = ", ".join(map(repr, rules[:-1]))
    raise ConfigurationError(f"{what} is {shown(value)}: right is {right} or {rules[-1]!r}")


def _count(value: Any, what: str, *, least: int = 1, most: int, or_else: str = "") -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigurationError(
            f"{what} is {shown(value)}: right is {or_else}an int from {least} to {most}"
        )
    return int(value)


def _exceptions(value: Any, what: str) -> tuple[type[Exception], ...]:
    kinds = value if isinstance(value, tuple) else (value,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise ConfigurationError(
                f"{what} is {shown(value)}: right is a class of exceptions, such as OSError, or a"
                " tuple of them"
            )
    return kinds


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{what} is {shown(value)}: right is True or False")
    return value


def _keep(value: Any, what: str) -> int | float:
    if isinstance(value, float):
        raise ConfigurationError(
            f"{what} is {shown(value)}, which could be records or seconds: right is a "
            "count as an int "
            "(1000), or a duration as text ('7d') or a timedelta"
        )
    if isinstance(value, (str, timedelta)):
        return durations.seconds(value, what=what)
    return _count(value, what, most=MAX_RECORDS, or_else="a duration as text or a timedelta, or ")


def check_names(arguments: Mapping[str, Any], where: str) -> None:
    """Refuse a name that is no option."""
    for name in arguments:
        if name not in OPTION_NAMES:
            near = difflib.get_close_matches(name, OPTION_NAMES, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ConfigurationError(
                f"{where}unknown option {shown(name)}{hint}; the options are "
                f"{', '.join(OPTION_NAMES)}"
            )


def check_heartbeat(values: Mapping[str, Any], where: str) -> None:
    """Refuse a heartbeat that one delay would make too late, where both values are known."""
    if "heartbeat" not in values or "lease" not in values:
        return
    heartbeat, lease = values["heartbeat"], values["lease"]
    if heartbeat > lease / 2:
        raise ConfigurationError(
            f"{where}option heartbeat is {heartbeat} s: right is at most half of the lease "
            f"({lease} s), so {lease / 2} s"
        )


def check_jitter(values: Mapping[str, Any], where: str) -> None:
    """Refuse a jitter that reaches ``max_late``, where both values are known."""
    if "jitter" not in values or "max_late" not in values:
        return
    jitter, max_late = values["jitter"], values["max_late"]
    if jitter >= max_late:
        raise ConfigurationError(
            f"{where}option jitter is {jitter} s: right is less than max_late ({max_late} s), "
            "or runs would be late by it alone"
        )


def check_backoff(values: Mapping[str, Any], where: str) -> None:
    """Refuse a backoff above its maximum, where both values are known."""
    if "backoff" not in values or "backoff_max" not in values:
        return
    backoff, most = values["backoff"], values["backoff_max"]
    if backoff > most:
        raise ConfigurationError(
            f"{where}option backoff is {backoff} s: right is at most backoff_max ({most} s)"
        )


def check_interval(values: Mapping[str, Any], where: str, schedule: Schedule) -> None:
    """Refuse a given jitter that reaches the next slot of a job with an interval."""
    if not isinstance(schedule, Every) or "jitter" not in values:
        return
    jitter, interval = values["jitter"], schedule.interval
    if jitter >= interval:
        raise ConfigurationError(
            f"{where}option jitter is {jitter} s: right is less than the job's interval "
            f"({interval} s)"
        )
