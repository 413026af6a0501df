"""Flask's reloader, which imports the application twice and starts it anew when a file changes."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest
from support.requirements import require
from support.serving import HOST, STOP_LIMIT, free_port, serving

pytestmark = pytest.mark.slow

APP = """
from flask import Flask
from support.web_app import facts

app = Flask(__name__)
app.get("/")(facts)
"""


def test_the_scheduler_runs_on_when_flask_reloads_the_application(tmp_path: Path) -> None:
    require(importlib.util.find_spec("flask"), "Flask is not installed")
    app = tmp_path / "app.py"
    app.write_text(APP)
    port = free_port()
    command = [
        *(sys.executable, "-m", "flask", "--app=app", "run", "--debug"),
        *(f"--host={HOST}", f"--port={port}"),
    ]
    with serving(command, tmp_path, port) as server:
        first = server.get()
        server.wait_for_runs(10)
        os.utime(app)
        server.wait_for("the reloaded application", lambda: server.answers(but=first["pid"]))
        second = server.get()
        server.wait_for_slots(10)
        loaded = server.loaded()
        took = server.stop(signal.SIGINT, group=True)
    assert first["running"]
    assert second["running"]
    assert loaded.keys() == {server.pid, first["pid"], second["pid"]}
    assert {line.pid for line in server.log.lines()} <= loaded.keys()
    server.assert_no_slot_twice()
    assert took < STOP_LIMIT
