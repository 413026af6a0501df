"""Spawned instances: whole schedulers in processes of their own, and waiting for what they say.

A test module takes a fixture with ``instances = spawned_instances``.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast

import pytest

import leasecron
from support.run_log import RunLog
from support.store_file import StoreFile
from support.stores import PostgresView, RedisView, StoreView

LIMIT = 60.0
"""Seconds that a machine under load may need; nothing waits longer than for what it waits."""

TOLERANCE = 1.0
"""Seconds by which a promised time may be exceeded, since others use the machine too."""

Report = dict[str, Any]
T = TypeVar("T")

_ROOTS = (Path(leasecron.__file__).parent.parent, Path(__file__).parent.parent)


class Instance:
    """One process and what it has said so far."""

    def __init__(
        self, process: "subprocess.Popen[str]", errors: Path, changed: threading.Condition
    ) -> None:
        self.process = process
        self.pid = process.pid
        self._errors = errors
        self._changed = changed
        self._reports: list[Report] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):  # a killed process may leave half a line
                with self._changed:
                    self._reports.append(json.loads(line))
                    self._changed.notify_all()

    def said(self, *what: str, **facts: object) -> list[Report]:
        """Return the reports so far of one of these kinds in which all ``facts`` hold."""
        with self._changed:
            reports = [*self._reports]
        return [
            report
            for report in reports
            if report["what"] in what and all(report.get(k) == v for k, v in facts.items())
        ]

    def wait_for(self, *what: str, limit: float = LIMIT, **facts: object) -> Report:
        """Return the first such report, past or to come."""
        return wait_until(self._changed, lambda: self.said(*what, **facts), limit, self)[0]

    def ask(self, expression: str, limit: float = LIMIT) -> Any:
        """Evaluate ``expression`` in the process and return its value."""
        before = len(self.said("answer"))
        self.tell(expression)
        answers = wait_until(self._changed, lambda: self.said("answer")[before:], limit, self)
        assert "raised" not in answers[0], f"{expression} raised {answers[0]['raised']}"
        return answers[0]["value"]

    def tell(self, line: str) -> None:
        """Hand one line to the process and do not wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self, limit: float = LIMIT) -> int:
        """Have the program go on after ``serve``, and return its exit code."""
        self.tell("end")
        return self.wait(limit)

    def wait(self, limit: float = LIMIT) -> int:
        """Return the exit code; by then all that the process said is known."""
        code = self.process.wait(limit)
        self._reader.join(limit)
        return code

    def is_over(self) -> bool:
        """Say whether the process has ended, and all that it said is known."""
        return self.process.poll() is not None and not self._reader.is_alive()

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def kill(self) -> float:
        """End it by SIGKILL, and return the monotonic time at which it was dead at the latest."""
        self.process.kill()
        self.process.wait(LIMIT)
        dead = time.monotonic()
        self._reader.join(LIMIT)
        return dead

    def freeze(self, store: StoreView) -> None:
        """Stop it by SIGSTOP, outside of a transaction: there it would hold up everybody."""
        while True:
            self.signal(signal.SIGSTOP)
            os.waitpid(self.pid, os.WUNTRACED)
            if not store.is_locked():
                return
            self.thaw()

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def stderr(self) -> str:
        """Return what it has written to its standard error."""
        return self._errors.read_text()

    def reap(self) -> None:
        """Kill it with all that it has forked."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def __repr__(self) -> str:
        with self._changed:
            last = "\n  ".join(map(repr, self._reports[-20:]))
        return f"instance {self.pid}, last said:\n  {last}\nits errors:\n{self.stderr()}"


class Instances:
    """The spawned instances of one test, their store, and the log of their handlers."""

    def __init__(self, folder: Path, view: StoreView | None = None) -> None:
        self.folder = folder
        # Tests that run on every store use nothing but what all views have.
        self.store = cast("StoreFile", view) if view else StoreFile(folder / "leasecron.db")
        self.durable_url = self.url = self.store.url
        if view is None:
            # No test of ours cuts the power, and waiting for a busy disk would only disturb it.
            self.url += "?durability=normal"
        self.log = RunLog(folder / "runs.log")
        self.all: list[Instance] = []
        self._changed = threading.Condition()

    def spawn(
        self, program: str, *, executable: str = sys.executable, **environment: str
    ) -> Instance:
        """Start a process that runs ``program`` after ``from support.child import *``."""
        errors = self.folder / f"errors-{len(self.all)}.txt"
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, _ROOTS)),
            "TEST_STORE": self.url,
            "TEST_LOG": str(self.log.path),
            **environment,
        }
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [executable, "-c", f"from support.child import *\n{program}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=variables,
                start_new_session=True,
            )
        self.all.append(Instance(process, errors, self._changed))
        return self.all[-1]

    def spawn_all(self, count: int, program: str, **environment: str) -> list[Instance]:
        """Spawn several of one program, and wait until all are up."""
        started = [self.spawn(program, **environment) for _ in range(count)]
        for instance in started:
            instance.wait_for("up")
        return started

    def wait_until(self, condition: Callable[[], T], limit: float = LIMIT) -> T:
        """Return ``condition()`` once it is true; it is asked whenever an instance says a thing."""
        return wait_until(self._changed, condition, limit, *self.all)

    def reap(self) -> None:
        """End all that is left."""
        for instance in self.all:
            instance.reap()
        self.log.close()


def wait_until(
    changed: threading.Condition, condition: Callable[[], T], limit: float, *who: Instance
) -> T:
    """Return ``condition()`` once it is true, or fail with what the instances said last."""
    deadline = time.monotonic() + limit
    with changed:
        while not (found := condition()):
            left = deadline - time.monotonic()
            if left <= 0 or all(instance.is_over() for instance in who):
                pytest.fail(f"nothing came of it in {limit:g} s:\n" + "\n".join(map(repr, who)))
            changed.wait(min(left, 0.5))  # a file may change without a word
        return found


@pytest.fixture
def spawned_instances(tmp_path: Path) -> Iterator[Instances]:
    """Spawn instances in the test; whatever is left of them ends with it."""
    instances = Instances(tmp_path)
    yield instances
    instances.reap()


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param(PostgresView, marks=pytest.mark.slow, id="postgres"),
        pytest.param(RedisView, marks=pytest.mark.slow, id="redis"),
    ]
)
def instances_on_every_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Instances]:
    """Spawn instances on a store of each kind that has leases."""
    view = None if request.param == "sqlite" else request.param()
    instances = Instances(tmp_path, view)
    yield instances
    instances.reap()
    if view is not None:
        view.drop()


@pytest.fixture
def instances_off_the_disk(tmp_path: Path) -> Iterator[Instances]:
    """Spawn instances whose files lie in memory: a disk may be busy for longer than a lease."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        instances = Instances(Path(folder))
        yield instances
        instances.reap()
