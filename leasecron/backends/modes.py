"""Whose the files of a store are, and what they grant, whatever the umask."""

from __future__ import annotations

import errno
import os
import stat

from leasecron.errors import ConfigurationError, shown

PRIVATE = 0o600
"""What files grant unless more was asked for: everything to the user whose they are."""

Owner = tuple[int, int]
"""User and group, by their numbers."""

_NOT_FOR_US = frozenset({errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})


def check_mode(mode: object, of: str) -> None:
    """Refuse what is no mode of a store's files; raises :class:`ConfigurationError`."""
    bits = mode if isinstance(mode, int) and not isinstance(mode, bool) else -1
    if bits & PRIVATE == PRIVATE and not bits & ~0o666:
        return
    found = f"0o{bits:o}" if 0 <= bits <= 0o7777777 else shown(mode)
    raise ConfigurationError(
        f"{of}: mode={found} is wrong; right is what files grant, such as 0o600 (their user "
        "alone), 0o660 (his group too) or 0o666 (everybody): reading and writing, and never less "
        "than 0o600"
    )


def folder_mode(mode: int) -> int:
    """Return what a folder grants whose files grant ``mode``: who may read them may enter it."""
    return mode | (mode & 0o444) >> 2


def shared_mode(granted: int) -> int:
    """Return what files grant in a folder with this mode: all to those who may write in it."""
    return PRIVATE | (0o060 if granted & 0o020 else 0) | (0o006 if granted & 0o002 else 0)


def give(descriptor: int, mode: int, owner: Owner) -> None:
    """Give a folder or an empty file its mode and, as far as one may, its owner.

    What root makes in a store of another user would otherwise be closed to that user for ever.
    A file that holds something, or has another name too, is left as it is: whose folder it is can
    have put it there, and it may be none of ours.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISDIR(found.st_mode) and not _is_empty_file(found):
        return
    user, group = owner
    if os.geteuid() != 0:
        user = found.st_uid  # nobody else can give a file away, but to a group of his own
    try:
        if (found.st_uid, found.st_gid) != (user, group):
            os.fchown(descriptor, user, group)
    except OSError as error:
        if error.errno not in _NOT_FOR_US:
            raise
    try:
        if stat.S_IMODE(found.st_mode) & 0o777 != mode & 0o777:
            os.fchmod(descriptor, mode)
    except OSError as error:  # a server that maps users, or a filesystem without modes
        if error.errno not in _NOT_FOR_US:
            raise


def _is_empty_file(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and (found.st_size, found.st_nlink) == (0, 1)


def open_side_file(path: str, mode: int, owner: Owner) -> int:
    """Return a descriptor of a file beside a store's, made if it is missing; raises OSError.

    An empty one that was there gets its mode and owner too: root of an older version, or one that
    was killed as soon as it had made the file, may have left it so that nobody else can open it.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        # Not O_CREAT alone: a system may refuse that for a file of another user that is there.
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, PRIVATE)
        except FileExistsError:
            descriptor = os.open(path, flags)
    try:
        give(descriptor, mode, owner)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def hand_over(path: str, owner: Owner) -> None:
    """Give to its owner an empty file that root has just made and that is not to be opened."""
    if os.geteuid() != 0 or owner[0] == 0:
        return
    found = os.lstat(path)
    if found.st_uid == 0 and _is_empty_file(found):
        try:
            os.chown(path, *owner, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NOT_FOR_US:
                raise
