"""What others do to the file of a store while instances run on it."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from support.instances import Instance, Instances, Report
from support.run_log import slots_between

from leasecron.backends.sqlite.backend import SqliteBackend

SECOND = 1000

TICKING = """
import os, resource
become_nobody()
scheduler = new_scheduler()
scheduler.every("tick", "200ms", note, overlap="allow", max_late="1s")

def reopen():
    '''Fork, for which the connection is closed.'''
    if not os.fork():
        os._exit(0)
    os.wait()

def limit(size):
    '''Let no file grow beyond this size.'''
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

serve(scheduler)
"""


@pytest.fixture
def instances() -> Iterator[Instances]:
    """Spawn instances that permissions bind, in a folder of their own user."""
    folder = Path(tempfile.mkdtemp())
    instances = Instances(folder)
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody")
    yield instances
    instances.reap()
    folder.chmod(0o700)
    shutil.rmtree(folder)


def now_ms() -> int:
    return round(time.time() * 1000)


def wait_for_runs(instances: Instances, count: int = 3) -> None:
    """Wait for runs whose slots are still to come."""
    since = now_ms()
    instances.wait_until(
        lambda: sum(slot >= since for slot in instances.log.slots("tick")) >= count
    )


def check_nothing_runs(instances: Instances, text: str = "") -> None:
    """From the first error on all claims fail, with a message that names the file and says why."""
    began = time.monotonic()

    def errors(instance: Instance) -> list[Report]:
        said = instance.said("error", operation="claim")
        return [report for report in said if report["monotonic"] > began]

    alive = [instance for instance in instances.all if not instance.is_over()]
    instances.wait_until(lambda: all(errors(instance) for instance in alive))
    since = now_ms()

    def refused(instance: Instance) -> set[int]:
        return {error["slot"] for error in errors(instance) if (error["slot"] or 0) > since}

    instances.wait_until(lambda: all(len(refused(instance)) >= 3 for instance in alive))
    for instance in alive:
        for error in errors(instance):
            assert str(instances.store.path) in error["exception"]
            assert text in error["exception"]
    assert [slot for slot in instances.log.slots("tick") if slot > since] == []


def check_recovered(instances: Instances) -> None:
    """Without a restart runs go on, and none was run twice."""
    wait_for_runs(instances)
    assert instances.log.doubles() == []
    assert instances.store.integrity() == "ok"


@pytest.mark.slow
def test_a_file_that_is_moved_away_is_not_made_anew_and_is_used_when_it_is_back(
    instances: Instances,
) -> None:
    path = instances.store.path
    instances.spawn_all(2, TICKING)
    wait_for_runs(instances)
    path.rename(aside := path.with_suffix(".aside"))
    check_nothing_runs(instances, "is gone")
    assert not path.exists()
    aside.rename(path)
    check_recovered(instances)


@pytest.mark.slow
def test_a_file_that_is_deleted_is_never_made_anew(instances: Instances) -> None:
    path = instances.store.path
    (instance,) = instances.spawn_all(1, TICKING)
    wait_for_runs(instances)
    path.unlink()
    check_nothing_runs(instances, "is gone")
    instance.ask("scheduler.stop(2)")
    assert instance.end() == 0
    assert not path.exists()


@pytest.mark.slow
def test_a_file_that_is_replaced_is_left_alone(instances: Instances) -> None:
    path = instances.store.path
    instances.spawn_all(2, TICKING)
    wait_for_runs(instances)
    other = path.with_suffix(".other")
    backend = SqliteBackend(other)
    backend.open()
    backend.close()
    path.rename(aside := path.with_suffix(".aside"))
    other.rename(path)
    before = path.read_bytes()
    check_nothing_runs(instances, "was replaced")
    assert path.read_bytes() == before
    path.unlink()
    aside.rename(path)
    check_recovered(instances)


@pytest.mark.slow
def test_a_full_disk_is_an_outage_and_no_more(instances: Instances) -> None:
    instances.spawn_all(2, TICKING)
    wait_for_runs(instances)
    for instance in instances.all:
        instance.ask("limit(1024)")
    check_nothing_runs(instances)
    for instance in instances.all:
        instance.ask("limit(resource.RLIM_INFINITY)")
    check_recovered(instances)


@pytest.mark.slow
def test_a_folder_that_is_made_unwritable_is_an_outage_and_no_more(instances: Instances) -> None:
    # A rollback journal is a new file for each transaction.
    instances.spawn_all(2, TICKING, TEST_STORE=f"sqlite:///{instances.store.path}?journal=delete")
    wait_for_runs(instances)
    instances.folder.chmod(0o555)
    check_nothing_runs(instances)
    instances.folder.chmod(0o755)
    check_recovered(instances)


@pytest.mark.slow
def test_a_file_that_is_made_read_only_is_an_outage_and_no_more(instances: Instances) -> None:
    # What is open stays writable; the permission matters when the file is opened anew.
    (instance,) = instances.spawn_all(1, TICKING)
    wait_for_runs(instances)
    instances.store.path.chmod(0o444)
    instance.ask("reopen()")
    check_nothing_runs(instances, "no permission to write")
    instances.store.path.chmod(0o644)
    check_recovered(instances)


@pytest.mark.slow
def test_a_log_that_is_made_read_only_keeps_out_who_opens_it_until_it_is_writable(
    instances: Instances,
) -> None:
    log = instances.store.path.with_name(instances.store.path.name + "-wal")
    first, second = instances.spawn_all(2, TICKING)
    wait_for_runs(instances)
    log.chmod(0o444)
    first.ask("reopen()")
    second.kill()
    check_nothing_runs(instances, "readonly")
    log.chmod(0o644)
    check_recovered(instances)


# The schedule notes when it is asked: once for each arming.
WATCHED = """
import time
from leasecron import Every

class Watched(Every):
    def next_after(self, t):
        asked.append(time.monotonic())
        return super().next_after(t)

asked = []
become_nobody()
scheduler = new_scheduler()
scheduler.every("tick", "1s", note)
scheduler.add("other", Watched("500ms"), note)
serve(scheduler)
"""


@pytest.mark.slow
def test_a_foreign_transaction_of_ten_seconds_delays_runs_and_nothing_else(
    instances: Instances,
) -> None:
    both = instances.spawn_all(2, WATCHED)
    wait_for_runs(instances, 1)
    locked_at = time.monotonic()
    with instances.store.locked():
        first = now_ms() // SECOND * SECOND + SECOND
        time.sleep(10)
        last = first + 8 * SECOND
        for instance in both:
            asked = [at for at in instance.ask("asked") if at >= locked_at]
            gaps = [after - before for before, after in pairwise(asked)]
            assert max(gaps) <= 0.5 + 1.0
    check_recovered(instances)
    for instance in both:
        assert instance.said("error", operation="claim") != []
        for slot in slots_between(first, last, SECOND):
            # Whatever became of it, nothing is left without an answer.
            said = instance.said("start", "skip", "error", job="tick", slot=slot)
            assert said != [], f"slot {slot}"
    for line in instances.log.lines("tick"):
        assert line.wall * 1000 - line.slot <= 5 * SECOND + SECOND
