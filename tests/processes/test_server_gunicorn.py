"""A minute of gunicorn whose workers are recycled, reloaded, or killed since they hang."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest
from support.requirements import require
from support.serving import HOST, Server, free_port, serving
from support.soak import ask, soak, soak_folder
from support.soak_check import Record
from support.span_log import SpanLog

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

folder = soak_folder

WORKERS = 3
RECYCLED_AFTER = 5
NO_CONTROL_SOCKET = "control_socket_disable = True\n"  # it is one file for all of a user's servers
POST_FORK = """
def post_fork(server, worker):
    from support.soak_jobs import scheduler

    scheduler.start()
"""


def gunicorn(folder: Path, port: int, *options: str, configuration: str = "") -> list[str]:
    require(importlib.util.find_spec("gunicorn"), "gunicorn is not installed")
    (folder / "gunicorn.conf.py").write_text(NO_CONTROL_SOCKET + configuration)
    return [
        *(sys.executable, "-m", "gunicorn", "support.soak_app:app"),
        *(f"--bind={HOST}:{port}", f"--workers={WORKERS}", *options),
    ]


def nothing(_number: int) -> None:
    """Leave it to the requests."""


def assert_recycled_and_nothing_lost(folder: Path, served: int) -> Record:
    """Workers came and went, the long job outlived them, and no slot took note of it."""
    record = Record(folder)
    record.check()
    assert len(record.lives) >= served / RECYCLED_AFTER / 2
    assert record.handed_over("long") >= 2
    return record


@pytest.mark.parametrize("kind", ["sync", "gthread"])
def test_workers_recycled_after_five_requests_lose_and_double_no_slot(
    folder: Path, kind: str
) -> None:
    port = free_port()
    options = (f"--worker-class={kind}", f"--max-requests={RECYCLED_AFTER}")
    with serving(gunicorn(folder, port, *options), folder, port) as server:
        asked = soak(port, disturb=nothing, every=60)
        server.stop()
    record = assert_recycled_and_nothing_lost(folder, asked[True])
    assert record.died == set()


def test_preloaded_workers_that_start_after_the_fork_lose_and_double_no_slot(folder: Path) -> None:
    port = free_port()
    options = ("--preload", f"--max-requests={RECYCLED_AFTER}")
    command = gunicorn(folder, port, *options, configuration=POST_FORK)
    with serving(command, folder, port, START="post_fork") as server:
        asked = soak(port, disturb=lambda _: os.kill(server.pid, signal.SIGHUP), every=20)
        server.stop()
    # One that is told to end before it has gunicorn's signal handlers dies of it.
    assert_recycled_and_nothing_lost(folder, asked[True])


def test_reloads_by_a_signal_lose_and_double_no_slot(folder: Path) -> None:
    # gunicorn ends the old workers while the new ones are still importing: there is a time without
    # any, and the latest slot that was due in it is caught up.
    port = free_port()
    with serving(gunicorn(folder, port, "--worker-class=gthread"), folder, port) as server:
        asked = soak(port, disturb=lambda _: os.kill(server.pid, signal.SIGHUP), every=11)
        server.stop()
    record = Record(folder)
    record.check()
    assert record.died == set()
    assert len(record.lives) == 6 * WORKERS
    assert record.handed_over("long") >= 1
    assert asked[True] > asked[False]


def test_workers_that_hang_are_killed_and_their_runs_taken_over(folder: Path) -> None:
    port = free_port()
    command = gunicorn(folder, port, "--timeout=3", "--graceful-timeout=5")
    with serving(command, folder, port) as server:
        hang = (
            lambda: server.wait_for("a frozen holder", lambda: freeze_holder(server, folder)),
            lambda: ask(port, "/sleep"),
            lambda: ask(port, "/stuck"),
        )
        asked = soak(port, disturb=lambda number: hang[number % 3](), every=9)
        server.stop()
    record = Record(folder)
    record.check()
    assert record.passed_over() == set()
    assert 4 <= len(record.died) <= 6  # those that sleep can still be told to end, if they hurry
    assert record.handed_over("long") >= 2
    assert asked[True] > asked[False]


def freeze_holder(server: Server, folder: Path) -> bool:
    """Stop the worker that has a long run, unless it locks the store: that would stop them all."""
    last = [span for span in SpanLog(folder / "spans.log").spans() if span.job == "long"][-1:]
    if not last or last[0].ended is not None:
        return False
    os.kill(last[0].pid, signal.SIGSTOP)
    if server.store.is_locked():
        os.kill(last[0].pid, signal.SIGCONT)
        return False
    return True
