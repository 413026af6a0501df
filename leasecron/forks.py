"""What a process that forks, or ends, means for the schedulers in it.

Python's own forks: before one, every store thread is brought to rest between transactions with its
connection closed; in the child nothing runs. uWSGI forks in C without these hooks, so under it
nothing is started before the fork. Threads that are greenlets: nothing is started at all.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from leasecron.errors import SchedulerStateError
from leasecron.logger import logger

EXIT_WAIT = 3.0
"""Seconds that the end of the interpreter waits for handlers that heed their signal."""

_GREENLETS = {
    "gevent": ("gevent.monkey", "is_module_patched", "threading"),
    "eventlet": ("eventlet.patcher", "is_monkey_patched", "thread"),
}
"""Libraries that can put greenlets in the place of threads, and whom to ask whether they did."""


class Member(Protocol):
    """A scheduler with something alive in this process."""

    def before_fork(self, resumes: list[Callable[[], None]]) -> None:
        """Come to rest; what is added to ``resumes`` lets go on in the parent."""

    def forget_parent(self) -> Callable[[], None]:
        """In the child: drop all that belongs to the parent; the answer may start afresh."""

    def stop_firing(self) -> None:
        """Begin no new run."""

    def stop_at_exit(self) -> Callable[[float], None]:
        """Begin to stop because the interpreter ends; the answer waits up to so many seconds."""


_members: dict[int, tuple[int, Member]] = {}  # by identity, with the process of each


class _Forking(threading.local):
    """The forks that the calling thread is in the middle of: one can interrupt another."""

    def __init__(self) -> None:
        self.resumes: list[list[Callable[[], None]]] = []


_forking = _Forking()
_installed = False


def register(member: Member) -> None:
    """Include ``member`` in what happens at a fork and at exit."""
    global _installed  # noqa: PLW0603 - hooks of the interpreter cannot be taken back
    _members[id(member)] = (os.getpid(), member)
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


def _own() -> list[Member]:
    """Return the members of this process; a fork in C leaves those of the parent in the child."""
    return [member for pid, member in [*_members.values()] if pid == os.getpid()]


def in_fork() -> bool:
    """Say whether the calling thread forks: its stores are at rest, so waiting for one is vain."""
    return bool(_forking.resumes)


def _before() -> None:
    resumes: list[Callable[[], None]] = []
    _forking.resumes.append(resumes)
    if len(_forking.resumes) > 1:  # a signal handler forks in the middle of a fork: all is at rest
        return
    for member in _own():
        member.before_fork(resumes)


def _in_parent() -> None:
    for resume in _forking.resumes.pop() if _forking.resumes else ():
        resume()


def _in_child() -> None:
    members = [member for _, member in [*_members.values()]]
    _members.clear()
    _forking.resumes.clear()
    # All forget before one starts: two schedulers may share a backend.
    for restart in [member.forget_parent() for member in members]:
        restart()


def _main_ended() -> None:
    for member in _own():
        member.stop_firing()


def _at_exit() -> None:
    give_up = time.monotonic() + EXIT_WAIT
    # All are told before one is waited for.
    for wait in [member.stop_at_exit() for member in _own()]:
        wait(max(0.0, give_up - time.monotonic()))


def refuse_greenlets() -> None:
    """Raise :class:`SchedulerStateError` where threads are greenlets, or are about to be.

    A greenlet goes on until it waits. A handler that computes for longer than its lease would stop
    its own heartbeats, never learn of it, and be attempted by others at the same time; and in a
    signal handler nobody could wait for a stop.
    """
    for library, (module, question, name) in _GREENLETS.items():
        is_patched = getattr(sys.modules.get(module), question, None)
        # gunicorn's worker of that name patches after post_fork, under threads that run already.
        if f"gunicorn.workers.g{library}" in sys.modules or (is_patched and is_patched(name)):
            raise SchedulerStateError(
                f"{library} makes the threads of this process greenlets, among which a handler that"
                " computes stops all heartbeats; use threads (gunicorn: --worker-class gthread), or"
                " run the scheduler in a process of its own"
            )


def leave_to_uwsgi_workers(start: Callable[[], None]) -> bool:
    """In uWSGI's master, have ``start`` called in each worker and mule instead of here.

    A connection that is open when uWSGI forks poisons SQLite in the workers, and a running thread
    can leave them without an answer to any request. False where this is no uWSGI master. Raises
    :class:`SchedulerStateError` in an interpreter whose hook uWSGI does not call.
    """
    uwsgi = _uwsgi()
    if uwsgi is None or uwsgi.worker_id() != 0 or uwsgi.mule_id() != 0:
        return False
    if not _in_main_interpreter():
        raise SchedulerStateError(
            "this application is loaded into an interpreter of its own before uWSGI forks, where"
            " no scheduler can be started later; set single-interpreter = true"
        )
    before = _hooks(uwsgi)

    def post_fork_hook() -> None:
        try:
            for hook in before:
                hook()
        finally:
            _start_in_worker(uwsgi, start)

    uwsgi.post_fork_hook = post_fork_hook
    return True


def _start_in_worker(uwsgi: Any, start: Callable[[], None]) -> None:
    if uwsgi.worker_id():
        # The master orders an end by SIGINT, and a worker's own handler is set after this hook.
        # Until then Python's would lose the order, and the master would wait a minute for it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if uwsgi.worker_id() or uwsgi.mule_id():
        try:
            start()
        except Exception:
            logger.exception("the scheduler could not be started in a uWSGI worker")


def _hooks(uwsgi: Any) -> list[Callable[[], None]]:
    """Return what uWSGI would call after a fork without us.

    uwsgidecorators sets the same hook, and ``spooler``, when it is imported: it would replace ours
    later, so it is imported now; and what the application has set is kept.
    """
    hook = getattr(uwsgi, "post_fork_hook", None)
    spooler = getattr(uwsgi, "spooler", None)
    try:
        import uwsgidecorators  # noqa: F401, PLC0415 - exists inside uWSGI only
    except Exception:  # noqa: BLE001 - it refuses to be imported without a master
        logger.info("uwsgidecorators cannot be imported")
    if spooler is not None:
        uwsgi.spooler = spooler
    decorated = getattr(uwsgi, "post_fork_hook", None)
    return [one for one in dict.fromkeys((hook, decorated)) if one is not None]


def _uwsgi() -> Any:
    try:
        import uwsgi  # noqa: PLC0415 - exists inside uWSGI only
    except ImportError:
        return None
    return uwsgi if hasattr(uwsgi, "worker_id") else None


def _in_main_interpreter() -> bool:
    """Say whether this is no sub-interpreter, such as uWSGI makes for a second application."""
    import ctypes  # noqa: PLC0415 - only uWSGI's master pays for it

    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    api.PyInterpreterState_GetID.argtypes = [ctypes.c_void_p]
    api.PyInterpreterState_GetID.restype = ctypes.c_int64
    return bool(api.PyInterpreterState_GetID(api.PyInterpreterState_Get()) == 0)
