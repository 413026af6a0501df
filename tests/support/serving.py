"""Servers as processes: started on a free port, asked by HTTP, stopped, reaped with their group."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import leasecron
from support.instances import LIMIT
from support.run_log import Line, RunLog, slots_between
from support.store_file import StoreFile

HOST = "127.0.0.1"
STOP_LIMIT = 5.0
PERIOD_MS = 100  # of the job "tick" of support.web_app
ASKERS = 8

ROOTS = (Path(leasecron.__file__).parents[1], Path(__file__).parents[1])
STEERING = ("LEASECRON", "FLASK", "DJANGO", "GUNICORN", "UWSGI", "WERKZEUG", "RUN_MAIN")

Facts = dict[str, Any]


class Server:
    """A server, the processes that it forked, and what its application wrote."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.port = port
        self.folder = folder
        self.log = RunLog(folder / "runs.log")
        self.store = StoreFile(folder / "leasecron.db")

    def output(self) -> str:
        """Return what all its processes have printed."""
        return (self.folder / "output").read_text(errors="replace")

    def get(self) -> Facts:
        """Ask one worker for its facts."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=LIMIT)
        try:
            connection.request("GET", "/")
            response = connection.getresponse()
            body = response.read().decode()
        finally:
            connection.close()
        assert response.status == 200, f"{response.status} {body}\n{self.output()}"
        facts: Facts = json.loads(body)
        return facts

    def answers(self, but: int | None = None) -> bool:
        """Say whether a process other than ``but`` listens and answers."""
        assert self.process.poll() is None, self.output()
        try:
            return bool(self.get()["pid"] != but)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return False  # a server that is being reloaded may leave half an answer

    def wait_for(self, what: str, condition: Callable[[], object]) -> float:
        """Wait until ``condition`` holds; return the seconds that it took."""
        began = time.monotonic()
        while not condition():
            waited = time.monotonic() - began
            assert waited < LIMIT, f"{what}: not within {LIMIT:g} s\n{self.output()[-4000:]}"
            time.sleep(0.02)
        return time.monotonic() - began

    def workers(self, count: int, but: frozenset[int] = frozenset()) -> dict[int, Facts]:
        """Ask until ``count`` processes not in ``but`` have answered; return what each said."""
        seen: dict[int, Facts] = {}
        with ThreadPoolExecutor(ASKERS) as askers:

            def all_seen() -> bool:
                for facts in askers.map(lambda _: self.get(), range(4 * ASKERS)):
                    seen[facts["pid"]] = facts
                return len(seen.keys() - but) >= count

            self.wait_for(f"answers of {count} workers (answered: {seen})", all_seen)
        return {pid: facts for pid, facts in seen.items() if pid not in but}

    def wait_for_runs(self, count: int, job: str = "tick") -> Line:
        """Wait until ``count`` more runs have begun; return the last of them."""
        before = len(self.log.lines(job))
        self.wait_for(f"{count} runs", lambda: len(self.log.lines(job)) >= before + count)
        return self.log.lines(job)[-1]

    def wait_for_slots(self, count: int) -> None:
        """Wait until ``count`` slots in a row, from now on, have been run: none is left out."""
        self.wait_for_runs(1)
        first = max(self.log.slots("tick"))
        wanted = set(slots_between(first, first + (count - 1) * PERIOD_MS, PERIOD_MS))
        self.wait_for(
            f"the slots {min(wanted)} to {max(wanted)}",
            lambda: wanted <= set(self.log.slots("tick")),
        )

    def stop(self, number: int = signal.SIGTERM, *, group: bool = False) -> float:
        """Send a signal, wait until all processes are gone; return the seconds that it took."""
        began = time.monotonic()
        (os.killpg if group else os.kill)(self.pid, number)
        self.process.wait(LIMIT)
        self.wait_for("the end of all processes", lambda: not group_is_alive(self.pid))
        return time.monotonic() - began

    def assert_no_slot_twice(self) -> None:
        """Assert that no run was doubled, and that the store is sound."""
        assert self.log.doubles() == []
        assert self.store.integrity() == "ok"

    def loaded(self) -> dict[int, Facts]:
        """Return the facts of each process that imported the application, right after that."""
        found = [json.loads(path.read_text()) for path in self.folder.glob("loaded-*.json")]
        return {facts["pid"]: facts for facts in found}


@contextmanager
def serving(command: list[str], folder: Path, port: int, **environment: str) -> Iterator[Server]:
    """Run ``command`` in ``folder`` until it answers; kill its whole group at the end."""
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=clean_environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    server = Server(process, port, folder)
    try:
        server.wait_for("the first answer", server.answers)
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT)
        server.log.close()


def clean_environment(**more: str) -> dict[str, str]:
    """Return this environment without what steers servers and schedulers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(STEERING)}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(map(str, ROOTS)),
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def group_is_alive(group: int) -> bool:
    """Say whether any process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def script(name: str) -> Path:
    """Return the path of a command that is installed beside this interpreter."""
    return Path(sys.executable).parent / name
