"""Declaring jobs: every(), cron(), add() and what they have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from leasecron.advice import on_claims, on_leases, on_retries
from leasecron.backends.base import Backend
from leasecron.backends.plain import check_control
from leasecron.clock import Clock
from leasecron.cron import Cron
from leasecron.durations import Duration
from leasecron.errors import ConfigurationError, shown
from leasecron.jobs import DeclaredJob, Job, JobsView, check_name, declare
from leasecron.lifecycle import Lifecycle
from leasecron.logger import logger
from leasecron.model import from_seconds
from leasecron.options import JobOptionArgs, JobOptions
from leasecron.schedules import Every, Once, Schedule, ask_next, instant_of, shared
from leasecron.zones import find_zone

H = TypeVar("H", bound=Callable[..., object])


class JobMethods(ABC):
    """The ways to declare a job, for whatever takes declarations."""

    _tz: str | tzinfo
    """The time zone of ``cron`` jobs that name none."""

    @abstractmethod
    def _now(self) -> datetime:
        """Return the instant from which durations count."""

    @abstractmethod
    def _declare(
        self, name: str, schedule: Schedule, handler: H | None, options: Mapping[str, Any]
    ) -> H | Callable[[H], H]:
        """Declare the job; return its handler, or a decorator where none is given."""

    @overload
    def every(
        self, name: str, interval: Duration, handler: H, **options: Unpack[JobOptionArgs]
    ) -> H: ...

    @overload
    def every(
        self, name: str, interval: Duration, handler: None = None, **options: Unpack[JobOptionArgs]
    ) -> Callable[[H], H]: ...

    def every(
        self,
        name: str,
        interval: Duration,
        handler: H | None = None,
        **options: Unpack[JobOptionArgs],
    ) -> H | Callable[[H], H]:
        """Run ``handler`` at every multiple of ``interval`` since the Unix epoch.

        Returns the handler, or a decorator where none is given. The handler gets a
        :class:`RunContext` if it has exactly one required parameter, and nothing otherwise. Raises
        :class:`ConfigurationError`.
        """
        check_name(name)
        try:
            schedule = shared(Every(interval))
        except ConfigurationError as error:
            raise ConfigurationError(f"job {shown(name)}: {error}") from error
        return self._declare(name, schedule, handler, options)

    @overload
    def cron(
        self,
        name: str,
        expression: str,
        handler: H,
        *,
        tz: str | tzinfo | None = None,
        **options: Unpack[JobOptionArgs],
    ) -> H: ...

    @overload
    def cron(
        self,
        name: str,
        expression: str,
        handler: None = None,
        *,
        tz: str | tzinfo | None = None,
        **options: Unpack[JobOptionArgs],
    ) -> Callable[[H], H]: ...

    def cron(
        self,
        name: str,
        expression: str,
        handler: H | None = None,
        *,
        tz: str | tzinfo | None = None,
        **options: Unpack[JobOptionArgs],
    ) -> H | Callable[[H], H]:
        """Run ``handler`` when the wall clock of ``tz`` matches a cron expression.

        See :class:`Cron` for the syntax and for what happens when clocks change; otherwise as
        :meth:`every`.
        """
        check_name(name)
        try:
            schedule = shared(Cron(expression, self._tz if tz is None else tz))
        except ConfigurationError as error:
            raise ConfigurationError(f"job {shown(name)}: {error}") from error
        return self._declare(name, schedule, handler, options)

    @overload
    def at(
        self, name: str, when: datetime | Duration, handler: H, **options: Unpack[JobOptionArgs]
    ) -> H: ...

    @overload
    def at(
        self,
        name: str,
        when: datetime | Duration,
        handler: None = None,
        **options: Unpack[JobOptionArgs],
    ) -> Callable[[H], H]: ...

    def at(
        self,
        name: str,
        when: datetime | Duration,
        handler: H | None = None,
        **options: Unpack[JobOptionArgs],
    ) -> H | Callable[[H], H]:
        """Run ``handler`` once, in one instance, at an aware datetime or so long from now.

        The first declaration of the name fixes the instant in the store, and all others adopt it:
        four workers that each say "in an hour" make one run. An instant that passed while nobody
        declared the job is caught up as any slot is, by the option ``catch_up``. Declared again
        after the run, under the same name, it does nothing.

        It lives as long as some instance declares it, and is no task queue: the store knows its
        instant and not its handler. Otherwise as :meth:`every`. Raises :class:`ConfigurationError`
        on a store that knows only who won a slot.
        """
        check_name(name)
        instant = instant_of(when, self._now(), what=f"job {shown(name)}: when")
        return self._declare(name, Once(instant), handler, options)

    @overload
    def add(
        self, name: str, schedule: Schedule, handler: H, **options: Unpack[JobOptionArgs]
    ) -> H: ...

    @overload
    def add(
        self, name: str, schedule: Schedule, handler: None = None, **options: Unpack[JobOptionArgs]
    ) -> Callable[[H], H]: ...

    def add(
        self,
        name: str,
        schedule: Schedule,
        handler: H | None = None,
        **options: Unpack[JobOptionArgs],
    ) -> H | Callable[[H], H]:
        """Run ``handler`` at the slots of any :class:`Schedule`; otherwise as :meth:`every`."""
        check_name(name)
        return self._declare(name, schedule, handler, options)


class Declarations(JobMethods):
    """The part of a scheduler that declares jobs; before ``start()`` and after it."""

    def __init__(
        self,
        clock: Clock,
        defaults: JobOptions,
        tz: str | tzinfo,
        jobs: dict[str, DeclaredJob],
        lifecycle: Lifecycle,
        backend: Backend,
    ) -> None:
        find_zone(tz)
        self._clock = clock
        self._backend = backend
        self._defaults = defaults
        self._tz = tz
        self._jobs = jobs
        self._lifecycle = lifecycle
        if backend.kind == "claim-only":
            self._warn(on_claims("defaults", defaults, defaults.given, backend.description))

    def remove(self, name: str) -> None:
        """Forget a job; a run of it that is live goes on to its end.

        Raises :class:`ConfigurationError` where there is no such job.
        """
        job = self.declared(name)
        self._jobs.pop(name, None)
        job.removed = True
        self._lifecycle.remove(job)

    @property
    def jobs(self) -> Mapping[str, Job]:
        """The declared jobs by name, as they are now; read-only."""
        return JobsView(self._jobs, self._next_slot)

    def declared(self, name: str) -> DeclaredJob:
        """Return the declaration of a job; for test helpers and tools.

        Raises :class:`ConfigurationError` where there is no such job.
        """
        job = self._jobs.get(name) if isinstance(name, str) else None
        if job is None:
            names = ", ".join(map(repr, self._jobs)) or "none"
            raise ConfigurationError(f"there is no job {shown(name)}; declared are {names}")
        return job

    def _now(self) -> datetime:
        return from_seconds(self._clock.wall())

    def _declare(
        self, name: str, schedule: Schedule, handler: H | None, options: Mapping[str, Any]
    ) -> H | Callable[[H], H]:
        if name in self._jobs:
            raise ConfigurationError(f"job {shown(name)} is declared already; names are unique")
        if handler is None:
            return partial(self._take, name, schedule, options)
        return self._take(name, schedule, options, handler)

    def _take(self, name: str, schedule: Schedule, options: Mapping[str, Any], handler: H) -> H:
        job = declare(name, schedule, handler, options, self._defaults)
        if isinstance(schedule, Once):
            check_control(self._backend, f"job {shown(name)}: a job that runs once")
        for option in job.options.needs_control:
            value = shown(getattr(job.options, option))
            check_control(self._backend, f"job {shown(name)}: option {option}={value}")
        if self._jobs.setdefault(name, job) is not job:
            raise ConfigurationError(f"job {shown(name)} is declared already; names are unique")
        if self._backend.kind == "claim-only":
            who = f"job {shown(name)}"
            self._warn(on_claims(who, job.options, options, self._backend.description))
        else:
            self._warn(on_leases(job))
            self._warn(on_retries(job, options))
        self._lifecycle.add(job)
        return handler

    @staticmethod
    def _warn(lines: Iterable[str]) -> None:
        for line in lines:
            logger.warning("%s", line)

    def _next_slot(self, job: DeclaredJob) -> datetime | None:
        armed = self._lifecycle.next_slot(job)
        if armed is not None:
            return armed
        try:
            return ask_next(job.schedule, from_seconds(self._clock.wall()))
        except Exception:  # noqa: BLE001 - arming reports a broken schedule
            return None
