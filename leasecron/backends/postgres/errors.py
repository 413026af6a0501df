"""How a PostgreSQL server's errors leave the store: transient ones apart from those that stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from leasecron.backends.postgres.wire import ServerError, ServerSilent
from leasecron.errors import BackendError, BackendUnavailable

# Connection lost, resources used up, rolled back for others' sake, shut down or cancelled, disk.
_TRANSIENT_CLASSES = ("08", "40", "53", "57", "58")
ONLY_READS = "25006"
"""The code of a statement that writes on a server, or in a session, that only reads."""

DENIED = "42501"
"""The code of what a role may not do."""

_TRANSIENT = frozenset({"55P03", ONLY_READS})  # the first: a lock was not had in time
# What a server says before it knows who is there has no code on this side, and these words only
# where its messages are English. The others are found out by trying for longer.
_REFUSED = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "is not permitted to log in",
    "permission denied for database",
    "authentication method",
)


@contextmanager
def translated(description: str) -> Iterator[None]:
    """Turn what goes wrong with a server into the errors of the package, with the store's name."""
    try:
        yield
    except ServerError as error:
        text = f"the store {description} failed: {error}"
        if error.code == DENIED:
            text += "; its user needs the GRANTs that leasecron init --print-sql prints at the end"
        transient = error.code in _TRANSIENT or error.code.startswith(_TRANSIENT_CLASSES)
        raise (BackendUnavailable(text) if transient else BackendError(text)) from error
    except ServerSilent as error:
        raise BackendUnavailable(f"the store {description} cannot be reached: {error}") from error
    except psycopg.OperationalError as error:
        what = "does not let this user in" if is_refused(error) else "cannot be reached"
        raise BackendUnavailable(f"the store {description} {what}: {str(error).strip()}") from error
    except UnicodeError as error:
        raise BackendError(f"the store {description} cannot keep this text: {error}") from error


def is_refused(error: BaseException | None) -> bool:
    """Say whether a server has answered that it lets nobody of this name in."""
    return isinstance(error, psycopg.OperationalError) and any(
        words in str(error) for words in _REFUSED
    )
