"""How a handler is told to end, and what it is told about its run."""

from __future__ import annotations

import queue
from datetime import datetime

from leasecron.clock import Clock, Waker
from leasecron.errors import ConfigurationError, RunAborted
from leasecron.leases import Lease
from leasecron.model import Reason, Trigger


class AbortSignal:
    """Set when the run shall end; belongs to one run only.

    Any thread of the handler may ask it or wait for it. ``reason`` is the first cause: ``stop``
    (the scheduler stops), ``takeover`` (another instance has the run), ``lease-lost`` (the lease
    can no longer be trusted), ``timeout`` or ``replaced`` (a newer slot waits for its end).

    Whoever asks looks at the lease as well: on a machine that is short of time, the thread that
    tells of a lease that is over may get its turn only after another instance has.
    """

    __slots__ = ("_clock", "_lease", "_reasons", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lease: Lease | None = None
        self._reasons: list[Reason] = []  # of two that are set at once, the first counts for all
        self._waiting: list[Waker] = []

    @property
    def reason(self) -> Reason | None:
        """Why the run shall end; None while it need not."""
        lease = self._lease
        if not self._reasons and lease and not lease.trusted(self._clock.monotonic()):
            self.set("lease-lost")
        return self._reasons[0] if self._reasons else None

    def is_set(self) -> bool:
        """Say whether the run shall end."""
        return self.reason is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds, or for ever; return ``is_set()``."""
        waker = self._clock.waker()
        self._waiting.append(waker)
        try:
            # Asked after the waker is in the list: set() writes the reason first and looks into the
            # list second, so one of the two sees the other.
            if not self.is_set():
                waker.get(timeout)
        except queue.Empty:
            pass
        finally:
            self._waiting.remove(waker)
        return self.is_set()

    def raise_if_set(self) -> None:
        """Raise :class:`RunAborted` if the run shall end: leaves unfinished work as unfinished."""
        reason = self.reason
        if reason is not None:
            raise RunAborted(reason)

    @property
    def told(self) -> bool:
        """Whether the run has been told to end; asking this does not look at the lease."""
        return bool(self._reasons)

    def look_at(self, lease: Lease | None) -> None:
        """Look at the lease, or with None no more: who still asks then is not the handler."""
        self._lease = lease

    def set(self, reason: Reason) -> bool:
        """Tell the run to end; False when it has been told before."""
        if self._reasons:
            return False
        self._reasons.append(reason)
        for waker in [*self._waiting]:
            waker.put(None)
        return self._reasons[0] == reason


class RunContext:
    """What a handler is given: the facts of its run, and the signal that tells it to end.

    ``slot`` is the instant that the run is for, ``attempt`` counts from 1, ``retry`` says how often
    the run has failed and been tried again before, in whichever attempt. ``token`` names this
    attempt, ``lateness`` is the seconds between the slot and the start of the attempt.
    """

    def __init__(
        self,
        *,
        job: str,
        slot: datetime,
        attempt: int,
        fence: int | None,
        token: str,
        instance: str,
        trigger: Trigger,
        lateness: float,
        signal: AbortSignal,
        retry: int = 0,
    ) -> None:
        self.job = job
        self.slot = slot
        self.attempt = attempt
        self.token = token
        self.instance = instance
        self.trigger = trigger
        self.lateness = lateness
        self.retry = retry
        self.signal = signal
        self._fence = fence

    @property
    def fence(self) -> int:
        """An integer that rises with every won claim of the store; guard your own writes with it.

        Raises :class:`ConfigurationError` on a store without leases, which has none.
        """
        if self._fence is None:
            raise ConfigurationError(
                f"job {self.job!r}: ctx.fence needs a store with leases, such as"
                " sqlite:////path/to/file.db or memory://; this one runs each slot at most once,"
                " so a unique key on job and ctx.slot guards what must not happen twice"
            )
        return self._fence

    def sleep(self, seconds: float) -> None:
        """Sleep up to ``seconds``; raise :class:`RunAborted` as soon as the run shall end."""
        self.signal.wait(max(0.0, seconds))
        self.signal.raise_if_set()

    def __repr__(self) -> str:
        return f"<RunContext {self.job!r} {self.slot.isoformat()} attempt {self.attempt}>"
