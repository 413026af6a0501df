"""Backfills that people ask for, of jobs that are declared here or by others."""

from __future__ import annotations

from datetime import datetime

from leasecron.backends.plain import check_control
from leasecron.backfill import MOST_SLOTS, Backfill, MissingSlots, check_range
from leasecron.errors import ConfigurationError, shown
from leasecron.jobs import check_name
from leasecron.known_jobs import KnownJobs
from leasecron.model import BackfillState, NewBackfill
from leasecron.schedules import Schedule, schedule_in_words


class BackfillControl(KnownJobs):
    """The part of a scheduler that has slots of the past run."""

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
        not stop the others. The newest slot of the schedule that came due meanwhile waits for the
        run that goes on, and is run before the next. A crash costs nothing: another instance goes
        on.

        What succeeded is known as far as the history reaches (the option ``keep``). ``schedule`` is
        that with which the instances declare the job, where it is neither declared here nor known
        to the store in words: the slots are counted by it, and run by theirs.

        Raises :class:`ConfigurationError` for a range that is empty, or not over, or has more than
        ``most`` slots, for another schedule than that of the job as it is declared here, for a job
        that has another backfill that goes on (the same request again returns the same one), that
        is paused or that nobody declares (said after five seconds), for a store that knows only who
        won a slot; and :class:`BackendError`.
        """
        check_control(self._backend, "backfill()")
        _check_most(name, most)
        with self._lifecycle.kept_open():
            slots = self.missing(name, start, end, schedule=schedule)
            self._refuse_paused("backfill", name)
            total = slots.count(name, most)
            backfill = self._begin(NewBackfill(name, slots.start, slots.end, total, self.instance))
            self._keep_if_noticed(name, "backfill", backfill.has_begun, backfill.cancel)
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
        of_job = self._schedule_of(name, schedule)
        found = self._ask("succeeded", lambda backend: backend.succeeded(name, since, until))
        return MissingSlots(of_job, since, until, frozenset(found))

    def current_backfill(self, name: str) -> Backfill | None:
        """Return the newest backfill of a job, whether it goes on or has ended.

        Raises what :meth:`pause` raises for the store and the name.
        """
        check_control(self._backend, "backfill()")
        check_name(name)
        begun = self._ask("backfill", lambda backend: backend.backfill(name))
        return None if begun is None else self._handle(begun)

    def _schedule_of(self, name: str, given: Schedule | None) -> Schedule:
        """Return the schedule of a job as it is declared here, or given, or known to the store."""
        if name in self._jobs:
            declared = self._jobs[name].schedule
            if given is not None and given != declared:
                raise ConfigurationError(
                    f"backfill of job {shown(name)}: schedule is {shown(given)}, and the job is"
                    f" declared here with {shown(declared)}; leave it out"
                )
            return declared
        if given is not None:
            return given
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
            lambda: self._ask(
                "cancel_backfill", lambda backend: backend.cancel_backfill(name, begun.asked_at)
            ),
            self._lifecycle.kept_open,
        )


def _check_most(name: str, most: object) -> None:
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ConfigurationError(
            f"backfill of job {shown(name)}: most is {shown(most)}; right is an int from 1"
        )
