"""The C library libnfs, by way of ctypes: one mounted export, whose calls raise OSError.

One mount to a process: two that are made in the same second would be one client to the server.
"""

import ctypes
import os
from typing import Any

LIBRARY = "libnfs.so.13"
Handle = int


class Stat(ctypes.Structure):
    """What the library says of a file."""

    _fields_ = tuple(
        (f"nfs_{name}", ctypes.c_uint64)
        for name in (
            *("dev", "ino", "mode", "nlink", "uid", "gid", "rdev", "size", "blksize", "blocks"),
            *("atime", "mtime", "ctime", "atime_nsec", "mtime_nsec", "ctime_nsec", "used"),
        )
    )

    def facts(self) -> dict[str, int]:
        """Return the fields under the names of ``os.stat_result``, times in nanoseconds."""
        names = ("dev", "ino", "mode", "nlink", "uid", "gid", "size", "blocks")
        plain = {f"st_{name}": int(getattr(self, f"nfs_{name}")) for name in names}
        times = {
            f"st_{name}": getattr(self, f"nfs_{name}") * 10**9 + getattr(self, f"nfs_{name}_nsec")
            for name in ("atime", "mtime", "ctime")
        }
        return plain | times


class _Url(ctypes.Structure):
    _fields_ = (
        ("server", ctypes.c_char_p),
        ("path", ctypes.c_char_p),
        ("file", ctypes.c_char_p),
    )


class _Entry(ctypes.Structure):
    _fields_ = (("next", ctypes.c_void_p), ("name", ctypes.c_char_p))


class Export:
    """What ``nfs_*`` calls are made on."""

    def __init__(self, url: str) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        for name in ("nfs_init_context", "nfs_parse_url_dir", "nfs_readdir"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._library.nfs_get_error.restype = ctypes.c_char_p
        self._context = ctypes.c_void_p(self._library.nfs_init_context())
        parsed = self._library.nfs_parse_url_dir(self._context, url.encode())
        if not parsed:
            raise OSError(self._error())
        target = ctypes.cast(parsed, ctypes.POINTER(_Url)).contents
        self.call("nfs_mount", target.server, target.path)

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function of the library; its negative answers are error numbers."""
        answer = int(getattr(self._library, name)(self._context, *arguments))
        if answer < 0:
            raise OSError(-answer, f"{os.strerror(-answer)}: {self._error()}")
        return answer

    def stat(self, path: bytes) -> dict[str, int]:
        """Return the facts of a path, links not followed."""
        found = Stat()
        self.call("nfs_lstat64", path, ctypes.byref(found))
        return found.facts()

    def stat_open(self, handle: Handle) -> dict[str, int]:
        """Return the facts of an open file."""
        found = Stat()
        self.call("nfs_fstat64", ctypes.c_void_p(handle), ctypes.byref(found))
        return found.facts()

    def open(self, path: bytes, flags: int, mode: int = 0) -> Handle:
        """Open a file and return its handle."""
        handle = ctypes.c_void_p()
        self.call("nfs_open2", path, flags, mode, ctypes.byref(handle))
        assert handle.value is not None
        return handle.value

    def read(self, handle: Handle, size: int, offset: int) -> bytes:
        """Read at an offset."""
        buffer = ctypes.create_string_buffer(size)
        count = self.call(
            "nfs_pread",
            ctypes.c_void_p(handle),
            ctypes.c_uint64(offset),
            ctypes.c_uint64(size),
            buffer,
        )
        return buffer.raw[:count]

    def write(self, handle: Handle, data: bytes, offset: int) -> int:
        """Write at an offset."""
        return self.call(
            "nfs_pwrite",
            ctypes.c_void_p(handle),
            ctypes.c_uint64(offset),
            ctypes.c_uint64(len(data)),
            data,
        )

    def sync(self, handle: Handle) -> int:
        """Return when what was written is on the server's disk."""
        return self.call("nfs_fsync", ctypes.c_void_p(handle))

    def set_length(self, handle: Handle, length: int) -> int:
        """Cut a file, or lengthen it; either way it is changed now."""
        return self.call("nfs_ftruncate", ctypes.c_void_p(handle), ctypes.c_uint64(length))

    def close(self, handle: Handle) -> int:
        """Close a file."""
        return self.call("nfs_close", ctypes.c_void_p(handle))

    def names(self, path: bytes) -> list[str]:
        """Return what a directory holds."""
        directory = ctypes.c_void_p()
        self.call("nfs_opendir", path, ctypes.byref(directory))
        found = []
        try:
            while entry := self._library.nfs_readdir(self._context, directory):
                name = ctypes.cast(entry, ctypes.POINTER(_Entry)).contents.name
                found.append(os.fsdecode(name))
        finally:
            self._library.nfs_closedir(self._context, directory)
        return found

    def _error(self) -> str:
        return os.fsdecode(self._library.nfs_get_error(self._context) or b"")
