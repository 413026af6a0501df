"""Worker processes, as the part that started them sees them.

A worker is a fresh interpreter that runs one module of this package. It gets its arguments once,
is told and says JSON lines, and ends when its standard input does: it never outlives its parent.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ANSWER = 600.0
"""Seconds after which a worker that says nothing is taken for hung."""

_ROOT = Path(__file__).resolve().parents[2]
_END = 10.0


class Worker:
    """One process, from its start to its end."""

    def __init__(self, module: str, **arguments: object) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.workers.{module}", json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )

    def tell(self, **said: object) -> None:
        """Say something to the worker."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """Return the next thing that the worker says; raises RuntimeError where it has ended."""
        assert self._process.stdout is not None
        hung = threading.Timer(ANSWER, self._process.kill)
        hung.start()
        try:
            line = self._process.stdout.readline()
        finally:
            hung.cancel()
        if not line:
            raise RuntimeError(f"the worker {self._module} ended with {self._process.wait()}")
        said: dict[str, Any] = json.loads(line)
        return said

    def ask(self, **said: object) -> dict[str, Any]:
        """Say something and return the answer."""
        self.tell(**said)
        return self.hear()

    def kill(self) -> float:
        """Kill the process at once, and return the monotonic time just before."""
        moment = time.monotonic()
        self._process.kill()
        return moment

    def end(self) -> None:
        """Let the process end, which takes what it has open down with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):  # it may be dead already
            self._process.stdin.close()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


@contextlib.contextmanager
def crew(module: str, count: int, **arguments: object) -> Iterator[list[Worker]]:
    """Have several workers of one program, each with a ``number`` from 0, and end them together."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(Worker(module, number=number, **arguments))
            for number in range(count)
        ]
