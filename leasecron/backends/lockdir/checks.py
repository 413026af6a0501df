"""What can be told of an open lock directory in a few milliseconds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from leasecron.backends.checks import Check
from leasecron.backends.filesystems import UNKNOWN_LOCAL, Filesystem, filesystem_of
from leasecron.backends.lockdir import io
from leasecron.backends.lockdir.clock import ServerClock
from leasecron.backends.lockdir.history import History
from leasecron.backends.lockdir.marker import FORMAT, Directory
from leasecron.backends.lockdir.names import FOLDERS, JOBS, as_day, as_slot
from leasecron.clock import Clock
from leasecron.model import from_ms, from_seconds

LONGEST_CACHE = 60.0
"""Seconds that a client may believe in what it saw, half of what pruning allows for."""

_SECOND = 1_000_000_000
_BRIEF = 0.02
_SMALL = 500_000
_LISTED = 5000
_CACHES = ("acregmin", "acregmax", "acdirmin", "acdirmax", "actimeo")


def quick_checks(
    directory: Directory, server: ServerClock, clock: Clock, history: History
) -> list[Check]:
    """Look at everything that can be told quickly; raises what the server's clock raises."""
    filesystem = filesystem_of(directory.path)
    offset, resolution = _check_clock(directory.path, server, clock)
    return [
        _check_directory(directory),
        check_filesystem(directory.path, filesystem),
        _check_writable(directory),
        offset,
        resolution,
        _check_history(directory.path, history),
        _count(directory),
    ]


def _check_directory(directory: Directory) -> Check:
    since = from_ms(directory.marker.created).isoformat(timespec="seconds")
    found = f"format {FORMAT}, id {directory.marker.id[:8]}, made {since}"
    return Check("directory", "good", found, "on every host it must have this very id")


def check_filesystem(path: str, filesystem: Filesystem) -> Check:
    """Say whether the mount is one on which all that is promised holds."""
    found = str(filesystem)
    if filesystem.type == UNKNOWN_LOCAL:
        return Check("filesystem", "good", "unknown", "this system has no list of its mounts")
    if not filesystem.is_network:
        return Check(
            "filesystem", "good", found, "local to this host: other hosts have another store"
        )
    problems = [*_mount_problems(filesystem)]
    if problems:
        reason = f"the store {path} is on {filesystem.type} mounted with {'; with '.join(problems)}"
        return Check("filesystem", "warning", found, reason)
    return Check("filesystem", "good", found, "claims need no locks, and its caches are short")


def _mount_problems(filesystem: Filesystem) -> Iterator[str]:
    if filesystem.private_locks:
        yield (
            f"{filesystem.private_locks}, where locks hold within one host only: claims do not "
            "need them, but two hosts may prune at once, which does the work twice"
        )
    for option in sorted(filesystem.options):
        name, _, value = option.partition("=")
        if name in {"soft", "softerr"}:
            yield (
                f"{name}, where a server that is slow to answer looks like one that failed: a "
                "claim is then an error, and a record may be cut off; 'hard' is right"
            )
        elif name in {"vers", "nfsvers"} and value.startswith("2"):
            yield f"{option}, which has no exclusive create; right is 3 or more"
        elif name in _CACHES and value.isdecimal() and int(value) > LONGEST_CACHE:
            yield (
                f"{option}, and claims are pruned for a client that believes in what it saw for at "
                f"most {LONGEST_CACHE:g} s; right is a value up to that"
            )


def _check_writable(directory: Directory) -> Check:
    for folder in (directory.path, *(os.path.join(directory.path, name) for name in FOLDERS)):
        problem = io.access_problem(folder)
        if problem is not None:
            reason = f"the store {directory.path} cannot be written in {folder}: {problem}"
            return Check("writable", "bad", "no", reason)
    return Check("writable", "good", "yes", "its folders can be written by this user")


