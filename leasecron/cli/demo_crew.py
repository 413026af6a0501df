"""The processes of the demo: starting, hearing, killing and stopping the instances."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import leasecron
from leasecron.cli.demo_messages import Message, decode

_WORDS_LIMIT = 2000


class Instance:
    """One process, and the part of its output that is not a whole line yet."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], words: Path) -> None:
        self.name = name
        self.process = process
        self.dismissed = False
        self._words = words
        self._begun = b""

    def read(self) -> tuple[list[bytes], bool]:
        """Return the lines that have come, and whether no more will."""
        assert self.process.stdout is not None
        chunk = os.read(self.process.stdout.fileno(), 65536)
        *lines, self._begun = (self._begun + chunk).split(b"\n")
        return lines, not chunk

    def order(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its end is heard of on its other pipe
            os.write(self.process.stdin.fileno(), line.encode() + b"\n")

    def last_words(self) -> str:
        """Return the end of what it wrote to standard error."""
        text = self._words.read_text(encoding="utf-8", errors="replace").strip()
        return text[-_WORDS_LIMIT:]


class Crew:
    """The instances. Leaving the context kills those that are left."""

    def __init__(self, folder: Path, store: Path) -> None:
        self._folder = folder
        self._store = store
        self._selector = selectors.DefaultSelector()
        self._instances: dict[str, Instance] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for instance in self._instances.values():
            instance.process.kill()
        for instance in self._instances.values():
            instance.process.wait()
            for pipe in (instance.process.stdin, instance.process.stdout):
                if pipe is not None:
                    pipe.close()
        self._selector.close()

    def start(self, name: str) -> None:
        """Start an instance."""
        words = self._folder / f"{name}.stderr"
        with words.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603 - our own module, under our own interpreter
                [sys.executable, "-m", "leasecron.cli.demo_instance", str(self._store), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                # So that the child imports the package that the parent is running from.
                cwd=Path(leasecron.__file__).parents[1],
                env={k: v for k, v in os.environ.items() if k != "LEASECRON_OFF"},
                # A Ctrl-C in the terminal is for the parent alone.
                start_new_session=True,
            )
        instance = self._instances[name] = Instance(name, process, words)
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, instance)

    def order(self, line: str) -> None:
        """Tell every instance."""
        for instance in self._instances.values():
            instance.order(line)

    def hear(self, timeout: float) -> Iterator[Message | Instance]:
        """Yield the messages that come within ``timeout`` seconds; an instance that ended as such.

        What an instance wrote before it ended comes before it.
        """
        for key, _ in self._selector.select(timeout):
            instance: Instance = key.data
            lines, ended = instance.read()
            for line in lines:
                if (message := decode(line)) is not None:
                    yield message
            if ended:
                self._selector.unregister(key.fileobj)
                instance.process.wait()
                yield instance

    def kill(self, name: str) -> float:
        """Kill an instance with SIGKILL; return the monotonic time of it."""
        instance = self._instances[name]
        instance.dismissed = True
        at = time.monotonic()
        instance.process.kill()
        return at

    def stop(self) -> None:
        """Tell the instances that are left to stop, with SIGTERM."""
        for instance in self._instances.values():
            instance.dismissed = True
            instance.process.terminate()

    def all_ended(self) -> bool:
        """Say whether no instance will be heard again."""
        return not self._selector.get_map()
