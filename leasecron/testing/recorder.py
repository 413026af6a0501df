"""Recording events, and waiting for one."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar, overload

from leasecron.clock import Clock, SystemClock, Waker
from leasecron.events import Event

E = TypeVar("E", bound=Event)


class Source(Protocol):
    """Where events come from: a scheduler, or a simulated cluster of them."""

    @property
    def clock(self) -> Clock:
        """The clock to wait by."""

    def on(self, event: Literal["*"], listener: Callable[[Any], object]) -> Callable[[], None]:
        """Call ``listener`` for every event; the answer ends that."""


class EventRecorder:
    """A listener that keeps every event in ``events``, in order.

    ``EventRecorder(scheduler)`` listens to all events of a scheduler, or of a :class:`Cluster`, and
    waits by its clock, so with a :class:`FakeClock` simulated time flows while it waits. Without
    one it is a listener to be given to ``scheduler.on("*", recorder)``, and waits in real time.
    """

    def __init__(self, scheduler: Source | None = None) -> None:
        self.events: list[Event] = []
        self._clock = SystemClock() if scheduler is None else scheduler.clock
        self._waiting: list[Waker] = []
        self._answered: set[int] = set()
        self._off: Callable[[], None] | None = None
        if scheduler is not None:
            self._off = scheduler.on("*", self)

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        for waker in [*self._waiting]:
            waker.put(None)

    @overload
    def of(self, event: str) -> list[Event]: ...
    @overload
    def of(self, event: type[E]) -> list[E]: ...

    def of(self, event: str | type[Any]) -> list[Any]:
        """Return the events of one name, such as ``"success"``, or of one class."""
        return [seen for seen in [*self.events] if _matches(seen, event)]

    @overload
    def wait_for(self, event: str, timeout: float = 5.0) -> Event: ...
    @overload
    def wait_for(self, event: type[E], timeout: float = 5.0) -> E: ...

    def wait_for(self, event: str | type[Any], timeout: float = 5.0) -> Any:
        """Return the next event of one name or class, each only once; past ones count.

        Raises TimeoutError after ``timeout`` seconds; its message lists what was seen instead.
        """
        deadline = self._clock.monotonic() + timeout
        waker = self._clock.waker()
        self._waiting.append(waker)
        try:
            while True:
                for number, seen in enumerate([*self.events]):
                    if number not in self._answered and _matches(seen, event):
                        self._answered.add(number)
                        return seen
                waker.get(max(0.0, deadline - self._clock.monotonic()))
        except queue.Empty:
            raise TimeoutError(
                f"no {event!r} within {timeout:g} s; seen were"
                f" {[f'{seen.name} {seen.job}' for seen in self.events]}"
            ) from None
        finally:
            self._waiting.remove(waker)

    def close(self) -> None:
        """Stop listening."""
        if self._off is not None:
            self._off()


def _matches(seen: Event, event: str | type[Any]) -> bool:
    return seen.name == event if isinstance(event, str) else isinstance(seen, event)
