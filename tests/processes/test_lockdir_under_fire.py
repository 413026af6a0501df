"""What others do to the directory of a store while four instances run on it."""

import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.instances import Instance, Instances, Report
from support.lock_directory import LockDirectory
from support.requirements import require

pytestmark = pytest.mark.slow

FOUR = 4
MOST_LINES = 2  # that one instance may log of one outage for each kind of call

# What is imported when it is needed is imported first: later it may be out of reach.
TICKING = """
import filelock, portalocker
become_nobody()
scheduler = new_scheduler()
scheduler.every("tick", "200ms", note, overlap="allow", max_late="1s")
serve(scheduler)
"""


@pytest.fixture
def instances() -> Iterator[Instances]:
    """Spawn instances that permissions bind, in a folder of their own user."""
    folder = Path(tempfile.mkdtemp())
    instances = Instances(folder)
    give_away(folder)
    yield instances
    instances.reap()
    restore(folder)
    shutil.rmtree(folder)


@pytest.fixture
def store(instances: Instances) -> LockDirectory:
    """Return the directory of the instances' store."""
    return a_store(instances.folder / "store")


def a_store(path: Path) -> LockDirectory:
    """Make a store that belongs to the user whom instances run as."""
    store = LockDirectory(path)
    store.make()
    give_away(path)
    return store


def give_away(folder: Path) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, "nobody")


def restore(folder: Path) -> None:
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


def now_ms() -> int:
    return round(time.time() * 1000)


def start(instances: Instances, store: LockDirectory) -> None:
    """Spawn the instances, and wait until all take part."""
    instances.spawn_all(FOUR, TICKING, TEST_STORE=store.url)
    wait_until_all_take_part(instances)


def takes_part(instance: Instance, since: int) -> bool:
    """Say whether the store has decided for an instance on slots after this one."""
    said = [*instance.said("start"), *instance.said("skip", reason="taken")]
    return any(report["slot"] > since for report in said)


def wait_until_all_take_part(instances: Instances) -> None:
    since = now_ms()
    instances.wait_until(lambda: all(takes_part(instance, since) for instance in instances.all))


def check_nothing_runs(instances: Instances, store: LockDirectory, text: str = "") -> None:
    """All claims fail, with a message that names the directory; the log is told of it once."""
    began = time.monotonic()

    def failed(instance: Instance) -> list[Report]:
        said = instance.said("error", operation="claim")
        return [report for report in said if report["monotonic"] > began]

    instances.wait_until(lambda: all(failed(instance) for instance in instances.all))
    since = now_ms()

    def refused(instance: Instance) -> set[int]:
        return {error["slot"] for error in failed(instance) if (error["slot"] or 0) > since}

    instances.wait_until(lambda: all(len(refused(instance)) >= 3 for instance in instances.all))
    assert [slot for slot in instances.log.slots("tick") if slot > since] == []
    for instance in instances.all:
        for error in failed(instance):
            assert str(store.path) in error["exception"]
        assert text in failed(instance)[-1]["exception"]
        check_not_flooded(instance)


def check_not_flooded(instance: Instance) -> None:
    """What fails again and again for one reason is one line of the log."""
    lines = [line["text"] for line in instance.said("log", level="ERROR")]
    counted = Counter(line.partition(" failed ")[0] for line in lines)
    assert counted["claim"] >= 1
    assert max(counted.values()) <= MOST_LINES, lines


def check_recovered(instances: Instances, store: LockDirectory) -> None:
    """Without a restart runs go on; none was run twice, and none without a claim."""
    wait_until_all_take_part(instances)
    for instance in instances.all:
        assert instance.ask("scheduler.stop(10)") is True
        assert instance.end() == 0
    assert instances.log.doubles() == []
    assert set(instances.log.slots("tick")) <= store.claimed()


def test_a_directory_that_is_moved_away_is_not_made_anew_and_is_used_when_it_is_back(
    instances: Instances, store: LockDirectory
) -> None:
    start(instances, store)
    store.path.rename(aside := store.path.with_suffix(".aside"))
    check_nothing_runs(instances, store)
    assert not store.path.exists()
    aside.rename(store.path)
    check_recovered(instances, store)


def test_a_directory_that_is_removed_is_never_made_anew(
    instances: Instances, store: LockDirectory
) -> None:
    start(instances, store)
    while store.path.exists():  # files appear in it while it is removed
        shutil.rmtree(store.path, ignore_errors=True)
    check_nothing_runs(instances, store)
    for instance in instances.all:
        instance.ask("scheduler.stop(2)")
        assert instance.end() == 0
    assert not store.path.exists()


def test_an_empty_directory_in_its_place_stays_empty(
    instances: Instances, store: LockDirectory
) -> None:
    start(instances, store)
    store.path.rename(aside := store.path.with_suffix(".aside"))
    store.path.mkdir()
    give_away(store.path)
    check_nothing_runs(instances, store, "leasecron.json")
    store.path.rmdir()  # which it could not be if anything were in it
    aside.rename(store.path)
    check_recovered(instances, store)


def test_another_store_in_its_place_is_left_alone(
    instances: Instances, store: LockDirectory
) -> None:
    start(instances, store)
    other = a_store(instances.folder / "other")
    store.path.rename(aside := store.path.with_suffix(".aside"))
    check_nothing_runs(instances, store)  # whoever was about to write when it went has done so
    other.path.rename(store.path)
    before = store.everything()
    check_nothing_runs(instances, store, "replaced")
    assert store.everything() == before
    store.path.rename(other.path)
    aside.rename(store.path)
    check_recovered(instances, store)


def test_a_directory_that_is_made_read_only_is_an_outage_and_no_more(
    instances: Instances, store: LockDirectory
) -> None:
    start(instances, store)
    for path in (store.path, *store.path.rglob("*")):
        if path.is_dir():
            path.chmod(0o555)
    check_nothing_runs(instances, store, "ermission")
    restore(store.path)
    check_recovered(instances, store)


@pytest.fixture
def small_disk(instances: Instances) -> Iterator[Path]:
    """Mount a filesystem of one megabyte."""
    require(os.geteuid() == 0, "only root can mount a small filesystem")
    disk = instances.folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True, text=True)
    require(done.returncode == 0, f"no small filesystem can be mounted: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)  # instances still use it


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_is_an_outage_and_no_more(instances: Instances, small_disk: Path) -> None:
    store = a_store(small_disk / "store")
    start(instances, store)
    with pytest.raises(OSError, match="No space left"):
        fill(small_disk / "filler")
    check_nothing_runs(instances, store, "No space left")
    (small_disk / "filler").unlink()
    check_recovered(instances, store)
