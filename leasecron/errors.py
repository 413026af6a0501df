"""Every exception that leasecron raises, in one tree."""

from __future__ import annotations

MOST = 10_000
"""Characters of a text from outside that get into one message or line."""

_MOST_OF_VALUE = 1000

READABLE = frozenset("\u00a0\u200c\u200d\u3000")
"""What Python does not print and writing needs: French and Japanese spaces, and the joiners of
Persian words and of emoji. No terminal obeys them, and no line ends with them."""


def printable(text: str, most: int = MOST) -> str:
    """Return text that is one line, and that neither a terminal nor the reader of a log obeys.

    Names, paths and the texts of errors may hold anything. What does not print is escaped as in a
    Python string, and what comes after ``most`` characters is cut off.
    """
    if len(text) > most:
        return f"{printable(text[:most], most)}... ({len(text):,} characters)"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in READABLE else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shown(value: object, most: int = _MOST_OF_VALUE) -> str:
    """Return a value for a message: its repr, printable and not too long, or else its type.

    A repr escapes odd spaces and joiners too: in what is wrong they are to be seen. Never raises:
    a huge int has no repr, and an object's own may fail.
    """
    try:
        return printable(repr(value), most)
    except Exception:  # noqa: BLE001 - the value is wrong already; its repr must not hide that
        return f"<{type(value).__name__}>"


class LeasecronError(Exception):
    """Base of all errors of this package. Its text is one printable line, whatever it names."""

    def __str__(self) -> str:
        return printable(super().__str__())


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


class GiveUp(LeasecronError):
    """Raised by a handler to say that its run has failed for good, and is not worth a retry."""


class RunAborted(BaseException):
    """Raised inside a handler whose run shall end: by ``raise_if_set()`` and ``ctx.sleep()``.

    It derives from BaseException so that a handler's ``except Exception`` does not eat it.
    """

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the run was told to end: {self.reason}"
