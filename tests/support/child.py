"""What the programs of spawned instances share; each begins with ``from support.child import *``.

An instance says what happens as JSON lines on its standard output, and evaluates the lines that it
is told on its standard input.
"""

import json
import logging
import os
import pwd
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from leasecron import Event, JobOptions, Scheduler, SqliteBackend
from leasecron.model import from_ms, to_ms
from support.run_log import RunLog

__all__ = [
    "DEFAULTS",
    "Once",
    "become_nobody",
    "gates",
    "new_scheduler",
    "note",
    "say",
    "serve",
    "store",
]

DEFAULTS = JobOptions(lease="2s", heartbeat="500ms", jitter=0, max_late="5s", max_attempts=3)

store = os.environ.get("TEST_STORE", "memory://")
note = RunLog(Path(os.environ.get("TEST_LOG", os.devnull))).append

gates: defaultdict[str, threading.Event] = defaultdict(threading.Event)
"""Events by job, for handlers that go on until the test opens their gate."""


class Once:
    """A schedule with a single slot, so that nothing newer replaces it."""

    def __init__(self, slot_ms: int) -> None:
        self.slot = from_ms(slot_ms)

    def next_after(self, t: datetime, /) -> datetime | None:
        return self.slot if t < self.slot else None

    def latest_at(self, t: datetime, /) -> datetime | None:
        return self.slot if t >= self.slot else None


def become_nobody() -> None:
    """Give up root, whom no permission binds."""
    if os.geteuid() != 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        # All that is imported when it is needed is imported now: later it may be out of reach.
        backend = SqliteBackend(f"{folder}/warm-up.db")
        backend.open()
        backend.history()
        backend.close()
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)


def say(what: str, **facts: object) -> None:
    """Write one line for the test, without a lock: signal handlers may say things too."""
    line = {"what": what, "pid": os.getpid(), "monotonic": time.monotonic(), **facts}
    os.write(1, (json.dumps(line, default=str) + "\n").encode())


def new_scheduler(**arguments: Any) -> Scheduler:
    """Return a scheduler on the test's store that says its events and its warnings."""
    logging.getLogger("leasecron").addHandler(_Saying(logging.WARNING))
    scheduler = Scheduler(store, defaults=DEFAULTS, **arguments)
    scheduler.on("*", _say_event)
    return scheduler


def serve(scheduler: Scheduler) -> None:
    """Start, and answer the test until it says ``end``; its death ends this process too."""
    scheduler.start()
    say("up", instance=scheduler.instance)
    names = vars(sys.modules["__main__"])
    for line in _commands():
        if line == "end":
            return
        try:
            say("answer", value=eval(line, names))
        except Exception as error:
            say("answer", raised=repr(error))
    os._exit(1)


def _commands() -> Iterator[str]:
    """Read standard input without ``sys.stdin``: a child forked meanwhile could not close it."""
    waiting = b""
    while more := os.read(0, 4096):
        *lines, waiting = (waiting + more).split(b"\n")
        yield from map(bytes.decode, lines)


class _Saying(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say("log", level=record.levelname, text=self.format(record))


def _say_event(event: Event) -> None:
    facts: dict[str, object] = {"job": event.job, "instance": event.instance}
    facts["slot"] = None if event.slot is None else to_ms(event.slot)
    result = getattr(event, "result", None)
    for name in ("attempt", "trigger", "lateness", "fence", "reason", "holder", "operation"):
        facts[name] = getattr(event, name, getattr(result, name, None))
    facts["status"] = getattr(result, "status", None)
    exception = getattr(event, "exception", None)
    facts["exception"] = None if exception is None else str(exception)
    say(event.name, **facts)
