"""Declaring jobs with all instances of a simulated cluster at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import tzinfo
from typing import Unpack, overload

from leasecron.declarations import H
from leasecron.durations import Duration
from leasecron.options import JobOptionArgs
from leasecron.scheduler import Scheduler
from leasecron.schedules import Schedule


class SharedJobs(ABC):
    """The part of a cluster that declares jobs; each method does what the scheduler's does."""

    @abstractmethod
    def setup(self, function: Callable[[Scheduler], object]) -> None:
        """Call ``function`` with the scheduler of each instance, such as one that declares jobs.

        It is called again for each process that takes the place of another one.
        """

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
        """Declare a job as ``Scheduler.every`` does, with each instance."""

        def declare(given: H) -> H:
            self.setup(lambda scheduler: scheduler.every(name, interval, given, **options))
            return given

        return declare if handler is None else declare(handler)

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
        """Declare a job as ``Scheduler.cron`` does, with each instance."""

        def declare(given: H) -> H:
            self.setup(lambda scheduler: scheduler.cron(name, expression, given, tz=tz, **options))
            return given

        return declare if handler is None else declare(handler)

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
        """Declare a job as ``Scheduler.add`` does, with each instance."""

        def declare(given: H) -> H:
            self.setup(lambda scheduler: scheduler.add(name, schedule, given, **options))
            return given

        return declare if handler is None else declare(handler)
