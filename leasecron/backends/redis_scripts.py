"""The scripts of a Redis store, one for each operation, and their version.

Each is put together from files: what all have in common comes first. A server knows a script by
the digest of its text, until it is restarted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files

VERSION = 2
"""Of what the scripts keep, and how; noted in the store."""

OLDER = ("1",)
"""The versions from which a store is brought up to date when it is opened."""

KEYS = (
    *("meta", "jobs", "runs", "slots", "open", "pruned", "records", "history"),
    *("pauses", "asked"),
)
"""The last parts of the names of a store's keys, in the order in which scripts know them."""

_KNOWS_PAUSES = ("keys", "rows", "pausing")
_TELLS = ("keys", "rows", "telling")
_SHARED = {
    "ready": ("keys",),
    "claim": _KNOWS_PAUSES,
    "finish": _KNOWS_PAUSES,
    "prune": _KNOWS_PAUSES,
    "absorb": _KNOWS_PAUSES,
    "pause": _KNOWS_PAUSES,
    "resume": _KNOWS_PAUSES,
    "pauses": _KNOWS_PAUSES,
    "jobs": _KNOWS_PAUSES,
    "release": _TELLS,
    "add_runs": _TELLS,
}
_SHARED_BY_CALLS = ("keys", "rows")


@dataclass(frozen=True, slots=True)
class Script:
    """A script and the name that servers give to it."""

    text: bytes
    digest: str


def keys_of(prefix: str) -> list[str]:
    """Return the names of the keys of a store.

    What stands in braces decides in a cluster which node has a key: all of a store are at one.
    """
    return [f"{{{prefix}}}:{name}" for name in KEYS]


@cache
def script(operation: str) -> Script:
    """Return the script of an operation."""
    names = [*_SHARED.get(operation, _SHARED_BY_CALLS), operation]
    return script_of("\n".join(_part(name) for name in names))


def script_of(text: str) -> Script:
    """Return a script of this text."""
    encoded = text.encode()
    return Script(encoded, sha1(encoded, usedforsecurity=False).hexdigest())


def _part(name: str) -> str:
    return files("leasecron.backends").joinpath(f"redis_{name}.lua").read_text("utf-8")
