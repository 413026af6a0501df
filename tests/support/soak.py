"""A minute of a server under a light load, while something disturbs it."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.serving import HOST

MINUTE = 60.0
PER_SECOND = 3
ANSWER_LIMIT = 5.0


@pytest.fixture
def soak_folder(tmp_path: Path) -> Iterator[Path]:
    """Make a folder in memory: a disk may be busy for longer than a lease."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


def soak(*ports: int, disturb: Callable[[int], object], every: float) -> Counter[bool]:
    """Ask the servers for a minute, and call ``disturb`` with 0, 1, ... until that is over.

    Returns how many requests were answered, and how many were not.
    """
    begin, number = time.monotonic(), 0
    with _load(*ports) as asked:
        while (number + 1) * every < MINUTE:
            _wait_until(begin + (number + 1) * every)
            disturb(number)
            number += 1
        _wait_until(begin + MINUTE)
    return asked


def ask(port: int, path: str) -> bool:
    """Say whether the server answers a request in time."""
    connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_LIMIT)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False  # it is being reloaded, or hangs
    finally:
        connection.close()


@contextmanager
def _load(*ports: int) -> Iterator[Counter[bool]]:
    over = threading.Event()
    asked: Counter[bool] = Counter()

    def keep_asking(port: int) -> None:
        while not over.wait(len(ports) / PER_SECOND):
            asked[ask(port, "/")] += 1

    threads = [threading.Thread(target=keep_asking, args=[port]) for port in ports]
    for thread in threads:
        thread.start()
    try:
        yield asked
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _wait_until(due: float) -> None:
    time.sleep(max(0.0, due - time.monotonic()))
