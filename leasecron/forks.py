"""What a process that forks, or ends, means for the schedulers in it.

Python's own forks: before one, every store thread is brought to rest between transactions with its
connection closed; in the child nothing runs. uWSGI forks in C without these hooks, so under it
nothing is started before the fork.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

logger = logging.getLogger("leasecron")

EXIT_WAIT = 3.0
"""Seconds that the end of the interpreter waits for handlers that heed their signal."""


class Member(Protocol):
    """A scheduler with something alive in this process."""

    def before_fork(self) -> list[Callable[[], None]]:
        """Come to rest; the answer lets go on in the parent."""

    def forget_parent(self) -> Callable[[], None]:
        """In the child: drop all that belongs to the parent; the answer may start afresh."""

    def stop_firing(self) -> None:
        """Begin no new run."""

    def stop_at_exit(self, timeout: float) -> None:
        """Stop because the interpreter ends."""


_members: dict[int, Member] = {}
_resumes = threading.local()
_installed = False


def register(member: Member) -> None:
    """Include ``member`` in what happens at a fork and at exit."""
    global _installed  # noqa: PLW0603 - hooks of the interpreter cannot be taken back
    _members[id(member)] = member
    if _installed:
        return
    _installed = True
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
    atexit.register(_at_exit)
    if sys.version_info[:2] == (3, 12):
        # There no thread can be started once the main thread has ended, long before atexit.
        early: Callable[[Callable[[], None]], None] | None
        early = getattr(threading, "_register_atexit", None)
        if early is not None:
            early(_main_ended)


def unregister(member: Member) -> None:
    """Forget a member that has nothing alive any more."""
    _members.pop(id(member), None)


def _before() -> None:
    _resumes.all = [resume for member in [*_members.values()] for resume in member.before_fork()]


def _in_parent() -> None:
    for resume in getattr(_resumes, "all", ()):
        resume()
    _resumes.all = []


def _in_child() -> None:
    members = [*_members.values()]
    _members.clear()
    _resumes.all = []
    # All forget before one starts: two schedulers may share a backend.
    for restart in [member.forget_parent() for member in members]:
        restart()


def _main_ended() -> None:
    for member in [*_members.values()]:
        member.stop_firing()


def _at_exit() -> None:
    for member in [*_members.values()]:
        member.stop_at_exit(EXIT_WAIT)


def leave_to_uwsgi_workers(start: Callable[[], None]) -> bool:
    """In uWSGI's master, have ``start`` called in each worker and mule instead of here.

    A connection that is open when uWSGI forks poisons SQLite in the workers, and a running thread
    can leave them without an answer to any request. False where this is no uWSGI master.
    """
    uwsgi = _uwsgi()
    if uwsgi is None or uwsgi.worker_id() != 0 or uwsgi.mule_id() != 0:
        return False
    previous: Callable[[], None] | None = getattr(uwsgi, "post_fork_hook", None)

    def post_fork_hook() -> None:
        if previous is not None:
            previous()
        if uwsgi.worker_id() or uwsgi.mule_id():
            try:
                start()
            except Exception:
                logger.exception("the scheduler could not be started in a uWSGI worker")

    uwsgi.post_fork_hook = post_fork_hook
    return True


def _uwsgi() -> Any:
    try:
        import uwsgi  # noqa: PLC0415 - exists inside uWSGI only
    except ImportError:
        return None
    if not hasattr(uwsgi, "worker_id"):
        return None
    try:
        # It sets the same hook when it is imported; later it would replace ours.
        import uwsgidecorators  # noqa: F401, PLC0415
    except Exception:
        logger.debug("uwsgidecorators cannot be imported", exc_info=True)
    return uwsgi
