"""A second mount of a store's directory, as another host would have it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from leasecron.backends.checks import Check
from leasecron.backends.filesystems import filesystem_of
from leasecron.doctor.races import Folders

PATIENCE = 65.0
"""Seconds; the directory cache of an NFS client lasts for 60 unless it was mounted otherwise."""

_APPEARS = 5.0
_POLL = 0.01


def check_same(folders: Folders) -> Check:
    """Say whether a second path leads to the same directory, by another mount."""
    first, second = folders
    if seen_after(second, _APPEARS) is None:
        reason = "what is made in the store's directory is not seen there: it is another directory"
        return Check("second mount", "bad", "another directory", reason)
    kind = filesystem_of(second).type
    if os.stat(first).st_dev == os.stat(second).st_dev:
        reason = (
            "the kernel has one cache for both, so that trials with it say nothing of two hosts"
        )
        return Check("second mount", "warning", f"{kind}, the same mount", reason)
    reason = "what follows was tried between the two mounts"
    return Check("second mount", "good", f"{kind}, another mount of the directory", reason)


def check_negative_entries(folders: Folders) -> Check:
    """Measure how long a name that was looked up in vain stays unseen after it was made."""
    mine, its = (Path(folder, "late") for folder in folders)
    its.exists()  # in vain, so that the second mount remembers that there is nothing
    mine.touch()
    waited = seen_after(str(its), PATIENCE)
    if waited is None:
        reason = (
            "claims are safe, since they never believe that a file is absent; history and pruning "
            "may be late by as long, so mount the directory with shorter caches"
        )
        return Check("absent names", "warning", f"not seen within {PATIENCE:g} s", reason)
    reason = "claims never believe that a file is absent; history may be late by as long"
    return Check("absent names", "good", f"seen after {waited:.1f} s", reason)


def seen_after(path: str, limit: float) -> float | None:
    """Return the seconds after which a path is seen; None where that is longer than ``limit``."""
    begun = time.monotonic()
    while not os.path.lexists(path):
        if time.monotonic() - begun >= limit:
            return None
        time.sleep(_POLL)
    return time.monotonic() - begun
