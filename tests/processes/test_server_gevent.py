"""gunicorn's gevent worker, in which the scheduler refuses to start."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from support.instances import LIMIT
from support.requirements import require
from support.serving import HOST, clean_environment, free_port

pytestmark = pytest.mark.slow

NO_CONTROL_SOCKET = "control_socket_disable = True\n"  # it is one file for all of a user's servers
POST_FORK = """
def post_fork(server, worker):
    from support.soak_jobs import scheduler

    scheduler.start()
"""
REFUSED = "gevent makes the threads of this process greenlets"


@pytest.mark.parametrize(
    ("options", "start"),
    [([], "import"), (["--preload"], "import"), (["--preload"], "post_fork")],
    ids=["in-workers", "in-the-master", "preload-in-workers"],
)
def test_a_server_whose_threads_are_greenlets_does_not_come_up_and_says_why(
    tmp_path: Path, options: list[str], start: str
) -> None:
    for library in ("gunicorn", "gevent"):
        require(importlib.util.find_spec(library), f"{library} is not installed")
    configuration = NO_CONTROL_SOCKET + (POST_FORK if start == "post_fork" else "")
    (tmp_path / "gunicorn.conf.py").write_text(configuration)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "gunicorn", "support.soak_app:app", "--worker-class=gevent"),
            *(f"--bind={HOST}:{free_port()}", *options),
        ],
        cwd=tmp_path,
        env=clean_environment(START=start),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert ended.returncode != 0
    assert REFUSED in ended.stderr
    assert "use threads (gunicorn: --worker-class gthread)" in ended.stderr
    assert not (tmp_path / "leasecron.db").exists()
