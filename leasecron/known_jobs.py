"""What the store knows of jobs, and whether anybody who declares one takes note."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from leasecron.asked import LOOK_EVERY, sleep
from leasecron.declarations import Declarations
from leasecron.errors import BackendError, BackendUnavailable, ConfigurationError, shown
from leasecron.model import JobState

NOTICED_WITHIN: Final = 5.0
"""Seconds within which whoever declares a job has taken note of what is asked for."""

_MOST_NAMED = 20


class KnownJobs(Declarations):
    """The part of a scheduler that asks the store about jobs, whether it runs itself or not."""

    @property
    @abstractmethod
    def instance(self) -> str:
        """The name of this process in history and events."""

    def _refuse_paused(self, what: str, name: str) -> None:
        paused = next((job for job in self._states() if job.name == name and job.paused_at), None)
        if paused is not None:
            raise ConfigurationError(
                f"{what}: job {shown(name)} is paused {_since(paused)}; resume it first"
            )

    def _keep_if_noticed(
        self,
        name: str,
        what: str,
        has_begun: Callable[[], bool],
        take_back: Callable[[], bool],
    ) -> None:
        """Wait until somebody who declares the job has taken note; raise where nobody has.

        ``take_back`` says whether it was still there to be taken back.
        """
        try:
            noticed = self._is_noticed(name, has_begun)
        except BaseException:  # whoever is not given it cannot ask for it again
            with suppress(BackendError):
                take_back()
            raise
        if not noticed and take_back():
            raise ConfigurationError(
                f"no instance that declares job {shown(name)} has taken note of the {what} within"
                f" {NOTICED_WITHIN:g} s, so it is taken back: {self._who_declares(name)}"
            )

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

    def _ask(self, operation: str, function: Callable[[Any], Any]) -> Any:
        return self._lifecycle.ask(operation, function)


def _since(job: JobState) -> str:
    assert job.paused_at is not None
    return f"since {job.paused_at.isoformat()}" + (f" ({job.note})" if job.note else "")
