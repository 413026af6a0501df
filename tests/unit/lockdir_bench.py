"""A lock directory whose calls of the operating system fail as a test wants them to."""

from __future__ import annotations

import codecs
import importlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from contract.driver import a_claim
from contract.hand_clock import HandClock
from contract.server_clock import lock_directory

from leasecron.backends import modes
from leasecron.backends.lockdir import descriptors as lockdir_descriptors
from leasecron.backends.lockdir import io as lockdir_io
from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.model import ClaimAnswer

NOBODY = 65534

Fault = Callable[[int, str, Callable[[], Any]], Any]
"""Gets the number of the call, its name, and the call itself; does what it likes instead."""

_CALLS = frozenset(
    [
        "open",
        "close",
        "read",
        "write",
        "pread",
        "fsync",
        "ftruncate",
        "fstat",
        "fchmod",
        "fchown",
        "link",
        "unlink",
        "mkdir",
        "rmdir",
        "rename",
        "listdir",
        "stat",
        "lstat",
        "utime",
    ]
)


class Killed(BaseException):
    """The process is dead at this point."""


class FaultyOs:
    """The module ``os``, with a fault between it and its user."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.names: list[str] = []
        self.arguments: tuple[Any, ...] = ()  # of the call that is being made

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in _CALLS:
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            self.names.append(name)
            self.arguments = args
            if self.fault is None:
                return real(*args, **kwargs)
            return self.fault(len(self.names) - 1, name, lambda: real(*args, **kwargs))

        return call

    @contextmanager
    def doing(self, fault: Fault | None) -> Iterator[list[str]]:
        """Have the fault; gives the names of the calls that are made meanwhile."""
        self.names = []
        self.fault = fault
        try:
            yield self.names
        finally:
            self.fault = None


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> FaultyOs:
    """The operating system of every lock directory of this test."""
    made = FaultyOs()
    for module in (lockdir_io, lockdir_descriptors, modes):
        monkeypatch.setattr(module, "os", made)
    return made


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    """Where the lock directory is."""
    return tmp_path / "locks"


@pytest.fixture
def backend(locks: Path, clock: HandClock) -> Iterator[LockDirBackend]:
    """An open lock directory whose server's clock is the hand clock."""
    made = lock_directory(locks, clock)
    made.open(clock)
    yield made
    made.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that everybody may enter and write."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o777)
    yield path
    for folder in path.rglob("*"):
        if folder.is_dir():
            folder.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Have no rights but those of everybody, which may not do to import anything."""
    codecs.lookup("ascii")
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    yield
    if root:
        os.seteuid(0)
        importlib.invalidate_caches()


def fail(number: int, code: int, *, times: int = 1) -> Fault:
    """Let so many calls fail, from the given one on, without being made."""

    def fault(call: int, name: str, real: Callable[[], Any]) -> Any:
        if not number <= call < number + times:
            return real()
        if name == "close":  # closes whatever it says
            real()
        raise OSError(code, os.strerror(code))

    return fault


def lose_answer(number: int, code: int) -> Fault:
    """Let a call be made and look like one that failed."""

    def fault(call: int, name: str, real: Callable[[], Any]) -> Any:
        answer = real()
        if call != number:
            return answer
        if name == "open":
            os.close(answer)
        raise OSError(code, os.strerror(code))

    return fault


def kill(number: int, *, after: bool) -> Fault:
    """End the process before or after a call: no call comes after that."""

    def fault(call: int, name: str, real: Callable[[], Any]) -> Any:
        if call < number:
            return real()
        # Of the dead, the kernel closes what they had open.
        if (call == number and after) or name == "close":
            real()
        raise Killed

    return fault


def another(backend: LockDirBackend, clock: HandClock) -> LockDirBackend:
    """Return the same directory as another process has it open."""
    made = lock_directory(Path(backend.path), clock, create=False)
    made.open(clock)
    return made


def claim(backend: LockDirBackend, slot: float, token: str, **fields: Any) -> ClaimAnswer:
    """Claim one run."""
    (answer,) = backend.claim([a_claim(slot, token, **fields)])
    return answer


def claim_files(locks: Path) -> list[Path]:
    """Return the claims in a lock directory."""
    found = (locks / "jobs").glob("*/*/*")
    return sorted(path for path in found if not path.name.startswith("."))


def private_files(locks: Path) -> list[Path]:
    """Return what crashes and failures left in a lock directory."""
    return sorted(path for path in locks.rglob(".*"))


def token_in(path: Path) -> str | None:
    """Return whose claim a file is; None where it does not say."""
    try:
        return str(json.loads(path.read_bytes())["token"])
    except (ValueError, KeyError):
        return None
