"""gunicorn, with everything that it does to processes."""

import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.instances import TOLERANCE
from support.requirements import require
from support.serving import HOST, STOP_LIMIT, Server, free_port, serving

pytestmark = pytest.mark.slow

WORKERS = 3
LEASE_AND_TWO_HEARTBEATS = 3.0
NO_CONTROL_SOCKET = "control_socket_disable = True\n"  # it is one file for all of a user's servers
POST_FORK = """
def post_fork(server, worker):
    from support.web_app import scheduler

    scheduler.start()
"""

kinds = pytest.mark.parametrize("kind", ["sync", "gthread"])


@contextmanager
def gunicorn(
    folder: Path, configuration: str, *options: str, **environment: str
) -> Iterator[Server]:
    require(importlib.util.find_spec("gunicorn"), "gunicorn is not installed")
    (folder / "gunicorn.conf.py").write_text(NO_CONTROL_SOCKET + configuration)
    port = free_port()
    command = [
        *(sys.executable, "-m", "gunicorn", "support.web_app:application"),
        *(f"--bind={HOST}:{port}", f"--workers={WORKERS}", *options),
    ]
    with serving(command, folder, port, **environment) as server:
        yield server


@kinds
def test_each_worker_is_an_instance(tmp_path: Path, kind: str) -> None:
    with gunicorn(tmp_path, "", f"--worker-class={kind}") as server:
        server.workers(WORKERS)
        server.wait_for_slots(20)
        workers = server.workers(WORKERS)
        took = server.stop()
    assert all(facts["running"] for facts in workers.values())
    assert len({facts["instance"] for facts in workers.values()}) == WORKERS
    assert server.loaded().keys() == workers.keys()
    server.assert_no_slot_twice()
    assert took < STOP_LIMIT
    assert server.process.returncode == 0


@kinds
def test_with_preload_the_master_alone_runs_jobs(tmp_path: Path, kind: str) -> None:
    with gunicorn(tmp_path, "", f"--worker-class={kind}", "--preload") as server:
        server.workers(WORKERS)
        server.wait_for_slots(20)
        workers = server.workers(WORKERS)
        took = server.stop()
    assert not any(facts["running"] for facts in workers.values())
    assert not any(facts["store"] for facts in workers.values())
    assert {line.pid for line in server.log.lines()} == {server.pid}
    assert server.output().count("the scheduler does not run in this forked process") == WORKERS
    server.assert_no_slot_twice()
    assert took < STOP_LIMIT
    assert server.process.returncode == 0


@kinds
def test_with_preload_a_post_fork_hook_starts_each_worker(tmp_path: Path, kind: str) -> None:
    with gunicorn(
        tmp_path, POST_FORK, f"--worker-class={kind}", "--preload", START="post_fork"
    ) as server:
        server.workers(WORKERS)
        server.wait_for_slots(20)
        workers = server.workers(WORKERS)
        took = server.stop()
    assert all(facts["running"] for facts in workers.values())
    assert len({facts["instance"] for facts in workers.values()}) == WORKERS
    assert {line.pid for line in server.log.lines()} <= workers.keys()
    server.assert_no_slot_twice()
    assert took < STOP_LIMIT
    assert server.process.returncode == 0


@pytest.mark.parametrize(
    ("options", "configuration", "start"),
    [((), "", "import"), (("--preload",), "", "import"), (("--preload",), POST_FORK, "post_fork")],
    ids=["in-workers", "in-the-master", "preload-in-workers"],
)
def test_workers_that_are_recycled_double_nothing(
    tmp_path: Path, options: tuple[str, ...], configuration: str, start: str
) -> None:
    with gunicorn(tmp_path, configuration, "--max-requests=20", *options, START=start) as server:
        first = server.workers(WORKERS)
        second = server.workers(WORKERS, but=frozenset(first))
        server.wait_for_runs(10)
        took = server.stop()
    server.assert_no_slot_twice()
    assert "Traceback" not in server.output()
    assert len({facts["instance"] for facts in [*first.values(), *second.values()]}) >= 2 * WORKERS
    assert took < STOP_LIMIT


@kinds
def test_a_killed_worker_is_replaced_and_its_run_taken_over(tmp_path: Path, kind: str) -> None:
    with gunicorn(tmp_path, "", f"--worker-class={kind}", LONG="heeding") as server:
        before = server.workers(WORKERS)
        server.wait_for("the long run", lambda: server.log.lines("long"))
        first = server.log.lines("long")[0]
        os.kill(first.pid, signal.SIGKILL)
        killed = time.monotonic()
        server.wait_for("the takeover", lambda: len(server.log.lines("long")) == 2)
        second = server.log.lines("long")[1]
        after = server.workers(WORKERS, but=frozenset({first.pid}))
        server.wait_for("the end of the run", lambda: len(server.store.results("long")) == 2)
        server.stop()
    assert first.pid in before
    assert (second.slot, second.attempt) == (first.slot, 2)
    assert second.monotonic - killed < LEASE_AND_TWO_HEARTBEATS + TOLERANCE
    assert all(facts["running"] for facts in after.values())
    assert [result["status"] for result in server.store.results("long")] == ["lost", "success"]


@kinds
def test_a_stop_gives_back_a_run_that_is_not_done(tmp_path: Path, kind: str) -> None:
    with gunicorn(tmp_path, "", f"--worker-class={kind}", LONG="heeding") as server:
        server.wait_for("the long run", lambda: server.log.lines("long"))
        took = server.stop()
    assert took < STOP_LIMIT
    assert [run["state"] for run in server.store.runs("long")] == ["released"]
    assert [result["status"] for result in server.store.results("long")] == ["interrupted"]
    assert "Traceback" not in server.output()


def test_a_handler_that_ignores_its_signal_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    with gunicorn(tmp_path, "", LONG="deaf") as server:
        server.wait_for("the long run", lambda: server.log.lines("long"))
        took = server.stop()
    assert took < STOP_LIMIT
    assert server.store.results("long") == []  # its lease runs out, and then it counts as lost
    assert "Traceback" not in server.output()
