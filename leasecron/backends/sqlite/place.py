"""Whether a path can hold a SQLite store, found out without opening it.

An ``open`` and ``close`` of a database file by anything but SQLite drops all locks that this
process has on it. So everything here comes from ``stat``, ``access`` and the list of mounts.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from leasecron.backends.filesystems import Filesystem, filesystem_of
from leasecron.backends.modes import PRIVATE, Owner
from leasecron.errors import BackendError, BackendUnavailable, ConfigurationError, shown

Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Place:
    """A path that may be opened: ``real`` is free of links.

    ``mode`` and ``owner`` are those of the file, for the files beside it. Where there is no file,
    they are for it too: what was asked for, and whose the folder is.
    """

    path: str
    real: str
    filesystem: Filesystem
    exists: bool
    mode: int
    owner: Owner


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the path of a store as it is from now on, or raise ConfigurationError."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise ConfigurationError(f"the path of a SQLite store must be text, not {shown(path)}")
    if text in ("", ":memory:"):
        raise ConfigurationError(
            f"{shown(text)} is no path of a SQLite store; for a store in memory say 'memory://'"
        )
    if "\0" in text:
        raise ConfigurationError(f"the path of a SQLite store holds a NUL character: {shown(text)}")
    if text.endswith("/"):
        raise ConfigurationError(f"{shown(text)} is a folder; right is the path of a file in it")
    try:
        return os.path.join(os.getcwd(), text)
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{shown(text)} is a relative path, and the working directory is gone; right is a path"
            " that begins with /"
        ) from error


def examine(path: str, mode: int = PRIVATE) -> Place:
    """Return the place of a store, or raise BackendError with what is wrong with it.

    ``mode`` is for a file that is yet to be made.
    """
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    try:
        around = _check_folder(path, folder)
        found = _stat(real)
        if found is not None:
            _check_file(path, real, found)
    except OSError as error:
        raise BackendError(f"the store {path} cannot be used: {error.strerror}") from error
    filesystem = filesystem_of(real)
    if found is not None and filesystem.is_mount_point:
        raise _two_names(path, "is itself a mount point")
    if filesystem.private_locks:
        raise BackendError(
            f"the store {path} is on {filesystem.type} mounted with {filesystem.private_locks}, "
            "where no host sees the locks of another: mount it with working locks, or use lockdir://"
        )
    exists = found is not None and found.st_size > 0
    granted = mode if found is None else PRIVATE | stat.S_IMODE(found.st_mode) & 0o666
    whose = around if found is None else found
    return Place(path, real, filesystem, exists, granted, (whose.st_uid, whose.st_gid))


def identity_of(path: str) -> Identity:
    """Return what stays the same as long as the file is the same; raise where there is none."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise BackendUnavailable(
            f"the file of the store {path} is gone ({error.strerror}); nothing is claimed until it "
            "is back"
        ) from error
    return found.st_dev, found.st_ino


def log_identity(real: str) -> Identity | None:
    """Return which file the write-ahead log is; None where there is none."""
    try:
        found = os.stat(f"{real}-wal")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_log(place: Place, expected: Identity | None) -> None:
    """Raise BackendUnavailable where the log that a connection writes to is no longer in its place.

    Others would begin a new one, and neither would see what is in the other.
    """
    if expected is not None and log_identity(place.real) != expected:
        raise BackendUnavailable(
            f"the write-ahead log of the store {place.path} was removed or replaced while it was in"
            " use; nothing is claimed until the schedulers that use it are stopped and started"
        )


def check_identity(path: str, expected: Identity) -> None:
    """Raise BackendUnavailable where the path no longer leads to the file that was opened."""
    if identity_of(path) != expected:
        raise BackendUnavailable(
            f"the file of the store {path} was replaced by another one; nothing is claimed until "
            "it is back, or the scheduler is stopped and started again"
        )


def check_writable(place: Place) -> None:
    """Raise BackendUnavailable where the file may not be written.

    SQLite would open it all the same, and make files beside it that stay read-only for ever.
    """
    if not _allowed(place.real, os.R_OK | os.W_OK):
        raise BackendUnavailable(
            f"the store {place.path} cannot be used: no permission to write it"
        )


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _check_folder(path: str, folder: str) -> os.stat_result:
    try:
        found = os.stat(folder)
    except FileNotFoundError as error:
        raise BackendError(
            f"the folder {folder} of the store {path} does not exist; make it first: "
            "leasecron creates the file, never its folder"
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise BackendError(f"the store {path} cannot be used: {folder} is not a folder")
    if not _allowed(folder, os.W_OK | os.X_OK):
        raise BackendError(
            f"the store {path} cannot be used: no permission to write in the folder {folder}, "
            "where SQLite keeps its journal"
        )
    return found


def _check_file(path: str, real: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise BackendError(f"the store {path} cannot be used: it is {what}")
    if found.st_nlink > 1:
        raise _two_names(path, f"has {found.st_nlink} hard links")
    for right, what in ((os.R_OK, "read"), (os.W_OK, "write")):
        if not _allowed(real, right):
            raise BackendError(f"the store {path} cannot be used: no permission to {what} it")


def _two_names(path: str, reason: str) -> BackendError:
    return BackendError(
        f"the store {path} {reason}: processes that reach it by different names would each keep a "
        "journal of their own beside it and destroy it. Mount the directory that holds the file, "
        "not the file"
    )


def _allowed(path: str, rights: int) -> bool:
    """Ask for the rights of the effective user, which opening the file would need."""
    return os.access(path, rights, effective_ids=os.access in os.supports_effective_ids)
