"""One of the instances of a chaos run, as its driver sees it: a process, and the next in its place.

Every act is written down, with the time before what it begins and after what it ends.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from support.stopped import wait_until_stopped

import leasecron
from chaos.any_place import AnyPlace
from chaos.faults import Faults
from chaos.instance import PATIENCE
from chaos.log import Log

HANGS = PATIENCE + 15.0
"""Seconds after which a process that was told to end, and has not, is taken for hung."""

_ROOTS = (Path(leasecron.__file__).parent.parent, Path(__file__).parent.parent)
_PATH = os.pathsep.join(map(str, _ROOTS))


class Member:
    """Number ``number`` of the instances; ``environment`` is what its processes are given.

    Each process is given the next of ``lives`` as its number.
    """

    def __init__(
        self,
        number: int,
        lives: Iterator[int],
        environment: Mapping[str, str],
        errors: Path,
        log: Log,
    ) -> None:
        self.number = number
        self._lives = lives
        self._life = 0
        self._log = log
        self._errors = errors
        self._environment = {
            **os.environ,
            "PYTHONPATH": _PATH,
            "CHAOS_NUMBER": str(number),
            **environment,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._state: Literal["running", "frozen", "ending", "gone"] = "gone"
        self._since = 0.0  # of the state
        self._held = False  # frozen in the middle of a transaction
        self._again_in: float | None = None

    @property
    def gone(self) -> bool:
        """Say whether there is no process, and none to come."""
        return self._process is None and self._again_in is None

    def spawn(self) -> None:
        """Start a process."""
        self._life = next(self._lives)
        with self._errors.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chaos.instance"],
                stdin=subprocess.DEVNULL,
                stderr=errors,
                env={**self._environment, "CHAOS_LIFE": str(self._life)},
                start_new_session=True,
            )
        self._become("running")
        self._log.note("spawned", life=self._life, number=self.number, pid=self._process.pid)

    def kill(self, again_in: float) -> bool:
        """End it by SIGKILL."""
        if self._process is None or self._state == "ending":
            return False
        self._log.note("killed", life=self._life)
        self._process.kill()
        self._process.wait()
        self._collect(again_in)
        return True

    def freeze(self, store: Faults) -> bool:
        """Stop it by SIGSTOP, and see whether it then keeps others from the store."""
        if self._process is None or self._state != "running":
            return False
        self._log.note("frozen", life=self._life)
        self._process.send_signal(signal.SIGSTOP)
        self._become("frozen")
        wait_until_stopped(self._process.pid)
        locks = store.locks_of(self._process.pid)
        self._held = store.is_held_by(locks)
        self._log.note("stopped", life=self._life, locks=[*map(str, locks)], held=self._held)
        return True

    def thaw(self) -> None:
        """Let it go on."""
        if self._process is not None and self._state == "frozen":
            self._process.send_signal(signal.SIGCONT)
            self._log.note("thawed", life=self._life)
            self._note_held()
            self._become("running")

    def tell(self, again_in: float | None) -> bool:
        """Tell it by SIGTERM to end; a process is to follow unless ``again_in`` is None."""
        if self._process is None or self._state != "running":
            return False
        self._log.note("told", life=self._life)
        self._process.send_signal(signal.SIGTERM)
        self._become("ending")
        self._again_in = again_in
        return True

    def look(self) -> None:
        """See whether it has ended, and start the next in its place when it is time."""
        now = time.monotonic()
        if self._process is None:
            if self._again_in is not None and now >= self._since + self._again_in:
                self._again_in = None
                self.spawn()
        elif self._process.poll() is not None:
            self._collect(self._again_in)
        elif self._state == "ending" and now > self._since + HANGS:
            self._log.note("hung", life=self._life)
            self._process.send_signal(signal.SIGABRT)  # it then says where its threads are
            self._process.wait()
            self._collect(self._again_in)

    def follow_no_more(self) -> None:
        """Let no process follow."""
        self._again_in = None

    def reap(self) -> None:
        """Kill what is left, with all that it has forked, whatever it was doing."""
        self._again_in = None
        if self._process is not None:
            self._log.note("killed", life=self._life)
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._collect(None)

    def _collect(self, again_in: float | None) -> None:
        assert self._process is not None
        self._log.note("gone", life=self._life, code=self._process.returncode)
        if self._state == "frozen":
            self._note_held()
        for left in ("faketime_shm_", "sem.faketime_sem_"):  # by libfaketime, if it was killed
            Path(f"/dev/shm/{left}{self._process.pid}").unlink(missing_ok=True)
        self._process = None
        self._become("gone")
        self._again_in = again_in

    def _note_held(self) -> None:
        if self._held:
            self._held = False
            self._log.note("fault", kind="held", since=self._since, until=time.monotonic())

    def _become(self, state: Literal["running", "frozen", "ending", "gone"]) -> None:
        self._state = state
        self._since = time.monotonic()


class People:
    """Those who pause jobs and ask for runs, on a store that can do that; no harm befalls them."""

    def __init__(self, place: AnyPlace, log: Path, errors: Path, seed: int) -> None:
        self._wanted = place.leases
        self._errors = errors
        self._environment = {
            **os.environ,
            "PYTHONPATH": _PATH,
            "CHAOS_STORE": place.url_of(0),
            "CHAOS_LOG": str(log),
            "CHAOS_SEED": str(seed),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        """Let them begin."""
        if self._wanted:
            with self._errors.open("a") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "chaos.people"],
                    stdin=subprocess.DEVNULL,
                    stderr=errors,
                    env=self._environment,
                )

    def tell(self) -> None:
        """Let them come to an end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def reap(self) -> None:
        """Kill them, if they are still there."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
