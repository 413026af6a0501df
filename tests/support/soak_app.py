"""A Flask application with jobs, and with requests that hang in one way or the other."""

import os
import time
from typing import Any

from flask import Flask

from support.soak_jobs import scheduler

app = Flask(__name__)

if os.environ.get("START", "import") == "import":
    scheduler.start()


@app.get("/")
def facts() -> dict[str, Any]:
    """Say who answers."""
    time.sleep(0.02)  # so that one worker does not answer all requests alone
    return {"pid": os.getpid(), "running": scheduler.running}


@app.get("/sleep")
def sleep() -> str:
    """Hang where Python can still be interrupted."""
    time.sleep(600)
    return ""


@app.get("/stuck")
def stuck() -> str:
    """Hang in C with the interpreter lock held: no other thread gets a turn."""
    return str(sum(range(10**12)))
