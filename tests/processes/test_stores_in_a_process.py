"""A store in its process: refused at start(), shared by schedulers, opened by SQLite alone."""

import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.instances import Instances, spawned_instances
from support.run_log import slots_between

from leasecron.backends.sqlite.backend import SqliteBackend

instances = spawned_instances


@pytest.fixture
def anybodys() -> Iterator[Instances]:
    """Spawn instances that permissions bind, in a folder that everybody may write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    instances = Instances(folder)
    yield instances
    instances.reap()
    folder.chmod(0o700)
    shutil.rmtree(folder)


STARTING = """
from leasecron import BackendError
become_nobody()
scheduler = new_scheduler()
scheduler.every("tick", "1s", note)
try:
    scheduler.start()
except BackendError as error:
    say("refused", error=str(error), running=scheduler.running)
else:
    say("up")
"""


def damage_header(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(random.Random(1).randbytes(100) + data[100:])


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def make_newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


def make_read_only(path: Path) -> None:
    path.chmod(0o444)


def close_the_folder(path: Path) -> None:
    path.parent.chmod(0o555)


def remove_the_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def make_a_folder_of_it(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (damage_header, "not a database"),
        (cut_off, "malformed"),
        (make_newer, "newer leasecron"),
        (make_read_only, "no permission to write it"),
        (close_the_folder, "no permission to write in the folder"),
        (remove_the_folder, "does not exist"),
        (make_a_folder_of_it, "is a folder"),
    ],
)
def test_start_refuses_a_store_with_its_path_and_the_reason_and_changes_nothing(
    anybodys: Instances, spoil: Callable[[Path], None], text: str
) -> None:
    folder = anybodys.folder / "store"
    folder.mkdir()
    folder.chmod(0o777)
    path = folder / "leasecron.db"
    backend = SqliteBackend(path)
    backend.open()
    backend.close()
    path.chmod(0o666)
    spoil(path)
    before = path.read_bytes() if path.is_file() else path.exists()

    instance = anybodys.spawn(STARTING, TEST_STORE=str(path))
    refused = instance.wait_for("refused", "up")
    assert refused["what"] == "refused"
    assert str(path) in refused["error"]
    assert text in refused["error"]
    assert refused["running"] is False
    assert instance.wait() == 0
    assert (path.read_bytes() if path.is_file() else path.exists()) == before


TWO_SCHEDULERS = """
import os, threading
from leasecron import Scheduler

scheduler = new_scheduler()
scheduler.every("tick", "100ms", note, overlap="allow")

def in_another_thread(function, *arguments):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function(*arguments)))
    thread.start()
    thread.join()
    return answers[0]

def descriptors():
    return len(os.listdir("/dev/fd"))

def start_and_stop(times):
    for _ in range(times):
        other = Scheduler(store)
        other.every("other", "1h", note)
        in_another_thread(other.start)
        if not in_another_thread(other.stop, 10):
            return False
    return True

in_another_thread(scheduler.start)
serve(scheduler)
"""


@pytest.mark.slow
def test_a_scheduler_outlives_fifty_others_on_its_file_in_its_process(
    instances: Instances,
) -> None:
    (instance,) = instances.spawn_all(1, TWO_SCHEDULERS)
    instances.wait_until(lambda: len(instances.log.lines()) >= 20)
    instance.ask("start_and_stop(1)")
    before = instance.ask("descriptors()")
    assert instance.ask("start_and_stop(50)") is True
    assert instance.ask("descriptors()") <= before + 2
    done = len(instances.log.lines())
    instances.wait_until(lambda: len(instances.log.lines()) >= done + 5)
    assert instance.ask("in_another_thread(scheduler.stop, 10)") is True
    assert instance.end() == 0
    slots = instances.log.slots("tick")
    assert slots == slots_between(slots[0], slots[-1], 100)
    assert instance.said("error", "failure", "interrupted") == []
    assert instance.stderr() == ""
    assert instances.store.integrity() == "ok"


WATCHED_OPENS = """
import os, sys
opened = set()

def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        opened.add(os.fsdecode(arguments[0]))

sys.addaudithook(hook)
scheduler = new_scheduler()
scheduler.every("tick", "100ms", note, overlap="allow")
serve(scheduler)
"""


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_nobody_but_sqlite_opens_the_files_of_the_database(
    instances: Instances, journal: str
) -> None:
    # A foreign open() and close() in a process drops all locks that SQLite has there.
    store = f"sqlite:///{instances.store.path}?journal={journal}"
    (instance,) = instances.spawn_all(1, WATCHED_OPENS, TEST_STORE=store)
    instances.wait_until(lambda: len(instances.log.lines()) >= 10)
    instance.ask("len(scheduler.history())")
    instance.ask("scheduler.stop(10)")
    opened = instance.ask("sorted(opened)")
    files = {f"{instances.store.path}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")}
    assert files.isdisjoint(opened)
    assert any(path.startswith(str(instances.store.path)) for path in opened)  # files beside it
