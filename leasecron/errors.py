"""Every exception that leasecron raises, in one tree."""

from __future__ import annotations


def shown(value: object) -> str:
    """Return a value for a message: its repr, or else its type.

    Never raises: a huge int has no repr, and an object's own may fail.
    """
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - the value is wrong already; its repr must not hide that
        return f"<{type(value).__name__}>"


class LeasecronError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(LeasecronError, ValueError):
    """A declaration is wrong: the message names job, option, value and what would be right."""


class BackendError(LeasecronError):
    """The store answered with a fault. The driver's error is its ``__cause__``."""


class BackendUnavailable(BackendError):
    """The store cannot be used at the moment; the same call may succeed later."""


class BackendMismatch(BackendError):
    """The store was made by another version, or by another program."""


class SchedulerStateError(LeasecronError, RuntimeError):
    """The call is not possible in this process, thread or state of the scheduler."""


class RunAborted(BaseException):
    """Raised inside a handler whose run shall end: by ``raise_if_set()`` and ``ctx.sleep()``.

    It derives from BaseException so that a handler's ``except Exception`` does not eat it.
    """

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the run was told to end: {self.reason}"
