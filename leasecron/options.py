"""The options of a job: what they mean, and how they are laid over the scheduler's defaults.

A job's options are laid over those defaults first; derived values and the checks that look at two
options come after that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from leasecron.durations import Duration
from leasecron.model import WAITING, Overlap, Retention, Trigger
from leasecron.option_values import (
    CENTURY,
    DAY,
    DEFAULTS,
    KEEP_RECORDS,
    OPTION_NAMES,
    UNSET,
    JobOptionArgs,
    Unset,
    check_backoff,
    check_heartbeat,
    check_interval,
    check_jitter,
    check_names,
    parse,
)
from leasecron.schedules import Schedule

__all__ = ["UNSET", "JobOptionArgs", "JobOptions", "lay_over"]


class _Given:
    """Keeps which options were given; no field, since it is no option."""

    __slots__ = ("given",)
    given: frozenset[str]


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class JobOptions(_Given):
    """How a job is run. Every option may be left out; the fields give the values in effect.

    Durations are taken as seconds, a ``timedelta`` or text such as ``'1h30m'``, and are float
    seconds when read. A wrong value raises :class:`ConfigurationError`.

    - ``lease`` (20 s): how long a claim is good for without a heartbeat.
    - ``heartbeat`` (lease / 4): how often it is renewed; at most lease / 2.
    - ``max_late`` (5 min): a slot may start this long after it was due; at most 30 days, which is
      also what None means.
    - ``catch_up`` (max_late, and only for slots since the job was first seen in the store): at
      ``start()`` the latest slot is claimed if it was due less than this ago; 0 is never.
    - ``timeout`` (None: no limit): how long a handler may take.
    - ``jitter`` (None: see :meth:`jitter_for`): a run is fired up to this long after its slot, by
      chance; less than ``max_late`` and less than the interval of the job.
    - ``overlap`` (``'skip'``): whether a slot is skipped while an older run of the job has a lease;
      ``'allow'`` runs both. With ``'queue'`` the newest slot waits until the older run has ended;
      with ``'cancel'`` it does so too, and the older run's signal is set with ``replaced``.
    - ``max_attempts`` (3): the attempts of a run that may end by a lost lease.
    - ``retries`` (0): how often a run that failed is tried again, by whichever instance has it.
    - ``backoff`` (10 s): how long the run waits for its first retry, and twice as long for each
      further one, up to ``backoff_max`` (10 min); by chance up to a quarter less.
    - ``retry_on`` (``Exception``): the exceptions after which a run is tried again, that of its own
      timeout (``TimeoutError``) among them; never :class:`GiveUp`.
    - ``pause_on_failure`` (False): whether the job is paused once a run of it has failed for good.
    - ``keep`` (1000): the history kept, as a count of records (an int) or as a duration (text or a
      ``timedelta``). Without it: 1000 records and all of the last 24 hours.

    ``given`` names the options that were given, here or in the scheduler's defaults.
    """

    lease: float
    heartbeat: float
    max_late: float
    catch_up: float
    timeout: float | None
    jitter: float | None
    overlap: Overlap
    max_attempts: int
    retries: int
    backoff: float
    backoff_max: float
    retry_on: tuple[type[Exception], ...]
    pause_on_failure: bool
    keep: int | float

    def __init__(
        self,
        *,
        lease: Duration | Unset = UNSET,
        heartbeat: Duration | Unset = UNSET,
        max_late: Duration | Unset | None = UNSET,
        catch_up: Duration | Unset = UNSET,
        timeout: Duration | Unset | None = UNSET,
        jitter: Duration | Unset = UNSET,
        overlap: Overlap | Unset = UNSET,
        max_attempts: int | Unset = UNSET,
        retries: int | Unset = UNSET,
        backoff: Duration | Unset = UNSET,
        backoff_max: Duration | Unset = UNSET,
        retry_on: type[Exception] | tuple[type[Exception], ...] | Unset = UNSET,
        pause_on_failure: bool | Unset = UNSET,
        keep: int | str | timedelta | Unset = UNSET,
    ) -> None:
        arguments = {
            "lease": lease,
            "heartbeat": heartbeat,
            "max_late": max_late,
            "catch_up": catch_up,
            "timeout": timeout,
            "jitter": jitter,
            "overlap": overlap,
            "max_attempts": max_attempts,
            "retries": retries,
            "backoff": backoff,
            "backoff_max": backoff_max,
            "retry_on": retry_on,
            "pause_on_failure": pause_on_failure,
            "keep": keep,
        }
        values = parse(arguments, where="")
        check_heartbeat(values, where="")
        check_jitter(values, where="")
        check_backoff(values, where="")
        self._fill(values)

    def _fill(self, given: Mapping[str, Any]) -> None:
        values = {**DEFAULTS, **given}
        values.setdefault("heartbeat", values["lease"] / 4)
        values.setdefault("catch_up", values["max_late"])
        for name in OPTION_NAMES:
            object.__setattr__(self, name, values[name])
        object.__setattr__(self, "given", frozenset(given))

    @property
    def catch_up_since_first_seen(self) -> bool:
        """Whether only slots since the job was first seen in the store are caught up."""
        return "catch_up" not in self.given

    @property
    def needs_control(self) -> list[str]:
        """The options in effect that not every store can serve."""
        return [
            *(["retries"] if self.retries else []),
            *(["overlap"] if self.overlap in WAITING else []),
            *(["pause_on_failure"] if self.pause_on_failure else []),
        ]

    def jitter_for(self, gap: float | None) -> float:
        """Return the width of the jitter of a slot that the next one follows after ``gap`` seconds.

        Without a given jitter it is half a second, or less where the gap or ``max_late`` is short.
        It is always below the gap. None is the gap of a last slot.
        """
        width = self.jitter
        if width is None:
            width = min(0.5, self.max_late / 4)
            return width if gap is None else min(width, gap * 0.05)
        return width if gap is None else min(width, gap * 0.95)

    def retry_delay(self, retry: int, chance: float) -> float:
        """Return the seconds to wait for the ``retry``-th retry, from 1; ``chance`` is of [0, 1).

        The delay doubles, and jitter keeps those that failed together from coming together again:
        https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
        """
        doubled = self.backoff * 2.0 ** min(retry - 1, 60)
        return min(self.backoff_max, doubled) * (1 - chance / 4)

    def lateness_limit(self, trigger: Trigger) -> float:
        """Return how many seconds after its slot a claim with this trigger may still win.

        A single run of a test, for whatever slot, is never late.
        """
        if trigger == "manual":
            return CENTURY
        return max(self.max_late, self.catch_up) if trigger == "catch-up" else self.max_late

    def retention(self, job: str) -> Retention:
        """Return what a store shall keep of ``job``."""
        rows = self.max_late + self.catch_up + self.lease * self.max_attempts + DAY
        if "keep" not in self.given:
            records, age = KEEP_RECORDS, DAY
        elif isinstance(self.keep, int):
            records, age = self.keep, 0.0
        else:
            records, age = 0, self.keep
        return Retention(job=job, runs=min(rows, CENTURY), records=records, age=age)

    def __reduce__(self) -> tuple[Callable[..., JobOptions], tuple[dict[str, Any]]]:
        return _filled, ({name: getattr(self, name) for name in self.given},)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JobOptions):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        named = (f"{name}={getattr(self, name)!r}" for name in OPTION_NAMES if name in self.given)
        return f"JobOptions({', '.join(named)})"

    def _key(self) -> tuple[object, ...]:
        # 60 records and 60.0 seconds are equal numbers and different options.
        values = tuple(getattr(self, name) for name in OPTION_NAMES)
        return (*values, type(self.keep), self.given)


_BACKOFF = {name: DEFAULTS[name] for name in ("backoff", "backoff_max")}


def _filled(given: Mapping[str, Any]) -> JobOptions:
    options = JobOptions()
    options._fill(given)  # noqa: SLF001 - the other constructor; __init__ would parse twice
    return options


def lay_over(
    defaults: JobOptions, arguments: Mapping[str, Any], *, job: str, schedule: Schedule
) -> JobOptions:
    """Return the options of ``job``: what it was given over what the scheduler's defaults were.

    Raises :class:`ConfigurationError` for an unknown name, a wrong value, or two values that do not
    go together.
    """
    where = f"job {job!r}: "
    check_names(arguments, where)
    values = {name: getattr(defaults, name) for name in defaults.given}
    values.update(parse(arguments, where))
    check_heartbeat({"lease": DEFAULTS["lease"], **values}, where)
    check_jitter({"max_late": DEFAULTS["max_late"], **values}, where)
    check_backoff({**_BACKOFF, **values}, where)
    check_interval(values, where, schedule)
    # With the type: 60 records and 60.0 seconds are equal numbers and different options.
    return _shared(tuple((name, value, type(value)) for name, value in sorted(values.items())))


@lru_cache(maxsize=256)
def _shared(given: tuple[tuple[str, Any, type], ...]) -> JobOptions:
    """Return the options; jobs with equal ones have one object, which is larger than a job."""
    return _filled({name: value for name, value, _type in given})
