"""Every snippet of the README does what it says, alone in an empty directory."""

import importlib.util
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.instances import LIMIT
from support.readme import README, TEXT, Snippet, console_commands, shell_commands, snippets
from support.requirements import require
from support.serving import clean_environment

from leasecron import LockDirBackend

SETTINGS = 'SECRET_KEY = "only for this test"\nUSE_TZ = True\n'
SNIPPETS = snippets()
MOUNT = "/mnt/nfs/locks"
SCRIPTS = [snippet for snippet in SNIPPETS if "scheduler.run(" in snippet.code]

SET_UP = [
    "python3 -m venv .venv && .venv/bin/pip install '.[cli]' && .venv/bin/leasecron demo",
    "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest",
]


@pytest.fixture(params=SNIPPETS, ids=str)
def snippet(request: pytest.FixtureRequest, tmp_path: Path) -> Snippet:
    """One snippet, in a directory that has only what the page has named so far."""
    chosen: Snippet = request.param
    for package in ("flask", "django"):
        if package in chosen.code:
            require(importlib.util.find_spec(package), f"{package} is not installed")
    for earlier in SNIPPETS[: SNIPPETS.index(chosen)]:
        if earlier.file is not None:
            (tmp_path / earlier.file).write_text(earlier.code)
    if "mysite.settings" in chosen.code:
        (tmp_path / "mysite").mkdir()
        (tmp_path / "mysite" / "settings.py").write_text(SETTINGS)
    return chosen


def started(snippet: Snippet, folder: Path) -> "subprocess.Popen[str]":
    code = snippet.code.replace(MOUNT, str(folder / "locks"))
    if code != snippet.code:
        make_lock_directory(folder / "locks")
    if snippet.file == "gunicorn.conf.py":
        code += "\npost_fork(None, None)\n"  # a hook that nobody calls would prove nothing
    script = folder / (snippet.file or "snippet.py")
    script.write_text(code)
    is_test = script.name.startswith("test_")
    return subprocess.Popen(
        [sys.executable, *(["-m", "pytest", "-q"] if is_test else []), script.name],
        cwd=folder,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_snippet_runs(snippet: Snippet, tmp_path: Path) -> None:
    process = started(snippet, tmp_path)
    try:
        if snippet in SCRIPTS:
            wait_until_it_runs(process, tmp_path)
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
        process.wait()
    assert errors == ""
    assert process.returncode == 0


def make_lock_directory(path: Path) -> None:
    backend = LockDirBackend(path, create=True)
    backend.open()
    backend.close()


def wait_until_it_runs(process: "subprocess.Popen[str]", folder: Path) -> None:
    deadline = time.monotonic() + LIMIT
    # A SQLite file is made at the start, and a job gets its folder in a lock directory.
    while not [*folder.glob("leasecron.db"), *folder.glob("locks/jobs/*/job.json")]:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_page_has_the_snippets_that_it_promises() -> None:
    assert [snippet.file for snippet in SNIPPETS if snippet.file] == [
        "app.py",
        "gunicorn.conf.py",
        "jobs.py",
        "wsgi.py",
        "test_billing.py",
    ]
    assert len(SCRIPTS) == 2
    assert "run_once(" in SNIPPETS[-2].code


def test_the_commands_for_a_lock_directory_work_in_their_order(tmp_path: Path) -> None:
    commands = console_commands()
    assert [command.split()[:2] for command in commands] == [
        ["leasecron", "init"],
        ["leasecron", "doctor"],
    ]
    for command in commands:
        _, *arguments = command.replace(MOUNT, str(tmp_path / "locks")).split()
        done = subprocess.run(
            [sys.executable, "-m", "leasecron", *arguments],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.stderr == ""
        # A machine may well have something that a doctor warns of, but nothing that forbids it.
        assert done.returncode in ({0} if "init" in arguments else {0, 1}), done.stdout


def test_the_pages_that_it_links_to_are_there() -> None:
    pages = re.findall(r"\]\(([\w./-]+\.md)\)", TEXT)
    assert pages
    assert [page for page in pages if not (README.parent / page).is_file()] == []


def test_two_commands_set_it_up() -> None:
    assert shell_commands() == SET_UP
