"""Mounts that a test makes, and that end with it."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.requirements import require

LIMIT = 20.0
PASS_THROUGH = Path(__file__).with_name("fuse_twice.py")


class NotMountedError(Exception):
    """The mount could not be made; the text is the last that its program said."""


@contextmanager
def mounted(
    point: Path, program: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Have a program of :mod:`support.fuse_twice`'s kind serve a mount at ``point``."""
    point.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, *program, str(point)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        if process.stdout.readline() != "mounted\n":
            said = process.stderr.read().splitlines()
            raise NotMountedError(said[-1] if said else f"{program[0]} said nothing")
        yield
    finally:
        process.stdin.close()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()
        _unmount_what_is_left(point)


def _unmount_what_is_left(point: Path) -> None:
    if f" {point} " not in Path("/proc/self/mounts").read_text():
        return
    root = os.geteuid() == 0
    how = ["umount", "--lazy"] if root else ["fusermount3", "-u", "-z"]
    subprocess.run([*how, str(point)], check=True)


class TwoMounts:
    """A directory, and two mounts of it that keep what they see for some seconds."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.behind = folder / "behind"
        self.first = folder / "first"
        self.second = folder / "second"
        self.behind.mkdir()
        self._stack = stack
        self._mounted = {point: self._mount(point) for point in (self.first, self.second)}

    def unmount(self, point: Path) -> None:
        """Take a mount away; an empty folder stays in its place."""
        self._mounted.pop(point).close()

    def mount(self, point: Path) -> None:
        """Bring it back."""
        self._mounted[point] = self._mount(point)

    def _mount(self, point: Path) -> ExitStack:
        stack = self._stack.enter_context(ExitStack())
        stack.enter_context(mounted(point, [str(PASS_THROUGH), str(self.behind)]))
        return stack


@pytest.fixture
def two_mounts(tmp_path: Path) -> Iterator[TwoMounts]:
    """Mount a directory twice, as two hosts would; skips where FUSE is not to be had."""
    require(os.access("/dev/fuse", os.R_OK | os.W_OK), "there is no /dev/fuse to be used")
    with ExitStack() as stack:
        try:
            mounts = TwoMounts(tmp_path, stack)
        except NotMountedError as error:
            require(False, f"no FUSE mount can be made here: {error}")
            raise
        yield mounts
