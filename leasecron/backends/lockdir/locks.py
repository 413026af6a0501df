"""Locks on files of a lock directory, which keep the processes of one host apart.

Between hosts they may hold or not, as the mount has it; nothing depends on that but the work that
two of them would do twice.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator

from leasecron.backends.lockdir import descriptors, io
from leasecron.backends.lockdir.files import BARRED

_WAIT = 0.25
_POLL = 0.002


@contextlib.contextmanager
def locked_file(path: str, *, create: int | None) -> Iterator[int | None]:
    """Have a file that other processes append to, as a descriptor with its lock.

    None where it is busy, or not there and ``create``, the mode of a new one, is None. Where the
    filesystem has no locks it is to be had without: an append by one kernel is whole there too.
    """
    descriptor = descriptors.open_to_append(path, create)
    if descriptor is None:
        yield None
        return
    try:
        yield descriptor if _lock(descriptor) else None
    finally:
        descriptors.close_written(descriptor)  # which ends the lock


def _lock(descriptor: int) -> bool:
    from portalocker import (  # noqa: PLC0415 - slow to import, and only a history needs it
        AlreadyLocked,
        LockException,
        LockFlags,
        lock,
    )

    deadline = time.monotonic() + _WAIT
    while True:
        try:
            lock(descriptor, LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING)
        except AlreadyLocked:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL)
        except LockException:
            return True
        else:
            return True


@contextlib.contextmanager
def one_at_a_time(path: str, mode: int) -> Iterator[bool]:
    """Say whether it is this process's turn, which it is also where there are no locks.

    Not by a lock that makes the folder of its file: that could be where a mount has just gone.
    """
    with contextlib.ExitStack() as stack:
        try:
            io.check_folder(os.path.dirname(path))
            is_turn = stack.enter_context(locked_file(path, create=mode)) is not None
        except OSError as error:
            if error.errno not in {*BARRED, errno.ENOTDIR}:
                raise
            is_turn = True  # what somebody put in its place keeps nobody from pruning
        yield is_turn
