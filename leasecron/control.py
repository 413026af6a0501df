"""What people do to jobs that are declared: run one now, pause it, let it go on."""

from __future__ import annotations

import queue
from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from leasecron.backends.plain import check_control
from leasecron.clock import Clock
from leasecron.declarations import Declarations
from leasecron.errors import BackendUnavailable, ConfigurationError, SchedulerStateError, shown
from leasecron.jobs import check_name, declaration_of
from leasecron.model import MOST_OF_NOTE, JobState, NewRun, RunResult, RunState, from_seconds

NOTICED_WITHIN: Final = 5.0
"""Seconds within which whoever declares a job has taken note of a run that is asked for."""

_LOOK_EVERY = 0.25
_RECORD_WITHIN = 2.0  # seconds after the end: it is written right after it, or never
_MOST_NAMED = 20
_MILLISECOND = timedelta(milliseconds=1)


class Run:
    """A run that was asked for: one job at one instant, whichever instance has it."""

    def __init__(
        self, job: str, slot: datetime, clock: Clock, look: Callable[[], RunState | None]
    ) -> None:
        self.job = job
        self.slot = slot
        self._clock = clock
        self._look = look

    def wait(self, timeout: float | None = None) -> RunResult | None:
        """Wait up to ``timeout`` seconds, or for ever; return how the run ended, or None.

        What is returned is the record of its last attempt. While the store is away it goes on
        waiting. Raises :class:`SchedulerStateError` where the store no longer knows the run.
        """
        give_up = None if timeout is None else self._clock.monotonic() + timeout
        recorded_by: float | None = None
        while True:
            state = self._state()
            if state is not None and state.result is not None and state.has_ended:
                return state.result
            now = self._clock.monotonic()
            if state is not None and state.has_ended:
                recorded_by = recorded_by or now + _RECORD_WITHIN
                if now >= recorded_by:
                    return state.without_record()
            if give_up is not None and now >= give_up:
                return None
            left = _LOOK_EVERY if give_up is None else min(_LOOK_EVERY, give_up - now)
            _sleep(self._clock, left)

    def _state(self) -> RunState | None:
        try:
            state = self._look()
        except BackendUnavailable:
            return None
        if state is None:
            raise SchedulerStateError(
                f"the store knows no run of job {shown(self.job)} at {self.slot.isoformat()}: it"
                " was taken back, or removed with the history"
            )
        return state

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return (self.job, self.slot) == (other.job, other.slot)

    def __hash__(self) -> int:
        return hash((self.job, self.slot))

    def __repr__(self) -> str:
        return f"Run(job={self.job!r}, slot={self.slot.isoformat()!r})"


class Controls(Declarations):
    """The part of a scheduler that acts on jobs in the store, whether it runs itself or not."""

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
        paused = next((job for job in self._states() if job.name == name and job.paused_at), None)
        if paused is not None:
            raise ConfigurationError(
                f"trigger: job {shown(name)} is paused {_since(paused)}; resume it first"
            )
        run = self._put_in(name)
        here = name in self._jobs and self._lifecycle.running
        if not here and not self._is_noticed(run):
            (withdrawn,) = self._ask("withdraw", lambda b: b.withdraw([self._new(run)]))
            if withdrawn:
                raise ConfigurationError(
                    f"no instance that declares job {shown(name)} has taken note of the run within"
                    f" {NOTICED_WITHIN:g} s, so it is taken back; declared are {self._known()}"
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

        Raises what :meth:`pause` raises.
        """
        self._act("resume", name, lambda backend: backend.resume(name))

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

    def _put_in(self, name: str) -> Run:
        slot = from_seconds(self._clock.wall())
        while True:
            if not slot.microsecond:  # where slots of schedules are
                slot += _MILLISECOND
            run = Run(name, slot, self._clock, self._look_at(name, slot))
            if self._is_taken(self._new(run)):
                return run
            slot += _MILLISECOND

    def _is_taken(self, new: NewRun) -> bool:
        (taken,) = self._ask("add_runs", lambda backend: backend.add_runs([new]))
        return bool(taken)

    def _look_at(self, name: str, slot: datetime) -> Callable[[], RunState | None]:
        return lambda: self._ask("run_state", lambda backend: backend.run_state(name, slot))

    def _is_noticed(self, run: Run) -> bool:
        """Wait until the run was begun, or somebody who declares its job has said so."""
        before = {job.name: job.last_seen for job in self._states()}.get(run.job)
        give_up = self._clock.monotonic() + NOTICED_WITHIN
        while self._clock.monotonic() < give_up:
            _sleep(self._clock, _LOOK_EVERY)
            state = self._look_at(run.job, run.slot)()
            if state is None or state.state != "waiting":
                return True
            seen = {job.name: job.last_seen for job in self._states()}.get(run.job)
            if seen != before:
                return True
        return False

    def _states(self) -> list[JobState]:
        found: list[JobState] = self._ask("jobs", lambda backend: backend.jobs())
        return found

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


def _check_note(name: str, note: object) -> None:
    if not isinstance(note, str) or len(note) > MOST_OF_NOTE:
        raise ConfigurationError(
            f"pause of job {shown(name)}: note is {shown(note)}; right is text of up to"
            f" {MOST_OF_NOTE} characters"
        )


def _sleep(clock: Clock, seconds: float) -> None:
    try:
        clock.waker().get(max(0.0, seconds))
    except queue.Empty:
        return
