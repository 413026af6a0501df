"""What the folders and files of a lock directory are called.

A job's name becomes a readable head and a hash of the exact name: any two names differ in their
hash, also where a filesystem takes upper and lower case for the same, and no name leads out of its
folder. What begins with a dot is private to whoever writes it.
"""

from __future__ import annotations

import os
import re
from datetime import date

from leasecron.errors import ConfigurationError, shown
from leasecron.jobs import check_name
from leasecron.model import from_ms

MARKER = "leasecron.json"
JOBS = "jobs"
HISTORY = "history"
CLOCKS = "clocks"
LOCKS = "locks"
FOLDERS = (JOBS, HISTORY, CLOCKS, LOCKS)
JOB_FILE = "job.json"
PRUNE_LOCK = "prune.lock"
MERGE_STAMP = "merge.stamp"
MERGED = "merged"

LAST = 253_402_300_799_999
"""The end of the year 9999 in Unix milliseconds: what a file says of a later time is wrong."""

_HEAD = 48
_MARK = "pruned-"
_LONGEST_PATH = 3800
_OTHER = re.compile(r"[^a-z0-9]+")
_SLOT = re.compile(r"-?[0-9]{1,18}")
_PRIVATE = re.compile(r"\.(leasecron\.json|job\.json|merged|-?[0-9]{1,18})\.[0-9a-z]{1,64}")
_PLAIN_TOKEN = re.compile(r"[0-9a-z]{1,64}")


def folder_of_job(job: str) -> str:
    """Return the name of a job's folder: at most 81 ASCII characters.

    Raises :class:`ConfigurationError` for a name that no store can keep.
    """
    check_name(job)
    return f"{_head(job)}-{_digest(job)}"


def file_of_instance(instance: str, kernel: str) -> str:
    """Return the name, without its ending, of the history of one instance under one kernel."""
    return f"{_head(instance)}-{_digest(kernel + chr(0) + instance)}"


def file_of_probe() -> str:
    """Return a name for a probe file that no other process uses."""
    return f"{_head(os.uname().nodename)}-{os.getpid()}-{os.urandom(6).hex()}"


def day_of(slot: int) -> str:
    """Return the name of the folder for a slot in milliseconds: its day in UTC."""
    return from_ms(slot).date().isoformat()


def as_day(name: str) -> date | None:
    """Return the day that a folder is for, or None where it is for none."""
    try:
        day = date.fromisoformat(name)
    except ValueError:
        return None
    return day if day.isoformat() == name else None


def as_slot(name: str) -> int | None:
    """Return the slot that a file claims, in milliseconds, or None where it is no claim."""
    return int(name) if _SLOT.fullmatch(name) else None


def mark_of(day: date) -> str:
    """Return the name of the file which says that claims up to this day were pruned."""
    return f"{_MARK}{day.isoformat()}"


def as_mark(name: str) -> date | None:
    """Return the day that a mark is for, or None where it is none."""
    return as_day(name.removeprefix(_MARK)) if name.startswith(_MARK) else None


def private_name(name: str, token: str) -> str:
    """Return what a file is called until it is known to be the one called ``name``."""
    return f".{name}.{token if _PLAIN_TOKEN.fullmatch(token) else _digest(token)}"


def is_private(name: str) -> bool:
    """Say whether a file is one that a writer of ours has, or left behind when it crashed."""
    return _PRIVATE.fullmatch(name) is not None


def absolute_folder(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a lock directory; raises :class:`ConfigurationError`."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise ConfigurationError(f"the path of a lock directory must be text, not {shown(path)}")
    if not text:
        raise ConfigurationError("the path of a lock directory must not be empty ('')")
    if "\0" in text:
        raise ConfigurationError(
            f"the path of a lock directory holds a NUL character: {shown(text)}"
        )
    if text.startswith("lockdir:"):
        raise ConfigurationError(
            f"{shown(text)} is a URL, for Scheduler(...); right here is the path of a directory"
        )
    try:
        path = os.path.join(os.getcwd(), text).rstrip("/") or "/"
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{shown(text)} is a relative path, and the working directory is gone; right is a path"
            " that begins with /"
        ) from error
    if len(os.fsencode(path)) > _LONGEST_PATH:  # a claim has 250 more, and 4096 is the limit
        raise ConfigurationError(
            f"the path of a lock directory has {len(os.fsencode(path))} bytes; right are at most "
            f"{_LONGEST_PATH}, since claims are files in folders in it"
        )
    return path


def url_of(path: str) -> str:
    """Return the URL of a lock directory."""
    return f"lockdir:///{path}"


def _head(text: str) -> str:
    return _OTHER.sub("-", text.lower())[:_HEAD].strip("-") or "job"


def _digest(text: str) -> str:
    import hashlib  # noqa: PLC0415 - slow to import, and only a lock directory needs it

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
