"""What a lock directory does with a file that it has open: its probe, and its own history."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from leasecron.backends.lockdir.io import FLAGS, again_if_stale, status_of, sync_folder, write_new


def open_probe(path: str, mode: int) -> int:
    """Return a descriptor of a file for :func:`touch`, which is made if it is not there.

    It is open for reading: a client that may write can be trusted by its server to date the file
    itself, by its own clock.
    """
    try:
        return _open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        write_new(path, b"", mode)
        return _open_regular(path, os.O_RDONLY)


def touch(descriptor: int) -> int:
    """Have the server date a file, and return that date in Unix nanoseconds."""
    os.utime(descriptor)
    return os.fstat(descriptor).st_mtime_ns


def close(descriptor: int) -> None:
    """Close a descriptor from which nothing was written."""
    with contextlib.suppress(OSError):
        os.close(descriptor)


@again_if_stale
def open_to_append(path: str, create: int | None) -> int | None:
    """Return a descriptor of a file, made with the mode ``create`` if it is missing, or None."""
    try:
        return _open_regular(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        if create is None:
            return None
    with contextlib.suppress(FileExistsError):
        write_new(path, b"", create)
    sync_folder(os.path.dirname(path))  # what is written to it is lost with its name
    return _open_regular(path, os.O_RDWR | os.O_APPEND)


def _open_regular(path: str, flags: int) -> int:
    # Without O_NONBLOCK, a named pipe that somebody put there would be waited for.
    descriptor = os.open(path, flags | os.O_NONBLOCK | FLAGS)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    close(descriptor)
    raise OSError(errno.ENXIO, "it is not a file", path)  # as the system says of a socket


def is_at(descriptor: int, path: str) -> bool:
    """Say whether a path still leads to an open file."""
    found, there = os.fstat(descriptor), status_of(path)
    return there is not None and (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)


def has_name(descriptor: int) -> bool:
    """Say whether an open file has not been removed."""
    return os.fstat(descriptor).st_nlink > 0


def size_of(descriptor: int) -> int:
    """Return the length of an open file."""
    return os.fstat(descriptor).st_size


def append(descriptor: int, data: bytes) -> None:
    """Write whole lines to the end of a file and have them on the disk, or nothing of them.

    A line that somebody left without its end is closed first.
    """
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data
    try:
        _write_all_or_raise(descriptor, data)
        os.fsync(descriptor)
    except OSError:
        # Nobody else appends meanwhile. What cannot be taken back is skipped when it is read.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def close_written(descriptor: int) -> None:
    """Close a descriptor, which over a network can tell of a write that failed."""
    os.close(descriptor)


def _write_all_or_raise(descriptor: int, data: bytes) -> None:
    # A second write for the rest could end in the middle of a line, too.
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
