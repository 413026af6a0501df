"""A minute of the development servers of Flask and Django, whose files change all the while."""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest
from support.requirements import require
from support.serving import HOST, free_port, serving
from support.soak import soak, soak_folder
from support.soak_check import Record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

folder = soak_folder

EVERY = 9.0
RELOADS = 6
DJANGO = {
    "manage.py": """
import os, sys
from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "site_settings"
execute_from_command_line(sys.argv)
""",
    "site_settings.py": """
SECRET_KEY = "only for this test"
DEBUG = True
ROOT_URLCONF = "site_urls"
WSGI_APPLICATION = "site_wsgi.application"
USE_TZ = True
""",
    "site_urls.py": """
import os

from django.http import JsonResponse
from django.urls import path

urlpatterns = [path("", lambda request: JsonResponse({"pid": os.getpid()}))]
""",
    "site_wsgi.py": """
from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()

from support.soak_jobs import scheduler

scheduler.start()
""",
}


def soaked(folder: Path, port: int, command: list[str], file: str) -> Record:
    """Change ``file`` now and then while the server runs; return what became of it."""
    with serving(command, folder, port) as server:
        asked = soak(port, disturb=lambda _: os.utime(folder / file), every=EVERY)
        server.stop(signal.SIGINT, group=True)
    record = Record(folder)
    assert asked[True] > asked[False]
    return record


def test_reloads_by_flask_lose_and_double_no_slot(folder: Path) -> None:
    require(importlib.util.find_spec("flask"), "Flask is not installed")
    (folder / "app.py").write_text("from support.soak_app import app\n")
    port = free_port()
    flask = [sys.executable, "-m", "flask", "--app=app", "run", "--debug"]
    record = soaked(folder, port, [*flask, f"--host={HOST}", f"--port={port}"], "app.py")
    record.check()
    assert record.died == set()
    assert record.passed_over() == set()  # the reloader is an instance too, and always up
    assert len(record.lives) >= 2 + RELOADS


def test_reloads_by_django_lose_and_double_no_slot(folder: Path) -> None:
    require(importlib.util.find_spec("django"), "Django is not installed")
    for name, text in DJANGO.items():
        (folder / name).write_text(text)
    port = free_port()
    command = [sys.executable, "manage.py", "runserver", f"{HOST}:{port}"]
    record = soaked(folder, port, command, "site_urls.py")
    record.check()
    assert record.died == set()
    assert len(record.lives) >= 1 + RELOADS
    assert record.handed_over("long") >= 1
