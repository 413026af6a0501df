"""uWSGI, which forks in C: Python's fork hooks do not run."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.instances import LIMIT, TOLERANCE
from support.requirements import require
from support.serving import (
    HOST,
    STOP_LIMIT,
    Server,
    clean_environment,
    free_port,
    script,
    serving,
)

pytestmark = pytest.mark.slow

WORKERS = 3
STARTS = 5  # what a fork spoils, it spoils now and then
LEASE_AND_TWO_HEARTBEATS = 3.0
STARTED = "the scheduler started instance="

MASTER_SETUPS = {
    "master": ["--master"],
    "threads": ["--master", "--threads=4"],
    "mule": ["--master", "--mule"],
    "fork-hooks": ["--master", "--py-call-uwsgi-fork-hooks"],
    "after-fork": ["--master", "--py-call-osafterfork"],
    "fork-hooks-threads": ["--master", "--py-call-uwsgi-fork-hooks", "--threads=4"],
    "no-master": [],
    "no-master-threads": ["--threads=4"],
}
LAZY_SETUPS = {
    "master": ["--master", "--lazy-apps"],
    "threads": ["--master", "--lazy-apps", "--threads=4"],
    "no-master": ["--lazy-apps"],
}
masters = pytest.mark.parametrize("options", MASTER_SETUPS.values(), ids=MASTER_SETUPS)
lazy = pytest.mark.parametrize("options", LAZY_SETUPS.values(), ids=LAZY_SETUPS)


def command(port: int, *options: str, workers: int = WORKERS) -> list[str]:
    require(script("uwsgi").exists(), "uWSGI is not installed (pip install pyuwsgi)")
    return [
        *(str(script("uwsgi")), f"--http-socket={HOST}:{port}", f"--processes={workers}"),
        *("--disable-logging", "--die-on-term", *options),
    ]


@contextmanager
def uwsgi(
    folder: Path, *options: str, workers: int = WORKERS, **environment: str
) -> Iterator[Server]:
    port = free_port()
    module = "--module=support.web_app"
    started = serving(command(port, module, *options, workers=workers), folder, port, **environment)
    with started as server:
        yield server


def stop(server: Server, options: list[str]) -> float:
    # Without a master nobody passes the signal on, as a terminal would.
    return server.stop(group="--master" not in options)


def assert_nothing_ran_in(server: Server) -> None:
    """Assert that start() left the process that forked without a thread or an open store."""
    loaded = server.loaded()
    assert loaded.keys() == {server.pid}
    facts = loaded[server.pid]
    assert (facts["running"], facts["threads"], facts["store"]) == (False, ["MainThread"], [])


@masters
def test_every_worker_answers_and_runs_jobs_whenever_it_was_forked(
    tmp_path: Path, options: list[str]
) -> None:
    for number in range(STARTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with uwsgi(folder, *options) as server:
            server.workers(WORKERS)
            server.wait_for_slots(8)
            workers = server.workers(WORKERS)
            took = stop(server, options)
        assert all(facts["running"] for facts in workers.values())
        assert len({facts["instance"] for facts in workers.values()}) == WORKERS
        assert_nothing_ran_in(server)
        assert server.output().count(STARTED) == WORKERS + options.count("--mule")
        server.assert_no_slot_twice()
        assert took < STOP_LIMIT


@lazy
def test_with_lazy_apps_each_worker_starts_its_own(tmp_path: Path, options: list[str]) -> None:
    with uwsgi(tmp_path, *options) as server:
        server.workers(WORKERS)
        server.wait_for_slots(20)
        workers = server.workers(WORKERS)
        took = stop(server, options)
    assert all(facts["running"] for facts in workers.values())
    assert server.loaded().keys() == workers.keys()
    server.assert_no_slot_twice()
    assert took < STOP_LIMIT


@pytest.mark.parametrize("options", [[], ["--master"], ["--lazy-apps"]], ids=" ".join)
def test_a_single_worker_runs_jobs(tmp_path: Path, options: list[str]) -> None:
    with uwsgi(tmp_path, *options, workers=1) as server:
        server.wait_for_slots(10)
        facts = server.get()
        took = stop(server, options)
    assert facts["running"]
    server.assert_no_slot_twice()
    assert took < STOP_LIMIT


@pytest.mark.parametrize("when", ["before", "after"])
def test_decorators_are_welcome_before_and_after_the_start(tmp_path: Path, when: str) -> None:
    with uwsgi(tmp_path, "--master", DECORATORS=when) as server:
        workers = server.workers(WORKERS)
        server.wait_for_slots(10)
        took = server.stop()
    assert all(facts["running"] for facts in workers.values())
    hooked = {f"forked-{pid}" for pid in workers} if when == "after" else set()
    assert {path.name for path in tmp_path.glob("forked-*")} == hooked
    server.assert_no_slot_twice()
    assert took < STOP_LIMIT


def test_a_store_that_was_asked_before_the_fork_is_not_carried_over_it(tmp_path: Path) -> None:
    with uwsgi(tmp_path, "--master", HISTORY="1") as server:
        workers = server.workers(WORKERS)
        server.wait_for_slots(10)
        took = server.stop()
    assert all(facts["running"] for facts in workers.values())
    assert_nothing_ran_in(server)
    server.assert_no_slot_twice()
    assert took < STOP_LIMIT


def test_a_killed_worker_is_replaced_and_its_run_taken_over(tmp_path: Path) -> None:
    with uwsgi(tmp_path, "--master", LONG="heeding") as server:
        server.workers(WORKERS)
        server.wait_for("the long run", lambda: server.log.lines("long"))
        first = server.log.lines("long")[0]
        os.kill(first.pid, signal.SIGKILL)
        killed = time.monotonic()
        server.wait_for("the takeover", lambda: len(server.log.lines("long")) == 2)
        second = server.log.lines("long")[1]
        after = server.workers(WORKERS, but=frozenset({first.pid}))
        server.wait_for("the end of the run", lambda: len(server.store.results("long")) == 2)
        server.stop()
    assert (second.slot, second.attempt) == (first.slot, 2)
    assert second.monotonic - killed < LEASE_AND_TWO_HEARTBEATS + TOLERANCE
    assert all(facts["running"] for facts in after.values())
    assert [result["status"] for result in server.store.results("long")] == ["lost", "success"]


@pytest.mark.parametrize("options", [["--master"], ["--master", "--threads=2"]], ids=" ".join)
def test_a_stop_gives_back_a_run_that_is_not_done(tmp_path: Path, options: list[str]) -> None:
    with uwsgi(tmp_path, *options, LONG="heeding") as server:
        server.wait_for("the long run", lambda: server.log.lines("long"))
        took = server.stop()
    assert took < STOP_LIMIT
    assert [run["state"] for run in server.store.runs("long")] == ["released"]
    assert [result["status"] for result in server.store.results("long")] == ["interrupted"]


@pytest.mark.parametrize("options", [["--master"], ["--master", "--threads=2"]], ids=" ".join)
def test_a_handler_that_ignores_its_signal_does_not_hold_up_a_stop(
    tmp_path: Path, options: list[str]
) -> None:
    with uwsgi(tmp_path, *options, LONG="deaf") as server:
        server.wait_for("the long run", lambda: server.log.lines("long"))
        took = server.stop()
    assert took < STOP_LIMIT
    assert server.store.results("long") == []  # its lease runs out, and then it counts as lost


def test_an_application_in_an_interpreter_of_its_own_is_told_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "second.py").write_text("from support.web_app import application\n")
    mounts = ("--mount=/=support.web_app:application", "--mount=/second=second.py")
    ended = subprocess.run(
        command(free_port(), "--master", *mounts),
        cwd=tmp_path,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert ended.returncode != 0
    assert "SchedulerStateError: this application is loaded into an interpreter" in ended.stderr
    assert "set single-interpreter = true" in ended.stderr
