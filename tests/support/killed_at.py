"""Processes that kill themselves in the middle of what a backend asks of the operating system."""

import os
import signal
from collections.abc import Callable
from typing import Any

CALLS = (
    *("open", "close", "read", "pread", "write", "fsync", "truncate", "ftruncate"),
    *("link", "unlink", "remove", "rename", "replace", "mkdir", "rmdir", "listdir", "scandir"),
    *("stat", "lstat", "fstat", "utime", "chmod", "fchmod"),
)
"""The functions of ``os`` that count."""


class _Death:
    """Counts calls, and kills this process before the one that it is told, by SIGKILL."""

    def __init__(self, last: int) -> None:
        self._left = last

    def before(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left <= 0:
                if name == "write" and len(arguments[1]) > 1:  # a torn write is the worst
                    function(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **named)

        return call


def killed_at(call: int, work: Callable[[], object]) -> bool:
    """Do ``work`` in a forked process that dies by SIGKILL at its n-th call, counted from 1.

    A write is cut in half first. Returns False where the work came to its end before.
    """
    child = os.fork()
    if not child:
        code = 1
        try:
            death = _Death(call)
            for name in CALLS:
                setattr(os, name, death.before(name, getattr(os, name)))
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "the work failed"
    return False
