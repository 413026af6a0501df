"""A clock that a test holds in its hand: simulated time, and threads that take turns."""

from __future__ import annotations

import queue
import random
import threading
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from leasecron.clock import Waker
from leasecron.testing.process_clock import ProcessClock
from leasecron.testing.seats import NEVER
from leasecron.testing.turns import Turns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_START = datetime(2026, 1, 1, tzinfo=UTC)
_UPTIME = 1_000 * 1_000_000  # not zero, which would hide a comparison with "no time at all"


class FakeClock:
    """Simulated time for one process, and its threads one at a time in an order that replays.

    Time stands still while a thread runs. It flows while the test waits in the clock: in
    :meth:`advance`, or in a call that waits there itself, such as ``scheduler.stop(timeout=30)``.
    It then goes from deadline to deadline, and all threads come to rest at each before it goes on.

    Exactly one thread runs at a time, until it waits in the clock or ends. Which one is next is
    drawn from ``seed``, so the same test with the same seed has the same order. The test's own
    thread is next only when no other can go on.

    A thread that blocks outside the clock, say on a ``threading.Event``, is left alone after about
    0.2 s of real time and takes turns again when it is back. After ``event.set()`` a
    :meth:`settle` sees it back (on Linux for certain, elsewhere if it moves within 50 ms); a loop
    of real sleeps may be seen later. Not promised: that it, or a thread unknown to the clock, keeps
    the order of the seed. While the test's thread blocks outside the clock nothing else runs.

    On Linux all threads that it starts share one processor, and so do processes that they start.

    Waits are rounded to microseconds. A signal handler may put into a waker, but not wait.
    """

    def __init__(self, start: datetime | None = None, *, seed: int = 0) -> None:
        """Start at the aware ``start``, 2026-01-01T00:00:00Z if None; the caller has the turn.

        Raises ValueError for a naive ``start``.
        """
        start = _START if start is None else start
        if start.utcoffset() is None:
            raise ValueError(f"start must be an aware datetime, such as {_START!r}, not {start!r}")
        self.seed = seed
        self.random = random.Random(seed)
        self._boot_id = f"{uuid.uuid4()}/time:[fake]"
        self._turns = Turns(wall=(start - _EPOCH) // _MICROSECOND, monotonic=_UPTIME, seed=seed)

    def __repr__(self) -> str:
        return f"FakeClock(seed={self.seed}, now={self.now().isoformat()})"

    def now(self) -> datetime:
        """Return the wall time as an aware UTC datetime."""
        return _EPOCH + timedelta(microseconds=self._turns.wall)

    def wall(self) -> float:
        """Return the simulated seconds since the Unix epoch."""
        return self._turns.wall / 1_000_000

    def monotonic(self) -> float:
        """Return simulated seconds that only go forward."""
        return self._turns.monotonic / 1_000_000

    def boot_id(self) -> str:
        """Name this object's monotonic time; no other clock has the same name."""
        return self._boot_id

    def waker(self) -> Waker:
        """Return a new waker, whose reader waits in simulated time."""
        return _FakeWaker(self._turns)

    def start_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Start a daemon thread, which begins when the caller next waits in the clock."""
        return self._turns.start(target, name)

    def process(self) -> ProcessClock:
        """Return the clock of a new simulated process on this machine."""
        return ProcessClock(self, self._turns)

    def advance(self, seconds: float | timedelta) -> None:
        """Let ``seconds`` pass, from deadline to deadline, and all that is due come to rest.

        Raises ValueError for a negative duration, and RuntimeError after 200 simulated years.
        """
        span = _microseconds(seconds)
        if span < 0:
            raise ValueError(f"time does not go back: {seconds!r}")
        self._turns.wait((), self._turns.monotonic + span)

    def settle(self) -> None:
        """Let all threads that can go on come to rest; no time passes."""
        self.advance(0)

    def jump(self, *, wall: float | timedelta = 0, monotonic: float | timedelta = 0) -> None:
        """Move each clock at once by so many seconds, and let what is now due come to rest.

        The deadlines in between are not visited. Only ``wall`` may be negative (ValueError).
        """
        steps = {"wall": _microseconds(wall), "monotonic": _microseconds(monotonic)}
        if steps["monotonic"] < 0:
            raise ValueError(f"monotonic time does not go back: {monotonic!r}")
        self._turns.shift(**steps)
        self.settle()


class _FakeWaker:
    """A waker in simulated time. Its ``put`` is one append: no lock, good in a signal handler."""

    __slots__ = ("_items", "_turns", "put")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._items: deque[Any] = deque()
        self.put = self._items.append

    def get(self, timeout: float | None = None) -> Any:
        may_wait = timeout is None or timeout > 0
        # A thread that comes back from outside queues for its turn, even if an item is there.
        if may_wait and not (self._items and self._turns.has_turn()):
            self._turns.wait(self._items, self._deadline(timeout))
        try:
            return self._items.popleft()
        except IndexError:
            raise queue.Empty from None

    def drain(self) -> list[Any]:
        return [self._items.popleft() for _ in range(len(self._items))]

    def _deadline(self, timeout: float | None) -> int:
        if timeout is None or timeout > NEVER / 1_000_000:
            return NEVER
        # Never zero: whoever waits for the rest of a microsecond would wait again and again.
        return min(NEVER, self._turns.monotonic + max(1, _microseconds(timeout)))


def _microseconds(seconds: float | timedelta) -> int:
    if isinstance(seconds, timedelta):
        return seconds // _MICROSECOND
    return round(seconds * 1_000_000)
