"""The marker by which a lock directory is known, and how the directory comes into being.

Where a network filesystem is not mounted, an empty folder stands in its place. So nothing makes a
lock directory but an express wish, and nothing is made in a folder without the marker that was
there when the store was opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import dataclass

from leasecron.backends.lockdir import io
from leasecron.backends.lockdir.files import BARRED, UNREADABLE, Modes, OnceFiles
from leasecron.backends.lockdir.names import (
    FOLDERS,
    JOBS,
    LAST,
    LOCKS,
    MARKER,
    PRUNE_LOCK,
    private_name,
    url_of,
)
from leasecron.backends.modes import PRIVATE, folder_mode, shared_mode
from leasecron.errors import BackendError, BackendMismatch, BackendUnavailable

FORMAT = 1
_LONGEST_ID = 100
_IGNORED = frozenset({"lost+found"})


@dataclass(frozen=True, slots=True)
class Marker:
    """Which directory it is, and since when, in Unix milliseconds of the host that made it."""

    id: str
    created: int


@dataclass(frozen=True, slots=True)
class Directory:
    """A lock directory that can be used."""

    path: str
    marker: Marker
    modes: Modes

    def check(self) -> None:
        """Raise BackendUnavailable where the path no longer leads to this directory.

        Raises OSError too, also where claims would be made in something that is no folder of ours.
        """
        content = _content(self.path)
        if content is None:
            raise BackendUnavailable(
                f"the store {self.path} has no {MARKER} any more: the directory was removed or is "
                "not mounted; nothing is claimed until it is back"
            )
        if _parse(content) != self.marker:
            raise BackendUnavailable(
                f"the store {self.path} was replaced by another one ({MARKER} has changed); nothing"
                " is claimed until it is back, or the scheduler is stopped and started again"
            )
        io.check_folder(os.path.join(self.path, JOBS))


def find_directory(path: str, *, create: bool, mode: int | None, now: int) -> Directory:
    """Return the lock directory at ``path``; with ``create``, make what is missing of it.

    ``mode`` is for the files of a store that is yet to be made. Without it they are for those who
    may write in the directory that is there, and private where there is none.

    Raises BackendError where there is none, BackendMismatch where it is of another version, and
    OSError.
    """
    found = _status(path)
    if found is None:
        if not create:
            raise BackendError(
                f"the directory of the store {path} does not exist{_missing_above(path)}; "
                f"{_advice(path)}"
            )
        _check_above(path)
        mode = PRIVATE if mode is None else mode
        found = _make_root(path, folder_mode(mode))
    if found is None or not stat.S_ISDIR(found.st_mode):
        raise BackendError(f"the store {path} cannot be used: it is not a directory")
    _check_writable(path)
    granted = stat.S_IMODE(found.st_mode)
    marker = read_marker(path)
    if marker is None:
        if not create:
            raise BackendError(
                f"the directory of the store {path} has no {MARKER}: it is not mounted, or no "
                f"store; {_advice(path)}"
            )
        wanted = shared_mode(granted) if mode is None else mode
        marker = _make_store(path, _modes(wanted, granted), now)
    modes = _modes(_mode_of_marker(path), granted)
    _check_folders(path, modes, create=create)
    return Directory(path, marker, modes)


def read_marker(path: str) -> Marker | None:
    """Return the marker of a directory, or None where it has none.

    Raises BackendMismatch where it says nothing that this version understands.
    """
    content = _content(path)
    if content is None:
        return None
    marker = _parse(content)
    if marker is None:
        raise BackendMismatch(
            f"the store {path} cannot be used: its {MARKER} is damaged or of another program; "
            "restore it, or stop all instances, remove the directory and make another"
        )
    if isinstance(marker, int):
        raise BackendMismatch(
            f"the store {path} has format {marker}, and this version of leasecron knows {FORMAT}: "
            "it was made by a newer version"
        )
    return marker


def _modes(file: int, granted: int) -> Modes:
    """Return what files and folders grant; the latter hand on the group that their own one does."""
    return Modes(file, folder_mode(file) | granted & stat.S_ISGID)


def _mode_of_marker(path: str) -> int:
    """Return what the marker grants: it was made with what was asked for, whoever asks now."""
    found = io.status_of(os.path.join(path, MARKER))
    return PRIVATE if found is None else PRIVATE | stat.S_IMODE(found.st_mode) & 0o666


def _content(path: str) -> bytes | None:
    """Return what is in the marker of a directory, nothing where it is no file; None for none."""
    try:
        return io.read_file(os.path.join(path, MARKER))
    except PermissionError:
        raise
    except OSError as error:
        if error.errno not in BARRED:
            raise
        return UNREADABLE


def _parse(content: bytes) -> Marker | int | None:
    """Return what a marker says, its format where that is a newer one, or None for garbage."""
    try:
        said = json.loads(content)
        known = said["format"]
        if type(known) is int and known > FORMAT:
            return known
        marker = Marker(said["id"], said["created"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    right = isinstance(marker.id, str) and len(marker.id) <= _LONGEST_ID and marker.id.isprintable()
    dated = type(marker.created) is int and 0 <= marker.created <= LAST
    return marker if known == FORMAT and right and dated else None


def _make_root(path: str, mode: int) -> os.stat_result | None:
    parent = os.path.dirname(path)
    try:
        io.make_root(path, mode)
    except FileNotFoundError as error:
        raise BackendError(
            f"the store {path} cannot be made: the folder {parent} does not exist; make it first"
        ) from error
    io.sync_folder(parent)
    return _status(path)


def _make_store(path: str, modes: Modes, now: int) -> Marker:
    """Make the folders and then the marker; one that others have made meanwhile wins."""
    _check_above(path)
    others = _foreign_names(path)
    if others:
        marker = read_marker(path)  # another one may have made it by now, and use it
        if marker is not None:
            return marker
        if MARKER in others:  # this host believes for a while longer in the absence that it saw
            raise BackendUnavailable(
                f"the {MARKER} of the store {path} was made just now and is not to be seen yet"
            )
        raise BackendError(
            f"the folder {path} cannot become a store: it has no {MARKER} and is not empty, there "
            f"is {', '.join(others[:3])}"
        )
    for name in FOLDERS:
        io.make_folder(os.path.join(path, name), modes.folder)
    with contextlib.suppress(FileExistsError):  # here, since later a user could meet it half made
        io.write_new(os.path.join(path, LOCKS, PRUNE_LOCK), b"", modes.file)
    identity = os.urandom(16).hex()
    content = json.dumps({"format": FORMAT, "id": identity, "created": now}).encode()
    private = os.path.join(path, private_name(MARKER, identity))
    io.sync_folder(path)
    OnceFiles(modes.file).create(os.path.join(path, MARKER), private, content + b"\n")
    io.sync_folder(path)
    made = read_marker(path)
    if made is None:
        raise BackendUnavailable(f"the store {path} was made, and its {MARKER} is not to be seen")
    return made


def _check_folders(path: str, modes: Modes, *, create: bool) -> None:
    """Refuse a store that has lost a folder; ``create`` makes again what holds no claims."""
    for name in FOLDERS:
        found = io.status_of(os.path.join(path, name))
        if found is not None and not stat.S_ISDIR(found.st_mode):
            raise BackendError(f"the store {path} cannot be used: {name} in it is not a folder")
        if found is not None:
            continue
        if name == JOBS:
            raise BackendError(
                f"the store {path} has lost its folder {JOBS}, and the claims that say which slots "
                "were run: stop all instances, remove the directory and make another"
            )
        if not create:
            raise BackendError(
                f"the store {path} has lost its folder {name}; it is made again by: "
                f"leasecron init {url_of(path)}"
            )
        io.make_folder(os.path.join(path, name), modes.folder)


def _foreign_names(path: str) -> list[str]:
    """Return what is in a folder that is no store yet, but for what a broken-off making leaves."""
    return [
        name
        for name in io.names_in(path)
        if not name.startswith(".")
        and name not in _IGNORED
        and not (name in FOLDERS and _holds_nothing(os.path.join(path, name)))
    ]


def _holds_nothing(path: str) -> bool:
    found = io.status_of(path)
    if found is None or not stat.S_ISDIR(found.st_mode):
        return False
    return not {*io.names_in(path)} - {PRUNE_LOCK}


def _check_above(path: str) -> None:
    above = os.path.dirname(path)
    while above != os.path.dirname(above):
        if io.status_of(os.path.join(above, MARKER)) is not None:
            raise BackendError(f"the folder {path} cannot become a store: {above} is one already")
        above = os.path.dirname(above)


def _status(path: str) -> os.stat_result | None:
    try:
        return io.root_status(path)
    except NotADirectoryError as error:
        raise BackendError(
            f"the store {path} cannot be used: {os.path.dirname(path)} is not a folder"
        ) from error


def _check_writable(path: str) -> None:
    problem = io.access_problem(path)
    if problem is not None:
        raise BackendError(f"the store {path} cannot be used: {problem}")


def _missing_above(path: str) -> str:
    parent = os.path.dirname(path)
    return "" if io.root_status(parent) is not None else f", nor does {parent}"


def _advice(path: str) -> str:
    return (
        "is it mounted, and is the path right? If it shall become a store: "
        f"leasecron init {url_of(path)}"
    )
