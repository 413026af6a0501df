"""What depends on each trial, for each kind of store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leasecron.backends.checks import Check, Verdict


@dataclass(frozen=True, slots=True)
class Stake:
    """The verdict where a trial fails, and what follows from that."""

    verdict: Verdict
    follows: str


Stakes = Mapping[str, Stake]

_TWICE = Stake("bad", "two instances would run the same slot")
_DOUBT = Stake("warning", "SQLite does not need it, but such a filesystem may break other promises")

SQLITE: Stakes = {
    "create": _DOUBT,
    "link": _DOUBT,
    "no link": Stake("good", "SQLite does not need it"),
    "flock": Stake("warning", "writers wait longer, and two first starts may disturb each other"),
    "fcntl": Stake("bad", "two processes would write at once and destroy the store"),
}
LOCKDIR: Stakes = {
    "create": _TWICE,
    "link": _TWICE,
    "no link": Stake("warning", "claims are made by exclusive create alone, with less proof"),
    "flock": Stake("warning", "two instances may prune at once, which costs time and no claim"),
    "fcntl": Stake("good", "a lock directory does not use it, and a SQLite store cannot live here"),
}


def failed(name: str, found: str, stake: Stake) -> Check:
    """Return the check of a trial that did not go as it should."""
    return Check(name, stake.verdict, found, stake.follows)
