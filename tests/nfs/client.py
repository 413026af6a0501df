"""A mount of an NFS export through libnfs and FUSE, with caches that last some seconds.

``python client.py URL MOUNTPOINT`` is one mount; see :mod:`support.fuse_twice` for its end.

Version 4 of the protocol numbers the opens of a client, and the library loses count when one fails
or when a file is opened twice. So a file is open once, whatever its names, and what could fail is
asked before: a new file is made under a name that nobody else has, and linked.
"""

import ctypes
import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from support.fuse_twice import UTIME_NOW, serve

from nfs.libnfs import Export, Handle


@dataclass(slots=True)
class _Open:
    handle: Handle
    users: int = 1


class NfsClient:
    """What the kernel asks of a mount, answered by the server. Open files go by their inode."""

    use_ns = True

    def __init__(self, export: Export) -> None:
        self._export = export
        self._open: dict[int, _Open] = {}

    def init(self, path: str) -> None:
        print("mounted", flush=True)

    def getattr(self, path: str, handle: Any = None) -> dict[str, int]:
        if handle is not None:
            return self._export.stat_open(self._open[handle.fh].handle)
        return self._export.stat(os.fsencode(path))

    def readdir(self, path: str, handle: Any) -> Iterator[str]:
        yield from self._export.names(os.fsencode(path))

    def create(self, path: str, mode: int, handle: Any) -> int:
        private = os.path.join(os.path.dirname(path), f".new-{secrets.token_hex(8)}")
        new = self._export.open(
            os.fsencode(private), os.O_CREAT | os.O_EXCL | os.O_RDWR, mode & 0o7777
        )
        try:
            self.link(path, private)
        except FileExistsError:
            self._export.close(new)
            if handle.flags & os.O_EXCL:
                raise
            return self.open(path, handle)
        finally:
            self.unlink(private)
        handle.fh = self._export.stat_open(new)["st_ino"]
        self._open[handle.fh] = _Open(new)
        return 0

    def open(self, path: str, handle: Any) -> int:
        handle.fh = self._opened(path)
        if handle.flags & os.O_TRUNC:
            self._export.set_length(self._open[handle.fh].handle, 0)
        return 0

    def _opened(self, path: str) -> int:
        inode = self.getattr(path)["st_ino"]
        if inode in self._open:
            self._open[inode].users += 1
        else:
            self._open[inode] = _Open(self._export.open(os.fsencode(path), os.O_RDWR))
        return inode

    def _let_go(self, inode: int) -> None:
        self._open[inode].users -= 1
        if not self._open[inode].users:
            self._export.close(self._open.pop(inode).handle)

    def release(self, path: str, handle: Any) -> int:
        self._let_go(handle.fh)
        return 0

    def read(self, path: str, size: int, offset: int, handle: Any) -> bytes:
        return self._export.read(self._open[handle.fh].handle, size, offset)

    def write(self, path: str, data: bytes, offset: int, handle: Any) -> int:
        return self._export.write(self._open[handle.fh].handle, data, offset)

    def fsync(self, path: str, datasync: int, handle: Any) -> int:
        return self._export.sync(self._open[handle.fh].handle)

    def fsyncdir(self, path: str, datasync: int, handle: Any) -> int:
        return 0  # over NFS a directory's changes are on the server's disk when they are answered

    def truncate(self, path: str, length: int, handle: Any = None) -> int:
        inode = self._opened(path)
        try:
            return self._export.set_length(self._open[inode].handle, length)
        finally:
            self._let_go(inode)

    def link(self, target: str, source: str) -> int:
        return self._export.call("nfs_link", os.fsencode(source), os.fsencode(target))

    def rename(self, old: str, new: str) -> int:
        return self._export.call("nfs_rename", os.fsencode(old), os.fsencode(new))

    def unlink(self, path: str) -> int:
        return self._export.call("nfs_unlink", os.fsencode(path))

    def mkdir(self, path: str, mode: int) -> int:
        return self._export.call("nfs_mkdir2", os.fsencode(path), mode)

    def rmdir(self, path: str) -> int:
        return self._export.call("nfs_rmdir", os.fsencode(path))

    def chmod(self, path: str, mode: int) -> int:
        return self._export.call("nfs_chmod", os.fsencode(path), mode & 0o7777)

    def chown(self, path: str, uid: int, gid: int) -> int:
        return self._export.call("nfs_chown", os.fsencode(path), uid, gid)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        if times is None or UTIME_NOW in times:
            # The library cannot ask for the server's own time, but a change of the length does.
            return self.truncate(path, self.getattr(path)["st_size"])
        parts = [part for time in times for part in (time // 10**9, time % 10**9 // 1000)]
        return self._export.call("nfs_utimes", os.fsencode(path), (ctypes.c_long * 4)(*parts))


if __name__ == "__main__":
    serve(NfsClient(Export(sys.argv[1])), sys.argv[2])
