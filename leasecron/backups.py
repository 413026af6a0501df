"""Standing by: watching runs that another instance holds, and taking them over when it is gone.

A check asks the store for the next attempt of the run, which it gives only if the lease is over. It
comes at a random moment between one and two heartbeats, so that backups do not all ask at once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from leasecron.clock import Clock
from leasecron.deadlines import Timer
from leasecron.jobs import DeclaredJob
from leasecron.model import LeaseState
from leasecron.runs import Key
from leasecron.schedules import ask_latest
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers


class Watch:
    """One watched run."""

    __slots__ = ("job", "slot", "timer")

    def __init__(self, job: DeclaredJob, slot: datetime) -> None:
        self.job = job
        self.slot = slot
        self.timer: Timer | None = None


class Backups:
    """The runs that this instance watches; each once, however often it was skipped.

    ``take_over`` claims the next attempt of a run, and says False where that cannot be done now.
    Its answer comes back through one of ``watch``, ``not_started`` and ``drop``. ``failed`` is told
    of a check that the store could not answer.
    """

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        store: StoreQueue,
        take_over: Callable[[DeclaredJob, datetime], bool],
        failed: Callable[[DeclaredJob, datetime, BaseException], None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._take_over = take_over
        self._failed = failed
        self._watches: dict[Key, Watch] = {}
        self._overlapped: dict[str, datetime] = {}

    def watch(self, job: DeclaredJob, slot: datetime) -> None:
        """Check the run at the next moment, and from then on."""
        watch = self._watches.setdefault((job.name, slot), Watch(job, slot))
        if watch.timer is None:
            self._check_later(watch)

    def saw_overlap(self, job: DeclaredJob, slot: datetime) -> None:
        """Note that ``slot`` was skipped for an older run: it replaces nothing."""
        self._overlapped[job.name] = max(slot, self._overlapped.get(job.name, slot))

    def not_started(self, key: Key) -> None:
        """Check again while the run could still start."""
        watch = self._watches.get(key)
        if watch is None:
            return
        late = self._clock.wall() - watch.slot.timestamp() > watch.job.options.max_late
        if late or self._newest_due(watch) > watch.slot:
            self.drop(key)
        else:
            self._check_later(watch)

    def drop(self, key: Key) -> None:
        """Stop watching the run."""
        watch = self._watches.pop(key, None)
        if watch is not None and watch.timer is not None:
            self._timers.cancel(watch.timer)

    def forget(self, job: DeclaredJob | None = None) -> None:
        """Stop watching the runs of ``job``, or of all jobs."""
        if job is None:
            self._overlapped.clear()
        else:
            self._overlapped.pop(job.name, None)
        for key, watch in [*self._watches.items()]:
            if job is None or watch.job is job:
                self.drop(key)

    def _check_later(self, watch: Watch) -> None:
        heartbeat = watch.job.options.heartbeat
        delay = heartbeat * (1.0 + self._clock.random.random())
        watch.timer = self._timers.after(delay, self._check, watch)

    def _check(self, watch: Watch) -> None:
        watch.timer = None
        newest = self._newest_due(watch)
        if newest > watch.slot and newest > self._overlapped.get(watch.job.name, watch.slot):
            # A newer slot is due that will replace this run once its lease is over: look at the
            # lease, but take nothing over.
            self._store.submit(
                "unfinished",
                watch.job.name,
                lambda states, _: self._timers.post(self._looked, watch, states),
            )
        elif not self._take_over(watch.job, watch.slot):
            self._check_later(watch)

    def _looked(self, watch: Watch, states: list[LeaseState] | BaseException) -> None:
        key = (watch.job.name, watch.slot)
        if self._watches.get(key) is not watch:
            return
        if isinstance(states, BaseException):
            self._failed(watch.job, watch.slot, states)
            self._check_later(watch)
        elif any(state.slot == watch.slot and state.alive for state in states):
            self._check_later(watch)
        else:
            self.drop(key)

    def _newest_due(self, watch: Watch) -> datetime:
        try:
            newest = ask_latest(watch.job.schedule, self._timers.now())
        except Exception:  # noqa: BLE001 - arming reports a broken schedule; the run is watched on
            newest = None
        return watch.slot if newest is None else newest
