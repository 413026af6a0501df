"""The other process of a trial: ``python -m leasecron.doctor.rival``, told what to do by lines.

Each line on standard input is a JSON list, a command and its arguments; each line on standard
output answers one. It ends with its standard input.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

GAP = 0.001
"""Seconds between two slots of a race, so that both begin each of them at the same moment."""

LEAD = 0.00005
"""Seconds by which each of two is ahead at every third slot, so that it is not always the same."""

ENOUGH = 5.0
"""Seconds after which a race ends, on a filesystem so slow that not all slots were tried."""

_held: dict[str, int] = {}


def race(how: str, folder: str, name: str, slots: int, begin: float) -> tuple[int, list[int]]:
    """Return how many slots were tried and which ones won; ``begin`` is a monotonic time."""
    prepare, take = {"create": (_nothing, _create), "link": (_write_private, _link)}[how]
    turn = 1 if name == "a" else 2
    tried, won = 0, []
    while tried < slots and time.monotonic() < begin + ENOUGH:
        prepare(folder, name, tried)
        _wait_until(begin + tried * GAP - (LEAD if tried % 3 == turn else 0.0))
        if take(folder, name, tried):
            won.append(tried)
        tried += 1
    return tried, won


def lock(how: str, path: str) -> str:
    """Try to lock a file, and keep it: ``taken`` or ``refused``."""
    file = os.open(path, os.O_RDWR)
    locker: Callable[[int, int], None] = {"flock": fcntl.flock, "fcntl": fcntl.lockf}[how]
    try:
        locker(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # fcntl may say either where another has it
        os.close(file)
        return "refused"
    except BaseException:
        os.close(file)
        raise
    _held[path] = file
    return "taken"


def unlock(path: str) -> None:
    """Let go of a file; closing it ends locks of either kind."""
    os.close(_held.pop(path))


def _nothing(_folder: str, _name: str, _slot: int) -> None:
    """An exclusive create needs nothing to begin with."""


def _create(folder: str, name: str, slot: int) -> bool:
    try:
        file = os.open(f"{folder}/{slot}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    os.write(file, name.encode())
    os.close(file)
    return True


def _write_private(folder: str, name: str, slot: int) -> None:
    with open(f"{folder}/.{slot}-{name}", "x", encoding="ascii") as file:
        file.write(name)


def _link(folder: str, name: str, slot: int) -> bool:
    private = f"{folder}/.{slot}-{name}"
    try:
        os.link(private, f"{folder}/{slot}")
    except FileExistsError:  # or the server did it, and the answer was lost
        return _is_mine(f"{folder}/{slot}", private, name)
    finally:
        os.unlink(private)
    return True


def _is_mine(path: str, private: str, name: str) -> bool:
    try:
        with open(path, encoding="ascii") as file:
            return file.read() == name
    except FileNotFoundError:  # this client still believes that it is absent
        with open(private, encoding="ascii") as file:
            return os.fstat(file.fileno()).st_nlink == 2


def _wait_until(moment: float) -> None:
    left = moment - time.monotonic()
    if left > 0.0003:
        time.sleep(left - 0.0002)
    while time.monotonic() < moment:
        pass


_COMMANDS: dict[str, Callable[..., Any]] = {"race": race, "lock": lock, "unlock": unlock}


def _obey(line: str) -> dict[str, Any]:
    command, *arguments = json.loads(line)
    try:
        return {"value": _COMMANDS[command](*arguments)}
    except OSError as error:
        return {"errno": error.errno, "error": str(error)}


def main() -> None:
    """Obey until standard input ends."""
    print(json.dumps({"value": "ready"}), flush=True)
    for line in sys.stdin:
        print(json.dumps(_obey(line)), flush=True)


if __name__ == "__main__":
    main()
