"""Files that are made once, whoever else tries at the same instant, and the proof who made them.

A file is written under a private name and then linked to its real one, so that it is complete as
soon as it is there. The answer to ``link`` is no proof in either direction: over a network it can
be lost and the call repeated. What the file holds is proof, and else the number of names of the
private one.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from leasecron.backends.lockdir import io

UNREADABLE = b""
"""What is said of a file that is there and says nothing: empty, or not for us to read."""

BARRED = frozenset({
    errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EAGAIN,
})  # fmt: skip
"""What it means that something is there which is not a file for us to read."""

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class Modes:
    """What new files and folders of a store grant, whatever the umask: as much as its marker."""

    file: int
    folder: int


class OnceFiles:
    """Makes files once; ``mode`` is what they grant."""

    def __init__(self, mode: int) -> None:
        self._mode = mode
        self._begun: set[str] = set()

    def create(self, path: str, private: str, content: bytes) -> bytes:
        """Make a file unless there is one, and return what it certainly holds.

        That is ``content`` where this call made it, or an earlier one with the same private name
        (whose answer was lost), and UNREADABLE where another's cannot be read. An OSError means
        that nothing is known; the private file then stays, so that the next try can find out.
        """
        if private in self._begun:  # without a link, which is refused for a name that is taken
            return self._create_without_links(path, private, content)
        # A file that is seen is there, and saves a write. One that is not seen may be there.
        if (found := look(path, exists=False)) is not None:
            return found
        names = self._write_private(private, content)
        failure: OSError | None = None
        try:
            io.link(private, path)
        except OSError as error:
            if error.errno in _NO_LINKS:
                return self._create_without_links(path, private, content)
            failure = error
        found = _prove(path, private, content, failure, alone=names == 1)
        io.discard(private)
        return found

    def _write_private(self, private: str, content: bytes) -> int:
        """Write the private file, and return how many names it has before it is linked."""
        try:
            io.write_new(private, content, self._mode)
        except FileExistsError:
            # Of an earlier try, which may have linked it or not got as far as to its end. It is not
            # removed: the number of its names may be the only sign that it was linked.
            io.write_again(private, content, self._mode)
            return io.link_count(private)
        return 1

    def _create_without_links(self, path: str, private: str, content: bytes) -> bytes:
        """Make the file in its place; until it is written it is UNREADABLE to others."""
        io.discard(private)
        if private not in self._begun:
            try:
                io.reserve(path)
            except FileExistsError:
                return look(path, exists=True) or UNREADABLE
            self._begun.add(private)  # whatever fails from here on, it is ours to go on with
        io.write_again(path, content, self._mode)
        found = io.read_file(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "a file that was just written is gone", path)
        self._begun.discard(private)
        return found


def _prove(
    path: str, private: str, content: bytes, failure: OSError | None, *, alone: bool
) -> bytes:
    """Return what a file holds; ``alone`` says that the private one had no second name before."""
    taken = isinstance(failure, FileExistsError)
    # First what it holds: a backup made of hard links adds names to a private file too.
    found = look(path, exists=taken)
    if found is not None:
        return found
    # A network client may believe for a while that there is no file where it once saw none.
    if alone and io.link_count(private) == 2:
        return content
    if taken and alone:
        return UNREADABLE
    # A second name from before this try is that of an earlier one, or of a backup: time will tell.
    raise failure or FileNotFoundError(errno.ENOENT, "a file that was just made is gone", path)


def look(path: str, *, exists: bool) -> bytes | None:
    """Return what a file holds, or None where it is not known to be there.

    ``exists`` says that something of that name is there, which then is UNREADABLE at worst.
    """
    try:
        return io.read_file(path)
    except OSError as error:
        if error.errno not in BARRED:
            raise
        return UNREADABLE if exists else None
