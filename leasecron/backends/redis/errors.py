"""How a Redis server's errors leave the store: transient ones apart from those that stay."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis
from redis import exceptions

from leasecron.backends.base import StoreEmptied
from leasecron.errors import BackendError, BackendMismatch, BackendUnavailable, LeasecronError

_TRANSIENT = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.MasterDownError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
    exceptions.AskError,  # and MovedError
)
# The words with which a server begins an error that redis-py has no class for; servers before
# Redis 7 wrap one that a script met into other words.
_TRANSIENT_WORDS = frozenset(
    {"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM"}
    | {"READONLY", "TRYAGAIN", "UNKILLABLE"}
)
_MET_BY_SCRIPT = re.compile(r"@user_script: ?\d+: -?([A-Z]+) ")
_REFUSED = (exceptions.AuthenticationError, exceptions.AuthorizationError)
_NOT_REACHED = (exceptions.ConnectionError, exceptions.TimeoutError)
# After these, another server may be the right one to ask.
_MOVED_ON = (exceptions.ReadOnlyError, exceptions.AskError)


class Emptied(Exception):
    """The store was there before, and is no longer."""


def word_of(error: BaseException) -> str:
    """Return the word that says what kind of error a server has answered."""
    text = str(error)
    inner = _MET_BY_SCRIPT.search(text)
    return inner[1] if inner else text.partition(" ")[0]


def leaves_unknown(error: BaseException) -> bool:
    """Say whether a connection is of no more use after an error."""
    if isinstance(error, exceptions.ResponseError):
        return isinstance(error, _MOVED_ON) or word_of(error) in {"READONLY", "LOST"}
    return not isinstance(error, (LeasecronError, UnicodeError))


@contextmanager
def translated(description: str, is_open: Callable[[], bool]) -> Iterator[None]:
    """Turn what goes wrong with a server into the errors of the package, with the store's name.

    A server that lets nobody of the name in may do so again, which only an open store waits for.
    """
    try:
        yield
    except Emptied as error:
        raise _emptied(description) from error
    except redis.RedisError as error:
        raise _as_own(error, description, is_open=is_open()) from error
    except OSError as error:
        raise BackendUnavailable(f"the store {description} cannot be reached: {error}") from error
    except UnicodeEncodeError as error:
        raise BackendError(f"the store {description} cannot keep this text: {error}") from error


def _emptied(description: str) -> StoreEmptied:
    return StoreEmptied(
        f"the store {description} has lost all that it knew: it was emptied, or its server was"
        " restarted without its data. It begins anew, and what was run may be run again"
    )


def _changed(description: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"the store {description} was changed by another version of leasecron: whether this one"
        " can use it is found out at the next call"
    )


def _as_own(error: redis.RedisError, description: str, *, is_open: bool) -> BackendError:
    word = word_of(error)
    if word in {"FOREIGN", "WRONGTYPE"}:
        return BackendMismatch(
            f"the store {description} holds keys of another program ({error}); nothing in it was"
            " changed: name another one with ?prefix="
        )
    if word == "LOST":
        return _emptied(description) if str(error).strip() == word else _changed(description)
    if isinstance(error, _REFUSED):
        text = f"the store {description} does not let this user in: authentication failed: {error}"
        return BackendUnavailable(text) if is_open else BackendError(text)
    answered = isinstance(error, exceptions.BusyLoadingError)
    is_reached = answered or not isinstance(error, _NOT_REACHED)
    text = f"the store {description} {'failed' if is_reached else 'cannot be reached'}: {error}"
    if isinstance(error, _TRANSIENT) or word in _TRANSIENT_WORDS:
        return BackendUnavailable(text)
    return BackendError(text)
