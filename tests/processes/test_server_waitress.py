"""A minute of two waitress servers, as behind a proxy, of which one is restarted at a time."""

import importlib.util
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.requirements import require
from support.serving import HOST, Server, free_port, serving
from support.soak import soak, soak_folder
from support.soak_check import Record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

folder = soak_folder


def test_restarts_of_one_server_at_a_time_lose_and_double_no_slot(folder: Path) -> None:
    require(importlib.util.find_spec("waitress"), "waitress is not installed")
    ports = (free_port(), free_port())
    with ExitStack() as servers:

        def start(port: int) -> None:
            command = [sys.executable, "-m", "waitress", f"--listen={HOST}:{port}"]
            command.append("support.soak_app:app")
            running[port] = servers.enter_context(serving(command, folder, port))

        def restart(number: int) -> None:
            port = ports[number % 2]
            # Python ends by SIGINT, and dies by SIGTERM unless the application handles it.
            running[port].stop((signal.SIGINT, signal.SIGTERM)[number // 2 % 2])
            start(port)

        running: dict[int, Server] = {}
        for port in ports:
            start(port)
        asked = soak(*ports, disturb=restart, every=7)
        for server in running.values():
            server.stop(signal.SIGINT)
    record = Record(folder)
    record.check()
    assert record.passed_over() == set()
    assert len(record.died) == 4
    assert len(record.lives) == 10
    assert record.handed_over("long") >= 1
    assert asked[True] > asked[False]
