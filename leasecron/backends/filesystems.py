"""What kind of filesystem a path is on, without opening the path.

SQLite's write-ahead log lives in memory that all its users must share, so it needs one host. The
kernel's list of mounts tells the type; what it does not tell is whether another host uses it too.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

_MOUNTS = "/proc/self/mountinfo"
_ESCAPE = re.compile(rb"\\([0-7]{3})")

# fmt: off
_LOCAL = frozenset({
    "apfs", "bcachefs", "btrfs", "ecryptfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuseblk",
    "hfs", "hfsplus", "jfs", "msdos", "nilfs2", "ntfs", "ntfs3", "overlay", "ramfs", "reiserfs",
    "rootfs", "tmpfs", "ubifs", "udf", "ufs", "vfat", "xfs", "zfs",
})
# fmt: on
UNKNOWN_LOCAL = "unknown-local"
"""The type where no list of mounts is to be had; it is treated as local."""

_PRIVATE_LOCKS = frozenset({"nolock", "nobrl", "local_lock=all", "local_lock=posix"})


@dataclass(frozen=True, slots=True)
class Filesystem:
    """A mounted filesystem as a path sees it; ``is_mount_point`` is about the path itself."""

    type: str
    options: frozenset[str] = frozenset()
    is_mount_point: bool = False

    def __str__(self) -> str:
        options = ", ".join(sorted(filter(None, self.options)))
        return f"{self.type} ({options})" if options else self.type

    @property
    def is_network(self) -> bool:
        """Say whether other hosts may use it. A type that is not known to be local counts as one.

        That covers nfs, cifs, 9p, ceph, lustre, virtiofs and the like, and every FUSE filesystem.
        """
        return self.type not in _LOCAL and self.type != UNKNOWN_LOCAL

    @property
    def private_locks(self) -> str | None:
        """Name the mount option, if any, by which other hosts do not see a lock of this one."""
        found = self.options & _PRIVATE_LOCKS
        return min(found) if self.is_network and found else None


@dataclass(frozen=True, slots=True)
class _Mount:
    device: str
    point: str
    type: str
    options: frozenset[str]

    def covers(self, path: str) -> bool:
        return self.point in ("/", path) or path.startswith(self.point + "/")


def filesystem_of(path: str) -> Filesystem:
    """Return the filesystem of ``path``, or of its folder where the path does not exist yet."""
    real = os.path.realpath(path)
    try:
        with open(_MOUNTS, "rb") as file:
            mounts = [_parse(line) for line in file]
    except OSError:  # not Linux, or /proc is not mounted
        return Filesystem(UNKNOWN_LOCAL)
    above = [mount for mount in mounts if mount.covers(real)]
    # A mount can be hidden by a later one over its parent folder: the device number tells. On btrfs
    # and overlay no mount has the number that stat gives, and the longest prefix has to do.
    device = _device(real)
    candidates = [mount for mount in above if mount.device == device] or above
    if not candidates:
        return Filesystem(UNKNOWN_LOCAL)
    length = max(len(mount.point) for mount in candidates)
    mount = [item for item in candidates if len(item.point) == length][-1]
    return Filesystem(mount.type, mount.options, is_mount_point=mount.point == real != "/")


def _device(real: str) -> str | None:
    for path in (real, os.path.dirname(real)):
        try:
            number = os.stat(path).st_dev
        except OSError:
            continue
        return f"{os.major(number)}:{os.minor(number)}"
    return None


def _parse(line: bytes) -> _Mount:
    """Read one line; see "mountinfo" in proc(5)."""
    before, _dash, after = line.rstrip(b"\n").partition(b" - ")
    device, _root, point, options = before.split(b" ")[2:6]
    kind, _source, more = [*after.split(b" "), b""][:3]
    named = os.fsdecode(options + b"," + more).split(",")
    return _Mount(device.decode("ascii"), _unescape(point), os.fsdecode(kind), frozenset(named))


def _unescape(field: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), field))
