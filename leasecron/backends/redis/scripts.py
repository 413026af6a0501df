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
    *("pauses", "asked", "backfills"),
)
"""The last parts of the names of a store's keys, in the order in which scripts know them."""

_SHARED_BY_CALLS = ("keys", "rows")
_ALSO_SHARED = {
    "claim": ("recording", "listing", "adding", "pausing"),
    "finish": ("pausing",),
    "release": ("telling",),
    "save": ("recording",),
    "history": ("recording",),
    "add_runs": ("listing", "adding", "telling"),
    "withdraw": ("listing", "removing"),
    "add_backfill": ("backfilling", "telling"),
    "backfill": ("backfilling",),
    "backfills": ("backfilling",),
    "advance": ("recording", "listing", "adding", "pausing", "backfilling", "counting"),
    "cancel_backfill": ("backfilling", "counting"),
    "pause": ("pausing",),
    "resume": ("pausing",),
    "pauses": ("pausing",),
    "jobs": ("pausing",),
    "prune": ("recording", "removing", "pausing"),
    "absorb": ("recording", "listing", "pausing", "backfilling"),
}
"""A function costs each call that makes it a little, so a script has those that it uses."""


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
    shared = [*_SHARED_BY_CALLS, *_ALSO_SHARED.get(operation, ())]
    names = ["keys"] if operation == "ready" else shared
    return script_of("\n".join(_part(name) for name in [*names, operation]))


def script_of(text: str) -> Script:
    """Return a script of this text."""
    encoded = text.encode()
    return Script(encoded, sha1(encoded, usedforsecurity=False).hexdigest())


def _part(name: str) -> str:
    return files("leasecron.backends.redis").joinpath(f"{name}.lua").read_text("utf-8")