def _check_clock(path: str, server: ServerClock, clock: Clock) -> tuple[Check, Check]:
    before = clock.wall()
    readings = [server.read_ns()]
    after = clock.wall()
    readings += [server.read_ns() for _ in range(2)]
    coarse = all(reading % _SECOND == 0 for reading in readings)
    # How far the server is ahead of this host, at least: the reading lies between the two.
    theirs = readings[0] / _SECOND
    offset = theirs - min(max(theirs, before), after)
    if coarse and -1.0 < offset < 0:
        offset = 0.0
    return _judge_offset(path, offset, theirs), _judge_resolution(path, coarse=coarse)


def _judge_offset(path: str, offset: float, theirs: float) -> Check:
    found = f"{offset:+.3f} s"
    if abs(offset) <= 1.0:
        return Check("clock", "good", found, "this host's clock agrees with the file server's")
    reason = (
        f"the clock of this host {os.uname().nodename} differs from that of the file server of the "
        f"store {path}: there it is {_shown(theirs)} and here {_shown(theirs - offset)}; slots are "
        "early or late by the server's, so set both by the same time source"
    )
    return Check("clock", "warning", found, reason)


def _judge_resolution(path: str, *, coarse: bool) -> Check:
    if not coarse:
        return Check("resolution", "good", "finer than 1 s", "slots are judged to the moment")
    reason = (
        f"the file server of the store {path} dates files in whole seconds: a slot may be judged "
        "a second too early, and jobs should not be shorter than some seconds"
    )
    return Check("resolution", "warning", "1 s or more", reason)


def _check_history(path: str, history: History) -> Check:
    try:
        parts = [history.path_of(part) for part in history.parts()]
        sizes = [found.st_size for part in parts if (found := io.status_of(part)) is not None]
        if sum(sizes) <= _SMALL:
            history.newest(None, 1, None)
    except OSError as error:
        reason = f"the history of the store {path} cannot be read: {error}"
        return Check("history", "warning", "not readable", reason)
    size, torn = f"{len(sizes)} files, {sum(sizes):,} bytes", history.torn
    if history.barred:
        reason = (
            f"{history.barred} entries in {history.folder} cannot be read, by their permissions or "
            "since they are no files: what is in them is missing in the history"
        )
        return Check("history", "warning", f"{size}, {history.barred} not readable", reason)
    if not history.was_read:
        return Check("history", "good", size, "it is too long to be read for this")
    if not torn:
        return Check("history", "good", size, "no line of it is damaged")
    reason = (
        f"{torn} lines of the history of the store {path} are no records and are skipped: a crash "
        "or a full disk cut them off"
    )
    return Check("history", "warning", f"{size}, {torn} damaged lines", reason)


def _count(directory: Directory) -> Check:
    """Count jobs and claims, as far as one gets in a short time and may look."""
    deadline = time.monotonic() + _BRIEF
    jobs = os.path.join(directory.path, JOBS)
    names = io.names_in(jobs)
    claims, whole = 0, True
    for name in names:
        if time.monotonic() > deadline:
            whole = False
            break
        try:
            counted, all_counted = _count_claims(os.path.join(jobs, name), deadline)
        except OSError:
            counted, all_counted = 0, False
        claims += counted
        whole = whole and all_counted
    found = f"{len(names)} jobs, {'' if whole else 'at least '}{claims:,} claims"
    return Check("size", "good", found, "claims of days long past are pruned")


def _count_claims(folder: str, deadline: float) -> tuple[int, bool]:
    """Return how many claims were seen, and whether those are all."""
    claims, whole = 0, True
    for day in io.names_in(folder):
        if time.monotonic() > deadline:
            return claims, False
        if as_day(day) is not None:
            listed = io.some_names_in(f"{folder}/{day}", _LISTED)
            whole = whole and len(listed) < _LISTED
            claims += sum(as_slot(name) is not None for name in listed)
    return claims, whole


def _shown(seconds: float) -> str:
    return from_seconds(seconds).isoformat(timespec="milliseconds")
