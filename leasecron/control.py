"""What people do to jobs that are declared: run one now, pause it, let it go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from typing import Any

from leasecron.asked import Run
from leasecron.backends.base import Backend
from leasecron.backends.plain import check_control
from leasecron.backfill_control import BackfillControl
from leasecron.clock import Clock
from leasecron.errors import BackendError, ConfigurationError, shown
from leasecron.jobs import DeclaredJob, check_name, declaration_of
from leasecron.lifecycle import Lifecycle
from leasecron.model import MOST_OF_NOTE, NewRun, RunState
from leasecron.options import JobOptions

_MOST_TAKEN = 10_000
_MILLISECOND = timedelta(milliseconds=1)


class Controls(BackfillControl):
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
            except BaseException:  # it may be in the store all the same
                with suppress(BackendError):
                    self._withdraw(run)
                raise
            self._keep_if_noticed(
                name, "run", lambda: self._has_begun(run), lambda: self._withdraw(run)
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
        """Return a run of this moment, at no whole second, where most slots of schedules are.

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

    def _withdraw(self, run: Run) -> bool:
        (withdrawn,) = self._ask("withdraw", lambda backend: backend.withdraw([self._new(run)]))
        return bool(withdrawn)

    def _has_begun(self, run: Run) -> bool:
        state = self._look_at(run.job, run.slot)()
        return state is None or state.state != "waiting"

    def _new(self, run: Run) -> NewRun:
        return NewRun(run.job, run.slot, self.instance)


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
