"""Standing by: watching runs that another instance holds, and taking them over when it is gone.

A check asks the store for the next attempt of the run, which it gives only if the lease is over. It
comes at a random moment between one and two heartbeats, so that backups do not all ask at once.
All runs of one heartbeat are checked together: an instance that watches a thousand of them asks its
store as often as one that watches a single run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime

from leasecron.clock import Clock
from leasecron.deadlines import Timer
from leasecron.jobs import DeclaredJob
from leasecron.model import LeaseState, Origin
from leasecron.runs import Key
from leasecron.schedules import ask_latest
from leasecron.store import StoreQueue
from leasecron.timers import JobTimers

HURRY = 0.03
"""Seconds within which all ask that were told at once of a run that was given back."""


class Watch:
    """One watched run. ``since`` is when it was last checked, or else when the watch began."""

    __slots__ = ("asked", "heartbeat", "job", "key", "origin", "since", "slot", "token", "waits")

    def __init__(self, job: DeclaredJob, slot: datetime, since: float) -> None:
        self.job = job
        self.slot = slot
        self.since = since
        self.origin: Origin = "scheduled"
        self.waits = False  # for the end of an older run
        self.key: Key = (job.name, slot)
        self.heartbeat = job.options.heartbeat
        self.asked = False  # the answer to a check has yet to come
        self.token: str | None = None  # of a check that was not answered, and may have won


class Check:
    """The next check of all watches that have the same heartbeat."""

    __slots__ = ("due", "not_before", "timer", "waiting")

    def __init__(self, not_before: float) -> None:
        self.not_before = not_before
        self.due = 0.0
        self.timer: Timer | None = None
        self.waiting: dict[Watch, None] = {}


class Backups:
    """The runs that this instance watches; each once, however often it was skipped.

    ``take_over`` claims the next attempt of a run, with the token of a check before or with one of
    its own, and says False where that cannot be done now. Its answer comes back through one of
    ``watch``, ``not_started`` and ``drop``. ``failed`` is told of a check that the store could not
    answer.

    A check is one call for all runs that may be taken over, and one for those of which only the
    lease is looked at. Where there is no room to claim that many runs at once, the others follow as
    the answers make room.
    """

    def __init__(
        self,
        clock: Clock,
        timers: JobTimers,
        store: StoreQueue,
        take_over: Callable[[DeclaredJob, datetime, str | None], bool],
        failed: Callable[[DeclaredJob, datetime, BaseException], None],
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._store = store
        self._take_over = take_over
        self._failed = failed
        self._watches: dict[Key, Watch] = {}
        self._checks: dict[float, Check] = {}  # by their heartbeat
        # Could not be asked about at their check; ordered, as those that wait in a Room.
        self._refused: OrderedDict[Watch, None] = OrderedDict()
        self._not_begun: dict[str, datetime] = {}
        # Runs that wait for another one of their job; ordered, as a seed shall replay.
        self._behind: dict[str, dict[Key, None]] = {}

    def knows(self, key: Key) -> bool:
        """Say whether the run is watched."""
        return key in self._watches

    def watch(self, job: DeclaredJob, slot: datetime, origin: Origin = "scheduled") -> None:
        """Check the run one to two heartbeats after its last check, and from then on."""
        watch = self._watches.get((job.name, slot))
        if watch is None:
            watch = Watch(job, slot, self._clock.monotonic())
            self._watches[watch.key] = watch
        if origin != "scheduled":
            watch.origin = origin
        self._go_on(watch)

    def ask_again_with(self, key: Key, token: str) -> None:
        """Make the next checks with the token of one that the store did not answer.

        If that one has won, nobody but its token finds the run; the others wait for its lease.
        """
        watch = self._watches.get(key)
        if watch is not None:
            watch.token = token

    def hurry(self, key: Key) -> bool:
        """Check a watched run at once, almost: others are told of it at the same moment."""
        watch = self._watches.get(key)
        if watch is None:
            return False
        delay = self._clock.random.random() * HURRY
        self._timers.after(delay, self._ask, watch)
        return True

    def stands_behind(self, key: Key, *, waits: bool) -> None:
        """Note that a watched run met another one of its job, and whether it waits for its end."""
        watch = self._watches.get(key)
        if watch is not None:
            watch.waits = waits
            self._behind.setdefault(watch.job.name, {})[key] = None

    def has_begun(self, key: Key) -> None:
        """Note that a watched run waits no longer: a newer one may replace it."""
        watch = self._watches.get(key)
        if watch is not None:
            watch.waits = False

    def hurry_behind(self, job: DeclaredJob) -> None:
        """Check at once what waited for a run of ``job`` that has ended here."""
        for key in self._behind.pop(job.name, ()):
            self.hurry(key)

    def replaces_nothing(self, job: DeclaredJob, slot: datetime) -> None:
        """Note that ``slot`` was not begun, as far as is known here: it replaces no run."""
        self._not_begun[job.name] = max(slot, self._not_begun.get(job.name, slot))

    def not_started(self, key: Key) -> None:
        """Check again while the run could still start."""
        watch = self._watches.get(key)
        if watch is None:
            return
        late = self._clock.wall() - watch.slot.timestamp() > watch.job.options.max_late
        if late or self._newest_due(watch) > watch.slot or watch.origin != "scheduled":
            self.drop(key)
        else:
            self._go_on(watch)

    def drop(self, key: Key) -> None:
        """Stop watching the run."""
        watch = self._watches.pop(key, None)
        if watch is None:
            return
        self._refused.pop(watch, None)
        self._behind.get(watch.job.name, {}).pop(key, None)
        check = self._checks.get(watch.heartbeat)
        if check is not None:
            check.waiting.pop(watch, None)
        self._answered(watch)

    def forget(self, job: DeclaredJob | None = None) -> None:
        """Stop watching the runs of ``job``, or of all jobs."""
        if job is None:
            self._not_begun.clear()
            self._behind.clear()
        else:
            self._not_begun.pop(job.name, None)
            self._behind.pop(job.name, None)
        for key, watch in [*self._watches.items()]:
            if job is None or watch.job is job:
                self.drop(key)

    # When

    def _go_on(self, watch: Watch) -> None:
        self._answered(watch)
        # A store that takes longer than a heartbeat to answer is not asked again at once.
        watch.since = max(watch.since, self._clock.monotonic() - watch.heartbeat)
        self._wait(watch, watch.since)

    def _answered(self, watch: Watch) -> None:
        if watch.asked:
            watch.asked = False
            if self._refused:
                self._timers.post(self._ask_refused)  # by when the answer has made room

    def _wait(self, watch: Watch, checked: float) -> None:
        """Have the watch go with the next check, whose last one was at ``checked`` or before."""
        heartbeat = watch.heartbeat
        check = self._checks.get(heartbeat)
        if check is None:
            check = self._checks[heartbeat] = Check(checked + heartbeat)
        check.waiting[watch] = None
        latest = watch.since + 2 * heartbeat
        if check.timer is not None:
            if check.due <= latest:
                return
            self._timers.cancel(check.timer)
        earliest = min(latest, max(watch.since + heartbeat, check.not_before))
        check.due = earliest + (latest - earliest) * self._clock.random.random()
        check.timer = self._timers.at(check.due, self._check, heartbeat)

    def _check(self, heartbeat: float) -> None:
        """Check all that have waited for a heartbeat; the rest goes with the next check."""
        now = self._clock.monotonic()
        for watch in self._checks.pop(heartbeat).waiting:
            if watch.asked:
                continue
            if watch.since + heartbeat <= now:
                # In a step of its own: an error in one shall not be one in all.
                self._timers.post(self._ask, watch)
            else:
                self._wait(watch, now)

    # What

    def _ask(self, watch: Watch) -> None:
        if watch.asked or self._watches.get(watch.key) is not watch:
            return
        self._refused.pop(watch, None)
        watch.since = self._clock.monotonic()
        newest = self._newest_due(watch)
        if newest > watch.slot and newest > self._not_begun.get(watch.job.name, watch.slot):
            # A newer slot is due that will replace this run once its lease is over: look at the
            # lease, but take nothing over.
            self._store.submit("unfinished", watch.job.name, self._timers.post, self._looked, watch)
            watch.asked = True
        elif self._take_over(watch.job, watch.slot, watch.token):
            watch.asked = True
        else:
            self._refused[watch] = None
            self._wait(watch, watch.since)

    def _ask_refused(self) -> None:
        while self._refused:
            watch = next(iter(self._refused))
            self._ask(watch)
            if watch in self._refused:
                break

    def _looked(
        self, watch: Watch, states: list[LeaseState] | BaseException, _asked_at: float
    ) -> None:
        if self._watches.get(watch.key) is not watch:
            return
        if isinstance(states, BaseException):
            self._failed(watch.job, watch.slot, states)
            self._go_on(watch)
        elif any(state.slot == watch.slot and state.alive for state in states):
            self._go_on(watch)
        else:
            self.drop(watch.key)

    def _newest_due(self, watch: Watch) -> datetime:
        """Return the newest slot that could replace the run, or its own.

        Nothing replaces a run that was asked for, and what of a run that waits the store decides.
        """
        if watch.origin != "scheduled" or watch.waits:
            return watch.slot
        try:
            newest = ask_latest(watch.job.schedule, self._timers.now())
        except Exception:  # noqa: BLE001 - arming reports a broken schedule; the run is watched on
            newest = None
        return watch.slot if newest is None else newest
