"""A WSGI application with a scheduler, which the tests of servers deploy.

It works in the folder that it is started in; the environment says when the scheduler starts.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from leasecron import JobOptions, RunContext, Scheduler
from support.run_log import RunLog

logging.basicConfig(level=logging.INFO)

scheduler = Scheduler(
    "sqlite:///leasecron.db", defaults=JobOptions(lease="2s", heartbeat="500ms", overlap="allow")
)
log = RunLog(Path("runs.log"))
scheduler.every("tick", "100ms", log.append)

if "LONG" in os.environ:
    # Its latest slot is caught up at once, whenever the server starts.
    @scheduler.every("long", "30d", catch_up="30d", jitter=0)
    def long(ctx: RunContext) -> None:
        log.append(ctx)
        if ctx.attempt > 1:
            return
        if os.environ["LONG"] == "deaf":
            time.sleep(600)
        ctx.sleep(600)


if os.environ.get("DECORATORS") == "before":
    import uwsgidecorators

if "HISTORY" in os.environ:
    scheduler.history()

if os.environ.get("START", "import") == "import":
    scheduler.start()

if os.environ.get("DECORATORS") == "after":
    import uwsgidecorators

    uwsgidecorators.postfork(lambda: Path(f"forked-{os.getpid()}").touch())


def facts() -> dict[str, Any]:
    """Say what this process has of the scheduler."""
    return {
        "pid": os.getpid(),
        "instance": scheduler.instance,
        "running": scheduler.running,
        "threads": [thread.name for thread in threading.enumerate()],
        "store": [path for path in open_files() if "leasecron.db" in path],
    }


def open_files() -> list[str]:
    """Return what this process has open, where the system tells."""
    paths = []
    for entry in Path("/proc/self/fd").glob("*"):
        with suppress(FileNotFoundError):  # another thread has just closed it
            paths.append(str(entry.readlink()))
    return paths


Path(f"loaded-{os.getpid()}.json").write_text(json.dumps(facts()))


def application(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    """Answer any request with the facts."""
    time.sleep(0.02)  # so that one worker does not answer all requests alone
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(facts()).encode()]
