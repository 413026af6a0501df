"""Two other processes with which a store's filesystem is tried."""

from __future__ import annotations

import errno
import json
import os
import selectors
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import leasecron

PATIENCE = 30.0
"""Seconds that an answer may take; a filesystem that needs longer is not in order."""

_UNSUPPORTED = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK})


class TrialFailed(Exception):
    """A trial came to no result; ``unsupported`` says that the system call is not to be had."""

    def __init__(self, text: str, *, unsupported: bool = False) -> None:
        super().__init__(text)
        self.unsupported = unsupported


class Rival:
    """One process, which does what it is told one command at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "leasecron.doctor.rival"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(leasecron.__file__).parents[1],  # so that it imports this very package
            start_new_session=True,  # a Ctrl-C is for us, who clean up after it
        )
        self._begun = b""

    def tell(self, command: str, *arguments: object) -> None:
        """Give a command."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the missing answer tells
            self._process.stdin.write(json.dumps([command, *arguments]).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self) -> Any:
        """Return the answer to the oldest command; raise TrialFailed where there is none."""
        answer = json.loads(self._line(time.monotonic() + PATIENCE))
        if "error" in answer:
            raise TrialFailed(answer["error"], unsupported=answer["errno"] in _UNSUPPORTED)
        return answer["value"]

    def ask(self, command: str, *arguments: object) -> Any:
        """Give a command and return its answer."""
        self.tell(command, *arguments)
        return self.answer()

    def end(self) -> None:
        """Kill it: it holds nothing that would be missed."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # a filesystem that hangs keeps it for ever
            self._process.wait(1.0)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _line(self, deadline: float) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._begun:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self._process.kill()  # a late answer would be taken for that to the next
                    raise TrialFailed(f"the other process gave no answer within {PATIENCE:g} s")
                chunk = os.read(pipe, 65536)
                if not chunk:
                    raise TrialFailed("the other process ended")
                self._begun += chunk
        line, _, self._begun = self._begun.partition(b"\n")
        return line


class Rivals:
    """Both processes, ready. Leaving the context ends them."""

    def __init__(self) -> None:
        self._all: list[Rival] = []

    def __enter__(self) -> Self:
        try:
            for _ in range(2):
                self._all.append(Rival())
            for rival in self._all:
                rival.answer()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    @property
    def both(self) -> tuple[Rival, Rival]:
        """The two."""
        first, second = self._all
        return first, second

    def _end(self) -> None:
        for rival in self._all:
            rival.end()
