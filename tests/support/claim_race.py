"""Processes that claim the same slots of a lock directory at the same moment.

Nothing here needs more than the package and the standard library, so that processes start quickly.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.errors import BackendUnavailable
from leasecron.model import Claim, from_ms

JOB = "race"
LARGEST_BATCH = 4
MAX_LATE = 86_400.0
PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Race:
    """How a race ended: the slots, who won which, and how long it took in seconds."""

    slots: list[int]
    won: list[list[int]]
    seconds: float

    @property
    def doubles(self) -> list[int]:
        """The slots that were won more than once."""
        counted = Counter(slot for slots in self.won for slot in slots)
        return sorted(slot for slot, count in counted.items() if count > 1)

    @property
    def unwon(self) -> list[int]:
        """The slots that nobody won."""
        return sorted(set(self.slots) - {slot for slots in self.won for slot in slots})


def a_claim(slot_ms: int, token: str, job: str = JOB, max_late: float = MAX_LATE) -> Claim:
    """Return a claim as an instance makes it, named like its token."""
    return Claim(
        job=job,
        slot=from_ms(slot_ms),
        token=token,
        instance=f"instance-{token}",
        lease=20.0,
        overlap="allow",
        max_attempts=3,
        max_late=max_late,
    )


def race(places: Sequence[Path], slots: int, *, seed: int = 0, create: bool = False) -> Race:
    """Have one process per place claim so many slots; the places are one directory.

    With ``create`` each makes the directory, at about the same moment as the others.
    """
    print(f"seed {seed}")
    newest = round(time.time() * 1000)
    due = list(range(newest - (slots - 1) * 1000, newest + 1, 1000))
    how = ["create"] if create else []
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "support.claim_race", str(place), f"{seed}-{number}", *how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        for number, place in enumerate(places)
    ]
    try:
        _in_step(processes, "begun", "")
        _in_step(processes, "ready", json.dumps(due))
        began = time.monotonic()
        won = [json.loads(process.communicate()[0]) for process in processes]
        return Race(due, won, time.monotonic() - began)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _in_step(processes: Sequence["subprocess.Popen[str]"], said: str, told: str) -> None:
    """Let all go on together once each has said that it has come so far."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{said}\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{told}\n")
        process.stdin.flush()


def _claim_all(place: str, token: str, create: str = "") -> None:
    """Claim the slots that are told, in their order and in batches; say which were won."""
    chance = random.Random(token)
    backend = LockDirBackend(place, create=bool(create))
    print("begun", flush=True)
    sys.stdin.readline()
    _open(backend)
    print("ready", flush=True)
    due = json.loads(sys.stdin.readline())
    won = []
    while due:
        size = chance.randint(1, LARGEST_BATCH)
        batch, due = due[:size], due[size:]
        answers = backend.claim([a_claim(slot, f"{token}-{slot}") for slot in batch])
        for slot, answer in zip(batch, answers, strict=True):
            assert answer.outcome in ("won", "done"), answer
            if answer.outcome == "won":
                won.append(slot)
    backend.close()
    print(json.dumps(won))


def _open(backend: LockDirBackend) -> None:
    """Open as the store thread does: what is not to be seen yet is asked for again."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            backend.open()
        except BackendUnavailable:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    _claim_all(*sys.argv[1:])
