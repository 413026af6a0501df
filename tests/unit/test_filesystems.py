"""The type of the filesystem under a path, from the kernel's list of mounts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leasecron.backends import filesystems
from leasecron.backends.filesystems import UNKNOWN_LOCAL, Filesystem, filesystem_of

Mount = Callable[..., None]

# fmt: off
SHARED = [
    "nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "gpfs", "ocfs2", "gfs2",
    "virtiofs", "vboxsf", "fuse.sshfs", "fuse.what-is-this", "no-such-type",
]
# fmt: on


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mount:
    """Return a function that makes these lines the list of mounts; ``DEV`` is the true device."""
    number = os.stat(tmp_path).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    listing = tmp_path / "mountinfo"
    monkeypatch.setattr(filesystems, "_MOUNTS", str(listing))

    def write(*lines: str) -> None:
        listing.write_text("".join(f"{line}\n" for line in lines).replace("DEV", device))

    return write


def test_the_longest_mount_point_above_the_path_counts(mounted: Mount, tmp_path: Path) -> None:
    mounted(
        "1 0 9:1 / / rw - ext4 /dev/a rw",
        f"2 1 9:2 / {tmp_path} rw shared:7 master:1 - nfs4 server:/export rw,vers=4.2",
        f"3 1 9:3 / {tmp_path}x rw - tmpfs tmpfs rw",
        f"4 2 9:4 / {tmp_path}/deeper rw - xfs /dev/b rw",
    )

    found = filesystem_of(str(tmp_path / "store.db"))

    assert found == Filesystem("nfs4", frozenset({"rw", "vers=4.2"}))
    assert found.is_network


def test_of_two_mounts_on_one_point_the_later_counts(mounted: Mount, tmp_path: Path) -> None:
    mounted(f"1 0 9:1 / {tmp_path} rw - nfs s:/ rw", f"2 1 9:2 / {tmp_path} rw - xfs /dev/b rw")

    assert filesystem_of(str(tmp_path / "store.db")).type == "xfs"


def test_a_mount_hidden_under_a_later_one_is_told_by_its_device(
    mounted: Mount, tmp_path: Path
) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    mounted(f"1 0 9:1 / {folder} rw - ext4 /dev/a rw", f"2 0 DEV / {tmp_path} rw - cifs //s/x rw")

    assert filesystem_of(str(folder / "store.db")).type == "cifs"


def test_a_mount_point_is_read_with_its_octal_escapes(mounted: Mount, tmp_path: Path) -> None:
    folder = tmp_path / "a b\tc\\d\ne"
    folder.mkdir()
    escaped = str(folder).replace("\\", r"\134").replace(" ", r"\040")
    escaped = escaped.replace("\t", r"\011").replace("\n", r"\012")
    mounted("1 0 9:1 / / rw - ext4 /dev/a rw", f"2 1 9:2 / {escaped} rw - ceph mon:/ rw")

    assert filesystem_of(str(folder / "store.db")).type == "ceph"


def test_a_link_is_followed(mounted: Mount, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    mounted("1 0 9:1 / / rw - ext4 /dev/a rw", f"2 1 9:2 / {tmp_path}/real rw - 9p share rw")

    assert filesystem_of(str(tmp_path / "link" / "store.db")).type == "9p"


def test_a_file_can_be_a_mount_point(mounted: Mount, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    mounted("1 0 9:1 / / rw - ext4 /dev/a rw", f"2 1 9:2 / {path} rw - ext4 /dev/a rw")

    assert filesystem_of(str(path)).is_mount_point
    assert not filesystem_of(str(tmp_path / "other.db")).is_mount_point


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "apfs"])
def test_a_disk_is_local(kind: str) -> None:
    assert not Filesystem(kind).is_network


@pytest.mark.parametrize("kind", SHARED)
def test_what_hosts_share_or_nobody_knows_counts_as_network(kind: str) -> None:
    assert Filesystem(kind).is_network


@pytest.mark.parametrize("option", ["nolock", "nobrl", "local_lock=all", "local_lock=posix"])
def test_locks_that_stay_on_the_host_are_named(option: str) -> None:
    assert Filesystem("nfs", frozenset({"rw", option})).private_locks == option
    assert Filesystem("ext4", frozenset({"rw", option})).private_locks is None


def test_working_locks_are_not_named() -> None:
    assert Filesystem("nfs", frozenset({"rw", "local_lock=none"})).private_locks is None


def test_without_a_list_of_mounts_a_path_counts_as_local(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(filesystems, "_MOUNTS", str(tmp_path / "missing"))

    found = filesystem_of(str(tmp_path))

    assert found.type == UNKNOWN_LOCAL
    assert not found.is_network


@pytest.mark.skipif(sys.platform != "linux", reason="the list of mounts is Linux's")
def test_the_kernels_own_list_is_understood() -> None:
    assert filesystem_of("/proc/self/status").type == "proc"
