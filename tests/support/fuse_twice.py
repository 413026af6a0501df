"""One directory that is mounted a second and a third time, each mount with caches of its own.

``python fuse_twice.py DIRECTORY MOUNTPOINT`` is one mount, and lives until its standard input ends.
Two of them are to each other what two hosts on one NFS mount are: what was looked up on one is
believed for some seconds, absent names too, and ``flock`` is known to one mount alone.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

CACHED = 3.0
"""Seconds for which a mount believes what it has seen, or has not seen."""

UTIME_NOW = (1 << 30) - 1
"""What stands for the time of a change where the server shall choose it."""

_STAT = ("dev", "ino", "mode", "nlink", "uid", "gid", "size", "blocks")
_TIMES = ("atime", "mtime", "ctime")
_STATVFS = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "flag", "frsize")


class PassThrough:
    """What the kernel asks of a mount, answered by the directory behind it."""

    use_ns = True

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def _behind(self, path: str) -> str:
        return self._directory + path

    def init(self, path: str) -> None:
        print("mounted", flush=True)

    def getattr(self, path: str, handle: Any = None) -> dict[str, int]:
        found = os.lstat(self._behind(path)) if handle is None else os.fstat(handle.fh)
        facts = {f"st_{name}": getattr(found, f"st_{name}") for name in _STAT}
        return facts | {f"st_{name}": getattr(found, f"st_{name}_ns") for name in _TIMES}

    def readdir(self, path: str, handle: Any) -> Iterator[str]:
        yield from (".", "..", *os.listdir(self._behind(path)))

    def create(self, path: str, mode: int, handle: Any) -> int:
        handle.fh = os.open(self._behind(path), handle.flags | os.O_CREAT, mode)
        return 0

    def open(self, path: str, handle: Any) -> int:
        handle.fh = os.open(self._behind(path), handle.flags)
        return 0

    def read(self, path: str, size: int, offset: int, handle: Any) -> bytes:
        return os.pread(handle.fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, handle: Any) -> int:
        return os.pwrite(handle.fh, data, offset)

    def fsync(self, path: str, datasync: int, handle: Any) -> int:
        os.fsync(handle.fh)
        return 0

    def fsyncdir(self, path: str, datasync: int, handle: Any) -> int:
        return 0  # the directory behind survives all that a test does

    def release(self, path: str, handle: Any) -> int:
        os.close(handle.fh)
        return 0

    def truncate(self, path: str, length: int, handle: Any = None) -> int:
        os.truncate(self._behind(path), length)
        return 0

    def link(self, target: str, source: str) -> int:
        os.link(self._behind(source), self._behind(target))
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self._behind(old), self._behind(new))
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._behind(path))
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._behind(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._behind(path))
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._behind(path), mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        os.chown(self._behind(path), uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        # "Now" is the server's, as over NFS.
        if times is None or UTIME_NOW in times:
            os.utime(self._behind(path))
        else:
            os.utime(self._behind(path), ns=times)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._behind(path))
        return {f"f_{name}": getattr(found, f"f_{name}") for name in _STATVFS}


def serve(operations: object, mountpoint: str) -> None:
    """Answer for a mount with ``operations`` until the standard input of this program ends.

    Whoever started it may end in any way: the mount never outlives him.
    """
    mfusepy = importlib.import_module("mfusepy")
    ended = threading.Event()

    def end_with_the_input() -> None:
        while os.read(0, 4096):
            pass
        ended.set()
        os.kill(os.getpid(), signal.SIGTERM)

    os.umask(0)  # the asking process has applied its own
    threading.Thread(target=end_with_the_input, daemon=True).start()
    try:
        mfusepy.FUSE(
            operations,
            mountpoint,
            raw_fi=True,
            foreground=True,
            nothreads=True,
            attr_timeout=CACHED,
            entry_timeout=CACHED,
            negative_timeout=CACHED,
            default_permissions=True,
            direct_io=True,  # what is opened is read anew, as NFS does
            fsname="leasecron-test",
        )
    except RuntimeError:
        if not ended.is_set():
            raise


if __name__ == "__main__":
    serve(PassThrough(os.path.realpath(sys.argv[1])), sys.argv[2])
