"""What is tried in a folder beside the store's own files, which is gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec

from leasecron.backends.checks import Check
from leasecron.doctor.latency import check_latency
from leasecron.doctor.locks import LOCKS, check_lock
from leasecron.doctor.mounts import check_negative_entries, check_same
from leasecron.doctor.races import WAYS, Folders, check_race
from leasecron.doctor.rivals import Rivals, TrialFailed
from leasecron.doctor.space import check_space
from leasecron.doctor.stakes import Stakes

_Facts = ParamSpec("_Facts")

SCRATCH = ".leasecron-doctor-"
"""How the name of the folder begins."""

_OLD = 3600.0


def try_out(folder: str, also: str | None, stakes: Stakes) -> list[Check]:
    """Try what a store in ``folder`` builds on; ``also`` is another path to that folder.

    The folder of the trials is removed also after an error, and after a signal that raises.
    """
    _remove_old(folder)
    try:
        scratch = tempfile.TemporaryDirectory(
            prefix=SCRATCH, dir=folder, ignore_cleanup_errors=True
        )
    except OSError as error:
        reason = f"nothing can be made in {folder}, and a store must be able to"
        unwritable = Check("folder", "bad", error.strerror or str(error), reason)
        return [unwritable, check_space(folder)]
    with scratch as path:
        writable = Check("folder", "good", folder, "files can be made and removed in it")
        checks = [writable, check_space(folder), *_guarded("fsync", check_latency, path)]
        try:
            with Rivals() as rivals:
                checks += _between_processes(rivals, path, also, stakes)
        except (OSError, TrialFailed) as error:
            reason = "nothing is known of races and locks between processes"
            checks.append(Check("processes", "bad", str(error), reason))
    if os.path.lexists(path):
        checks.append(Check("clean-up", "warning", path, "it could not be removed: remove it"))
    return checks


def _remove_old(folder: str) -> None:
    """Remove what a killed examination has left; one that is at work is not that old."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in [*entries]:
            if not (entry.name.startswith(SCRATCH) and entry.is_dir(follow_symlinks=False)):
                continue
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > _OLD:
                shutil.rmtree(entry.path, ignore_errors=True)


def _between_processes(
    rivals: Rivals, scratch: str, also: str | None, stakes: Stakes
) -> Iterator[Check]:
    first = _subfolder(scratch, "first")
    yield from _races_and_locks(rivals, (first, first), stakes, "")
    if also is None:
        return
    mine = _subfolder(scratch, "second")
    folders = (mine, os.path.join(os.path.abspath(also), os.path.basename(scratch), "second"))
    (same,) = _guarded("second mount", check_same, folders)
    yield same
    if same.verdict == "bad":
        return
    yield from _guarded("absent names", check_negative_entries, folders)
    yield from _races_and_locks(rivals, folders, stakes, " on both")


def _races_and_locks(
    rivals: Rivals, folders: Folders, stakes: Stakes, where: str
) -> Iterator[Check]:
    for way in WAYS:
        yield from _guarded(way + where, check_race, rivals, way, folders, stakes, where)
    for lock in LOCKS:
        yield from _guarded(lock + where, check_lock, rivals, lock, folders, stakes, where)


def _guarded(
    name: str, trial: Callable[_Facts, Check], *facts: _Facts.args, **more: _Facts.kwargs
) -> list[Check]:
    """Return the check of a trial, also where the trial itself cannot be made."""
    try:
        return [trial(*facts, **more)]
    except (OSError, TrialFailed) as error:
        return [Check(name, "bad", str(error), "it could not be tried, so nothing vouches for it")]


def _subfolder(scratch: str, name: str) -> str:
    path = os.path.join(scratch, name)
    os.mkdir(path)
    return path
