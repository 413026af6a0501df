"""Every call of the operating system that a lock directory makes on a path.

Each function opens for itself what it needs. A network filesystem shows a freshly opened file as
the server has it, and answers ESTALE for one that was removed under its user: then the whole
function is done once more.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from leasecron.backends.modes import PRIVATE, give

_P = ParamSpec("_P")
_T = TypeVar("_T")

MOST = 64 * 1024
"""Bytes that are read of a file which is expected to be small."""

FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
"""With which everything is opened."""

_NO_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS, errno.EACCES})


def again_if_stale(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have a function done once more when it meets a file that is no longer there."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
        return function(*args, **kwargs)

    return call


@contextlib.contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """Have a descriptor of a path; one of ours is never a symbolic link, and not followed."""
    descriptor = os.open(path, flags | FLAGS, PRIVATE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@again_if_stale
def read_file(path: str, most: int | None = MOST) -> bytes | None:
    """Return what a file holds, cut after ``most`` bytes; None where there is no file."""
    try:
        # Without O_NONBLOCK, a named pipe that somebody put there would be waited for.
        with opened(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            return _read_all(descriptor, most)
    except FileNotFoundError:
        return None


def _read_all(descriptor: int, most: int | None) -> bytes:
    parts: list[bytes] = []
    left = most
    while left is None or left > 0:
        part = os.read(descriptor, MOST if left is None else min(MOST, left))
        if not part:
            break
        parts.append(part)
        left = None if left is None else left - len(part)
    return b"".join(parts)


@again_if_stale
def link_count(path: str) -> int:
    """Return how many names a file has; 0 where it is not to be seen."""
    try:
        with opened(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
            return os.fstat(descriptor).st_nlink
    except FileNotFoundError:
        return 0


@again_if_stale
def write_new(path: str, content: bytes, mode: int) -> None:
    """Make a file and have it on the disk; raise FileExistsError where there is one."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        _grant(descriptor, path, mode)
        _write(descriptor, content)


@again_if_stale
def reserve(path: str) -> None:
    """Make an empty file, which may not be on the disk yet; raise FileExistsError where is one."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL):
        pass


@again_if_stale
def stamp(path: str, mode: int) -> None:
    """Have the server date a file, which is made if it is not there."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK) as descriptor:
        _grant(descriptor, path, mode)
        os.utime(descriptor)


@again_if_stale
def write_again(path: str, content: bytes, mode: int) -> None:
    """Write a file that this process has begun, from its start, and have it on the disk.

    What it held is the same but for the digits of a time, so that a reader finds a whole one.
    """
    with opened(path, os.O_WRONLY) as descriptor:
        _grant(descriptor, path, mode)
        _write(descriptor, content)


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
    os.fsync(descriptor)


def _grant(descriptor: int, path: str, mode: int) -> None:
    """Give what is new, and so empty, its mode, and to whom the folder belongs that it is in."""
    folder = os.stat(os.path.dirname(path))
    give(descriptor, mode, (folder.st_uid, folder.st_gid))


@again_if_stale
def link(private: str, path: str) -> None:
    """Give a file a second name. What it raises proves nothing: an answer can be lost."""
    os.link(private, path)


@again_if_stale
def move(old: str, new: str) -> None:
    """Rename a file to a name that nobody uses."""
    os.rename(old, new)


@again_if_stale
def remove(path: str) -> None:
    """Remove a file, if it is still there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def discard(path: str) -> None:
    """Remove a file that does no harm where it stays."""
    with contextlib.suppress(OSError):
        os.unlink(path)


@again_if_stale
def root_status(path: str) -> os.stat_result | None:
    """Return what a path leads to, over links too; None for nothing."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


@again_if_stale
def make_root(path: str, mode: int) -> None:
    """Make the folder of a store; one that is there already is fine, and keeps its mode."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        return
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        _grant(descriptor, path, mode)


@again_if_stale
def make_folder(path: str, mode: int) -> None:
    """Make a folder, but not the one that it is in; one that is there already is fine."""
    try:
        os.mkdir(path, mode & 0o777)
    except FileExistsError:
        check_folder(path)
        return
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        _grant(descriptor, path, mode)


def check_folder(path: str) -> None:
    """Raise NotADirectoryError where something else is in the place of a folder.

    Nothing is made or removed in such a thing, as a link could lead out of the store.
    """
    found = status_of(path)
    if found is not None and not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


@again_if_stale
def remove_folder(path: str) -> None:
    """Remove a folder, if it is there and empty."""
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST}:
            raise


@again_if_stale
def sync_folder(path: str) -> None:
    """Have the names in a folder on the disk, where the filesystem can be asked for that."""
    try:
        descriptor = os.open(path, os.O_RDONLY)  # the whole store may be behind a symbolic link
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


@again_if_stale
def names_in(path: str) -> list[str]:
    """Return the sorted names in a folder; none where it is not there."""
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []


@again_if_stale
def some_names_in(path: str, most: int) -> list[str]:
    """Return up to so many names in a folder, in no order; none where it is not there."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in itertools.islice(entries, most)]
    except FileNotFoundError:
        return []


@again_if_stale
def status_of(path: str) -> os.stat_result | None:
    """Return what the filesystem says of a path, whose links are not followed; None for nothing."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def modified_ms(path: str) -> int | None:
    """Return when a file was last changed, in Unix milliseconds of the file server."""
    found = status_of(path)
    return None if found is None else found.st_mtime_ns // 1_000_000


def access_problem(path: str) -> str | None:
    """Say why the effective user can make nothing in a folder; None where he can."""
    rights = os.R_OK | os.W_OK | os.X_OK
    if os.access(path, rights, effective_ids=os.access in os.supports_effective_ids):
        return None
    try:
        read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except FileNotFoundError:
        return "it is missing"
    except OSError:
        read_only = False
    if read_only:
        return "its filesystem is read-only"
    found = status_of(path)
    mode = f", mode {stat.S_IMODE(found.st_mode):o}, of user id {found.st_uid}" if found else ""
    return f"no permission to write in it as user id {os.geteuid()}{mode}"
