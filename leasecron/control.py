"""What people do to jobs that are declared: run one now, pause it, let it go on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from operator import attrgetter
from typing import Any, Final

from leasecron.asked import LOOK_EVERY, Run, sleep
from leasecron.backends.base import Backend
from leasecron.backends.plain import check_control
from leasecron.backfill import MOST_SLOTS, Backfill, MissingSlots, check_range
from leasecron.clock import Clock
from leasecron.declarations import Declarations
from leasecron.errors import BackendError, BackendUnavailable, ConfigurationError, shown
from leasecron.jobs import DeclaredJob, check_name, declaration_of
from leasecron.lifecycle import Lifecycle
from leasecron.model import (
    MOST_OF_NOTE,
    BackfillState,
    JobState,
    NewBackfill,
    NewRun,
    RunState,
)
from leasecron.options import JobOptions
from leasecron.schedules import Schedule, schedule_in_words

NOTICED_WITHIN: Final = 5.0
"""Seconds within which whoever declares a job has taken note of a run that is asked for."""

_MOST_NAMED = 20
_MOST_TAKEN = 10_000
_MILLISECOND = timedelta(milliseconds=1)


class Controls(Declarations):
    """The part of a scheduler that acts on jobs in the store, whether it runs itself or not."""

    def __init__(
        self,
        clock: Clock,
        defaults: JobOptions,
        tz: str | tzinfo,
        jobs: dict[str, DeclaredJob],
        lifecycle: Lifecycle,
        backend: Backend,
    ) -> None:
        super().__init__(clock, defaults, tz, jobs, lifecycle, backend)
        self._taken: dict[tuple[str, datetime], object] = {}  # by runs that were asked for here

    @property
    @abstractmethod
    def instance(self) -> str:
        """The name of this process in history and events."""

    def trigger(self, name: str) -> Run:
        """Have the job run once now, by any instance that declares it; return at once.

        Its trigger is ``manual``. It is no slot of the schedule, replaces none and is replaced by
        none; where the job forbids overlap it waits for the run that goes on, and it is never late.
        Within two seconds it has begun, unless it has to wait.

        A job that is not declared here, or with a scheduler that does not run, takes up to five
        seconds: until an instance that declares it has taken note. Raises
        :class:`ConfigurationError` where none has, or the job is paused, or the store knows only
        who won a slot, and :class:`BackendError`.
        """
        check_control(self._backend, "trigger()")
        check_name(name)
        with self._lifecycle.kept_open():
            self._refuse_paused("trigger", name)
            run = self._next_run(name)
            try:
                while not self._put_in(run):
                    run = self._next_run(name)
                noticed = self._is_noticed(name, lambda: self._has_begun(run))
            except BaseException:  # whoever is not given the run cannot ask for it again
                with suppress(BackendError):
                    self._withdraw(run)
                raise
            if not noticed and self._withdraw(run):
                raise ConfigurationError(
                    f"no instance that declares job {shown(name)} has taken note of the run within"
                    f" {NOTICED_WITHIN:g} s, so it is taken back: {self._who_declares(name)}"
                )
        return run

    def pause(self, name: str, note: str = "") -> None:
        """Let no run of the job begin from now on, in any instance, until it is resumed.

        Once this has returned no claim of the job is won; a run that goes on is left alone. Slots
        of the pause are skipped as ``paused``, and not caught up after it. ``note`` says why, in up
        to 1,000 characters. A job that is paused keeps its pause as it is.

        Raises :class:`ConfigurationError` for a job that nobody has declared, or a store that knows
        only who won a slot, and :class:`BackendError`.
        """
        _check_note(name, note)
        self._act("pause", name, lambda backend: backend.pause(name, note))

    def resume(self, name: str) -> None:
        """Let runs of the job begin again; harmless where it is not paused.

        Slots are held against the pause by the clock of the store, which is that of the instance
        where no server is asked. If that was ahead as this was called, slots are skipped until
        then, unless the job is paused and resumed once more.

        Raises what :meth:`pause` raises.
        """
        self._act("resume", name, lambda backend: backend.resume(name))

    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime | None = None,
        *,
        most: int = MOST_SLOTS,
        schedule: Schedule | None = None,
    ) -> Backfill:
        """Have every slot in ``start <= slot < end`` run that never succeeded; return at once.

        Without ``end`` the range ends now.

        They are run oldest first, one at a time, by any instances that declare the job, with the
        trigger ``backfill`` and attempts that begin anew. A slot that fails, retries included, does
        not stop the others. A slot of the schedule that comes due meanwhile waits for the run that
        goes on, and is run before the next. A crash costs nothing: another instance goes on.

        What succeeded is known as far as the history reaches (the option ``keep``). The slots are
        those of ``schedule``; without it, of the job as it is declared here, or as the store
        describes it.

        Raises :class:`ConfigurationError` for a range that is empty, or not over, or has more than
        ``most`` slots, for a job that has a backfill that goes on, that is paused or that nobody
        declares (said after five seconds), for a store that knows only who won a slot; and
        :class:`BackendError`.
        """
        check_control(self._backend, "backfill()")
        _check_most(name, most)
        with self._lifecycle.kept_open():
            slots = self.missing(name, start, end, schedule=schedule)
            self._refuse_paused("backfill", name)
            total = slots.count(name, most)
            backfill = self._begin(NewBackfill(name, slots.start, slots.end, total, self.instance))
            try:
                noticed = self._is_noticed(name, backfill.has_begun)
            except BaseException:  # nobody knows then that it has begun
                with suppress(BackendError):
                    backfill.cancel()
                raise
            if not noticed:
                backfill.cancel()
                raise ConfigurationError(
                    f"no instance that declares job {shown(name)} has taken note of the backfill"
                    f" within {NOTICED_WITHIN:g} s, so it is cancelled: {self._who_declares(name)}"
                )
        return backfill

    def missing(
        self,
        name: str,
        start: datetime,
        end: datetime | None = None,
        *,
        schedule: Schedule | None = None,
    ) -> MissingSlots:
        """Return the slots in ``start <= slot < end`` that never succeeded, as a backfill has them.

        They are reckoned as they are asked for, oldest first. Raises what :meth:`backfill` raises
        for the range and the store.
        """
        check_control(self._backend, "backfill()")
        check_name(name)
        since, until = check_range(name, start, end, self._now())
        of_job = schedule or self._schedule_of(name)
        found = self._ask("succeeded", lambda backend: backend.succeeded(name, since, until))
        return MissingSlots(of_job, since, until, frozenset(found))

    def _schedule_of(self, name: str) -> Schedule:
        """Return the schedule of a job that is declared here, or else as the store words it."""
        if name in self._jobs:
            return self._jobs[name].schedule
        words = {job.name: job.schedule for job in self._states()}
        if name not in words:
            raise ConfigurationError(
                f"backfill: the store knows no job {shown(name)}; it knows {self._known()}"
            )
        schedule = schedule_in_words(words[name])
        if schedule is None:
            raise ConfigurationError(
                f"backfill of job {shown(name)}: its schedule, {shown(words[name])}, is known to"
                " the application alone; call scheduler.backfill() there, or give schedule="
            )
        return schedule

    def current_backfill(self, name: str) -> Backfill | None:
        """Return the newest backfill of a job, whether it goes on or has ended.

        Raises what :meth:`pause` raises for the store and the name.
        """
        check_control(self._backend, "backfill()")
        check_name(name)
        begun = self._ask("backfill", lambda backend: backend.backfill(name))
        return None if begun is None else self._handle(begun)

    def _begin(self, wanted: NewBackfill) -> Backfill:
        begun = self._ask("add_backfill", lambda backend: backend.add_backfill(wanted))
        if (begun.start, begun.end, begun.instance) != (wanted.start, wanted.end, wanted.instance):
            raise ConfigurationError(
                f"backfill of job {shown(wanted.job)}: one goes on already, from"
                f" {begun.start.isoformat()} to {begun.end.isoformat()}, asked for by"
                f" {shown(begun.instance)}; wait for its end or cancel it"
            )
        return self._handle(begun)

    def _handle(self, begun: BackfillState) -> Backfill:
        name = begun.job
        return Backfill(
            begun,
            self._clock,
            lambda: self._ask("backfill", lambda backend: backend.backfill(name)),
            lambda: self._ask("cancel_backfill", lambda backend: backend.cancel_backfill(name)),
            self._lifecycle.kept_open,
        )

    def _act(self, what: str, name: str, act: Callable[[Any], bool]) -> None:
        check_control(self._backend, f"{what}()")
        check_name(name)

        def on(backend: Any) -> bool:
            known = act(backend)
            if not known and (job := self._jobs.get(name)) is not None:
                backend.declare([declaration_of(job)])
                known = act(backend)
            return known

        if not self._ask(what, on):
            raise ConfigurationError(
                f"{what}: the store knows no job {shown(name)}; it knows {self._known()}"
            )

    def _next_run(self, name: str) -> Run:
        """Return a run of this moment, at no whole second, where slots of schedules are.

        None is returned twice, whichever threads ask in one millisecond.
        """
        slot, mine = self._now(), object()
        while not slot.microsecond or self._taken.setdefault((name, slot), mine) is not mine:
            slot += _MILLISECOND
        if len(self._taken) > _MOST_TAKEN:
            self._taken.clear()  # long past
        look = self._look_at(name, slot)
        return Run(name, slot, self._clock, look, self._lifecycle.kept_open)

    def _put_in(self, run: Run) -> bool:
        new = self._new(run)
        (taken,) = self._ask("add_runs", lambda backend: backend.add_runs([new]))
        return bool(taken)

    def _look_at(self, name: str, slot: datetime) -> Callable[[], RunState | None]:
        return lambda: self._ask("run_state", lambda backend: backend.run_state(name, slot))

    def _refuse_paused(self, what: str, name: str) -> None:
        paused = next((job for job in self._states() if job.name == name and job.paused_at), None)
        if paused is not None:
            raise ConfigurationError(
                f"{what}: job {shown(name)} is paused {_since(paused)}; resume it first"
            )

    def _withdraw(self, run: Run) -> bool:
        (withdrawn,) = self._ask("withdraw", lambda backend: backend.withdraw([self._new(run)]))
        return bool(withdrawn)

    def _has_begun(self, run: Run) -> bool:
        state = self._look_at(run.job, run.slot)()
        return state is None or state.state != "waiting"

    def _is_noticed(self, name: str, has_begun: Callable[[], bool]) -> bool:
        """Wait until something has begun, or somebody who declares the job has said so."""
        if name in self._jobs and self._lifecycle.running:
            return True
        before = self._seen(name)
        give_up = self._clock.monotonic() + NOTICED_WITHIN
        while self._clock.monotonic() < give_up:
            sleep(self._clock, LOOK_EVERY)
            with suppress(BackendUnavailable):  # nobody can have taken note meanwhile
                if has_begun() or self._seen(name) != before:
                    return True
        return False

    def _seen(self, name: str) -> datetime | None:
        return next((job.last_seen for job in self._states() if job.name == name), None)

    def _states(self) -> list[JobState]:
        found: list[JobState] = self._ask("jobs", lambda backend: backend.jobs())
        return found

    def _who_declares(self, name: str) -> str:
        last = self._seen(name)
        told = "it was never seen" if last is None else f"it was last seen at {last.isoformat()}"
        return f"{told}; declared are {self._known()}"

    def _known(self) -> str:
        """Name the jobs of the store, those first that were seen last."""
        states = sorted(self._states(), key=attrgetter("last_seen"), reverse=True)
        names = [shown(job.name) for job in states[:_MOST_NAMED]]
        if len(states) > _MOST_NAMED:
            names.append(f"and {len(states) - _MOST_NAMED:,} more")
        return ", ".join(names) or "none"

    def _new(self, run: Run) -> NewRun:
        return NewRun(run.job, run.slot, self.instance)

    def _ask(self, operation: str, function: Callable[[Any], Any]) -> Any:
        return self._lifecycle.ask(operation, function)


def _since(job: JobState) -> str:
    assert job.paused_at is not None
    return f"since {job.paused_at.isoformat()}" + (f" ({job.note})" if job.note else "")


def _check_most(name: str, most: object) -> None:
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ConfigurationError(
            f"backfill of job {shown(name)}: most is {shown(most)}; right is an int from 1"
        )


def _check_note(name: str, note: object) -> None:
    if not isinstance(note, str) or len(note) > MOST_OF_NOTE or not _can_be_kept(note):
        raise ConfigurationError(
            f"pause of job {shown(name)}: note is {shown(note)}; right is text of up to"
            f" {MOST_OF_NOTE} characters, without NUL and lone surrogates"
        )


def _can_be_kept(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
