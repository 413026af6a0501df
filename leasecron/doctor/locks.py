"""Whether a lock of one process is there for another one."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from leasecron.backends.checks import Check
from leasecron.doctor.races import Folders
from leasecron.doctor.rivals import Rivals, TrialFailed
from leasecron.doctor.stakes import Stakes, failed

How = Literal["flock", "fcntl"]
LOCKS: tuple[How, ...] = get_args(How)


def check_lock(rivals: Rivals, how: How, folders: Folders, stakes: Stakes, where: str) -> Check:
    """Let one process hold a lock while the other tries; ``where`` completes the name."""
    name = f"{how}{where}"
    try:
        while_held, afterwards = try_lock(rivals, how, folders)
    except TrialFailed as error:
        return failed(name, f"not to be had ({error})", stakes[how])
    if while_held != "refused":
        return failed(name, "both processes had the lock at once", stakes[how])
    if afterwards != "taken":
        return failed(name, "a lock outlived its holder", stakes[how])
    reason = "a second process was refused, and had the lock after the first one"
    return Check(name, "good", "holds", reason)


def try_lock(rivals: Rivals, how: How, folders: Folders) -> tuple[str, str]:
    """Return what the second process is told while the first one holds the lock, and after it."""
    Path(folders[0], how).touch()
    mine, its = (f"{folder}/{how}" for folder in folders)
    holder, other = rivals.both
    if holder.ask("lock", how, mine) != "taken":
        raise TrialFailed("a file that nobody had locked could not be locked")
    try:
        while_held = other.ask("lock", how, its)
        if while_held == "taken":
            other.ask("unlock", its)
    finally:
        holder.ask("unlock", mine)
    afterwards = other.ask("lock", how, its)
    if afterwards == "taken":
        other.ask("unlock", its)
    return while_held, afterwards
