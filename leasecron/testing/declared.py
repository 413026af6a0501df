"""What is the same for all instances of a simulated cluster: their jobs and who listens to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, overload

from leasecron.declarations import H, JobMethods
from leasecron.errors import ConfigurationError, shown
from leasecron.scheduler import Off, Scheduler
from leasecron.schedules import Schedule
from leasecron.testing.fake_clock import FakeClock
from leasecron.testing.instance import Instance


class Declared(JobMethods):
    """The part of a cluster that takes declarations, for its instances and those that come."""

    _instances: Sequence[Instance]

    def __init__(self, clock: FakeClock, tz: str | tzinfo) -> None:
        self.clock = clock
        self._tz = tz
        self._setups: list[Callable[[Scheduler], object]] = []
        self._declared: dict[str, datetime] = {}  # and since when

    def setup(self, function: Callable[[Scheduler], object]) -> None:
        """Call ``function`` with the scheduler of each instance, and of those that come later.

        An application that declares its jobs in such a function is tested with the same one.
        """
        if not callable(function):
            raise ConfigurationError(
                f"setup: {shown(function)} is wrong; right is a function that takes a scheduler"
            )
        for instance in self._instances:
            function(instance.scheduler)
        self._setups.append(function)
        for name in self._instances[0].scheduler.jobs:
            self._declared.setdefault(name, self.clock.now())

    @overload
    def on(self, event: str, listener: Callable[[Any], object]) -> Off: ...
    @overload
    def on(self, event: str, listener: None = None) -> Callable[[H], H]: ...

    def on(
        self, event: str, listener: Callable[[Any], object] | None = None
    ) -> Off | Callable[[H], H]:
        """Call ``listener`` for events of every instance, as ``Scheduler.on`` does for one's."""
        if listener is None:
            return partial(self._listen, event)
        listening = True

        def heard(happened: Any) -> None:
            if listening:
                listener(happened)

        def off() -> None:
            nonlocal listening
            listening = False

        self._listen(event, heard)
        return off

    def _now(self) -> datetime:
        return self.clock.now()

    def _declare(
        self, name: str, schedule: Schedule, handler: H | None, options: Mapping[str, Any]
    ) -> H | Callable[[H], H]:
        def declare(given: H) -> H:
            self.setup(lambda scheduler: scheduler.add(name, schedule, given, **options))
            return given

        return declare if handler is None else declare(handler)

    def _listen(self, event: str, listener: H) -> H:
        self.setup(lambda scheduler: scheduler.on(event, listener))  # type: ignore[call-overload]
        return listener

    def _set_up(self, instance: Instance) -> None:
        for function in self._setups:
            function(instance.scheduler)
