"""Locks on files of a lock directory, which keep the processes of one host apart.

Between hosts they may hold or not, as the mount has it; nothing depends on that but the work that
two of them would do twice.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from leasecron.backends import lockdir_descriptors as descriptors

_WAIT = 0.25
_POLL = 0.002
_PRUNE_WAIT = 0.15


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
    """Say whether it is this process's turn, which it is also where there are no locks."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - slow to import, and rarely needed

    lock = FileLock(
        path,
        timeout=_PRUNE_WAIT,
        poll_interval=0.02,
        mode=mode,
        thread_local=False,
        fallback_to_soft=False,
    )
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    except (NotImplementedError, OSError) as error:
        if not descriptors.means_no_locks(error):
            raise
        yield True
        return
    try:
        yield True
    finally:
        lock.release()
