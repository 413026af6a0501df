"""A minute of uWSGI whose workers are recycled, reloaded, and killed since they hang."""

import os
import signal
import sysconfig
from pathlib import Path

import pytest
from support.requirements import require
from support.serving import HOST, ROOTS, free_port, script, serving
from support.soak import ask, soak, soak_folder
from support.soak_check import Record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

folder = soak_folder

WORKERS = 3
# A reload executes the interpreter itself, which does not know of its virtual environment.
WITH_PACKAGES = os.pathsep.join([*map(str, ROOTS), sysconfig.get_path("purelib")])


@pytest.mark.parametrize("lazy", [False, True], ids=["of-all", "one-by-one"])
def test_workers_recycled_reloaded_and_killed_lose_and_double_no_slot(
    folder: Path, lazy: bool
) -> None:
    require(script("uwsgi").exists(), "uWSGI is not installed (pip install pyuwsgi)")
    port = free_port()
    touched = folder / "reload"
    touched.touch()
    command = [
        *(str(script("uwsgi")), f"--http-socket={HOST}:{port}", f"--processes={WORKERS}"),
        *("--module=support.soak_app:app", "--master", "--die-on-term", "--disable-logging"),
        *("--max-requests=5", "--min-worker-lifetime=1", "--harakiri=2"),
        # An order to end that comes while a worker imports is lost, and the worker killed later.
        "--worker-reload-mercy=8",
        *(("--lazy-apps", f"--touch-chain-reload={touched}") if lazy else ()),
    ]
    with serving(command, folder, port, PYTHONPATH=WITH_PACKAGES) as server:

        def disturb(number: int) -> None:
            if number % 2 == 0:
                ask(port, "/sleep")  # until it is killed
            elif lazy:
                os.utime(touched)
            else:
                os.kill(server.pid, signal.SIGHUP)

        asked = soak(port, disturb=disturb, every=8.5)
        server.stop()
    record = Record(folder)
    record.check()
    assert len(record.died) >= 4
    assert len(record.lives) >= asked[True] / 10
    assert record.handed_over("long") >= 2
