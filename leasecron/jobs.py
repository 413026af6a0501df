"""What a job is: the value that users see, and the declaration that the scheduler works with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from leasecron.errors import ConfigurationError, shown
from leasecron.model import Declaration
from leasecron.options import JobOptions, lay_over
from leasecron.schedules import Schedule, check_schedule

Handler = Callable[..., object]

MOST_OF_NAME = 1000
"""Bytes that the name of a job or an instance may have in UTF-8: an index of a server's takes some
2700."""


@dataclass(frozen=True, slots=True)
class Job:
    """A declared job. ``next_slot`` is the one to come, also while nothing runs; None is none."""

    name: str
    schedule: Schedule
    options: JobOptions
    next_slot: datetime | None


@dataclass(slots=True, eq=False)
class DeclaredJob:
    """One declaration of a job. A job that is removed and added again is another one.

    ``removed`` is set when it is removed: nothing new is started for it from then on.
    ``first_seen`` is what the store said last about when it was declared first.
    """

    name: str
    schedule: Schedule
    options: JobOptions
    handler: Handler
    takes_context: bool
    removed: bool = False
    first_seen: datetime | None = None

    def call(self, context: object) -> None:
        """Call the handler, with ``context`` if it takes one; lets all that it raises through.

        Raises TypeError where the handler returns work that nobody will do.
        """
        returned = self.handler(context) if self.takes_context else self.handler()
        kind = _unfinished_kind(returned)
        if kind is None:
            return
        if not inspect.isasyncgen(returned):
            returned.close()  # type: ignore[attr-defined] # silences "was never awaited"
        raise TypeError(
            f"job {self.name!r}: the handler returned {kind}, whose code has not run; "
            f"{_REMEDIES[kind]}"
        )


def declaration_of(job: DeclaredJob) -> Declaration:
    """Return what a store is told of a job."""
    return Declaration(job.name, _described(job))


def _described(job: DeclaredJob) -> str:
    """Return the schedule in words, for people who read the store."""
    try:
        text = str(job.schedule)[:500]
    except BaseException:  # noqa: BLE001 - a user's schedule may raise anything
        return type(job.schedule).__name__
    return text.encode("utf-8", "replace").decode("utf-8")


class JobsView(Mapping[str, Job]):
    """The declared jobs by name, as they are at each look; read-only."""

    def __init__(
        self, jobs: Mapping[str, DeclaredJob], next_slot: Callable[[DeclaredJob], datetime | None]
    ) -> None:
        self._jobs = jobs
        self._next_slot = next_slot

    def __getitem__(self, name: str) -> Job:
        job = self._jobs[name]
        return Job(job.name, job.schedule, job.options, self._next_slot(job))

    def __iter__(self) -> Iterator[str]:
        return iter([*self._jobs])  # jobs may be added and removed meanwhile

    def __len__(self) -> int:
        return len(self._jobs)

    def __repr__(self) -> str:
        return f"<jobs {[*self._jobs]}>"


def declare(
    name: str,
    schedule: Schedule,
    handler: Handler,
    arguments: Mapping[str, Any],
    defaults: JobOptions,
) -> DeclaredJob:
    """Check a declaration and return it; raises :class:`ConfigurationError`."""
    check_name(name)
    check_schedule(schedule, what=f"job {shown(name)}: schedule")
    takes_context = _takes_context(name, handler)
    options = lay_over(defaults, arguments, job=name, schedule=schedule)
    return DeclaredJob(name, schedule, options, handler, takes_context)


def check_name(name: object) -> None:
    """Refuse what no store can keep as a job's name."""
    if not isinstance(name, str):
        raise ConfigurationError(f"the name of a job is text, not {shown(name)}")
    if not name:
        raise ConfigurationError("the name of a job must not be empty ('')")
    if "\0" in name:
        raise ConfigurationError(f"the name of job {shown(name)} must not contain a NUL character")
    try:
        length = len(name.encode())
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"the name of job {shown(name)} cannot be written as UTF-8 (a lone surrogate)"
        ) from error
    if length > MOST_OF_NAME:
        raise ConfigurationError(
            f"the name of job {shown(name)} is too long ({length} bytes of UTF-8): right are at"
            f" most {MOST_OF_NAME}"
        )


_REMEDIES = {
    "a coroutine": "call asyncio.run(...) on it inside a plain function",
    "an async generator": "go through it with asyncio.run(...) inside a plain function",
    "a generator": "go through it inside a plain function",
}


def _unfinished_kind(value: object) -> str | None:
    """Name what a call gives instead of doing its work, or None."""
    if inspect.iscoroutine(value):
        return "a coroutine"
    if inspect.isasyncgen(value):
        return "an async generator"
    return "a generator" if inspect.isgenerator(value) else None


def _makes_unfinished(handler: object) -> str | None:
    """Name what calling ``handler`` gives instead of doing its work, or None."""
    plain: Any = handler
    while isinstance(plain, functools.partial):
        plain = plain.func
    # A call looks at the type; an attribute of this name on the object means nothing to it.
    for function in (plain, type(plain).__call__):
        if inspect.iscoroutinefunction(function):
            return "a coroutine"
        if inspect.isasyncgenfunction(function):
            return "an async generator"
        if inspect.isgeneratorfunction(function):
            return "a generator"
    return None


def _takes_context(name: str, handler: object) -> bool:
    """Say whether ``handler`` is called with its context; refuse one that cannot be called."""
    if not callable(handler):
        raise ConfigurationError(
            f"job {shown(name)}: the handler {shown(handler)} cannot be called"
        )
    if (kind := _makes_unfinished(handler)) is not None:
        raise ConfigurationError(
            f"job {shown(name)}: a call of the handler {shown(handler)} only makes "
            f"{kind}; {_REMEDIES[kind]}"
        )
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return False
    required = [p for p in parameters if p.default is p.empty and p.kind not in _VARIADIC]
    positional = [p for p in required if p.kind is not p.KEYWORD_ONLY]
    if len(positional) > 1 or len(required) > len(positional):
        raise ConfigurationError(
            f"job {shown(name)}: the handler {shown(handler)} needs the arguments "
            f"{', '.join(p.name for p in required)}; it is called with its context or with "
            "nothing: give it the others with functools.partial"
        )
    return bool(positional)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
