"""Django's development server with its reloader, and a command of manage.py."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.instances import LIMIT
from support.requirements import require
from support.serving import HOST, STOP_LIMIT, clean_environment, free_port, serving

pytestmark = pytest.mark.slow

FILES = {
    "manage.py": """
import os, sys
from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
execute_from_command_line(sys.argv)
""",
    "mysite/settings.py": """
SECRET_KEY = "only for this test"
DEBUG = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "mysite.urls"
WSGI_APPLICATION = "mysite.wsgi.application"
USE_TZ = True
""",
    "mysite/urls.py": """
from django.http import JsonResponse
from django.urls import path


def facts(request):
    from support import web_app

    return JsonResponse(web_app.facts())


urlpatterns = [path("", facts)]
""",
    "mysite/wsgi.py": """
import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
application = get_wsgi_application()

from support.web_app import scheduler

scheduler.start()
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require(importlib.util.find_spec("django"), "Django is not installed")
    (tmp_path / "mysite").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_scheduler_runs_on_when_django_reloads_the_application(project: Path) -> None:
    port = free_port()
    command = [sys.executable, "manage.py", "runserver", f"{HOST}:{port}"]
    with serving(command, project, port, START="wsgi") as server:
        first = server.get()
        server.wait_for_runs(10)
        os.utime(project / "mysite" / "urls.py")
        server.wait_for("the reloaded application", lambda: server.answers(but=first["pid"]))
        second = server.get()
        last = server.wait_for_runs(10)
        took = server.stop(signal.SIGINT, group=True)
    assert first["running"]
    assert second["running"]
    assert server.loaded().keys() == {first["pid"], second["pid"]}
    server.assert_no_slot_twice()
    assert last.pid == second["pid"]
    assert took < STOP_LIMIT


def test_a_command_of_manage_py_starts_nothing(project: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=project,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert checked.returncode == 0, checked.stderr
    assert "no issues" in checked.stdout
    assert {path.name for path in project.iterdir()} <= {"manage.py", "mysite", "__pycache__"}
