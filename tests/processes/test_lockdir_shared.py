"""A lock directory on two mounts that keep what they see, as two hosts on one NFS server do."""

import fcntl
import os
import time
from itertools import count
from pathlib import Path

import pytest
from support.claim_race import race
from support.fuse_twice import CACHED
from support.instances import Instance, Instances, spawned_instances
from support.lock_directory import LockDirectory
from support.mounts import TwoMounts, two_mounts

mounts = two_mounts
instances = spawned_instances


def create(path: Path) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)


def test_the_mounts_believe_in_absence_and_yet_create_exclusively(mounts: TwoMounts) -> None:
    for number in count():
        here, there = mounts.first / str(number), mounts.second / str(number)
        looked = time.monotonic()
        assert not there.exists()
        os.close(create(here))
        unseen = not there.exists()
        if time.monotonic() - looked < CACHED:  # else the machine was too slow to tell
            break
    assert unseen
    with pytest.raises(FileExistsError):
        create(there)


def test_the_mounts_do_not_know_of_each_others_locks(mounts: TwoMounts) -> None:
    os.close(create(mounts.first / "lock"))
    with (mounts.first / "lock").open() as one, (mounts.second / "lock").open() as other:
        fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("processes", "slots"), [(4, 100), pytest.param(8, 500, marks=pytest.mark.slow)]
)
def test_each_slot_is_won_by_one_process_on_two_mounts(
    mounts: TwoMounts, processes: int, slots: int
) -> None:
    LockDirectory(mounts.behind).make()

    ended = race([mounts.first, mounts.second] * (processes // 2), slots)

    print(f"{ended.seconds:.1f} s")
    assert ended.doubles == []
    assert ended.unwon == []


def test_hosts_that_make_the_directory_at_once_agree_on_it(mounts: TwoMounts) -> None:
    ended = race([mounts.first / "store", mounts.second / "store"] * 2, 50, create=True)

    assert ended.doubles == []
    assert ended.unwon == []


TICKING = """
scheduler = new_scheduler()
scheduler.every("tick", "500ms", note, overlap="allow", max_late="1s")
serve(scheduler)
"""


def start(instances: Instances, *mounts: Path) -> None:
    """Spawn an instance on each mount, and wait until it takes part."""
    for mount in mounts:
        instances.spawn(TICKING, TEST_STORE=LockDirectory(mount).url)
    for instance in instances.all:
        instance.wait_for("start", "skip")


def check(instances: Instances, store: LockDirectory) -> None:
    """Stop all: nothing was run twice, nothing without a claim, and all is in the history."""
    for instance in instances.all:
        assert instance.ask("scheduler.stop(10)") is True
        assert instance.end() == 0
    assert instances.log.doubles() == []
    assert set(instances.log.slots("tick")) <= store.claimed()
    assert store.recorded() == instances.log.slots("tick")


@pytest.mark.slow
def test_eight_instances_on_two_mounts_run_each_slot_once(
    mounts: TwoMounts, instances: Instances
) -> None:
    store = LockDirectory(mounts.behind)
    store.make()
    start(instances, *[mounts.first, mounts.second] * 4)
    since = time.time() * 1000

    def slots() -> set[int]:
        """Return those to come that all have decided on."""
        return set.intersection(*(decided(instance, since) for instance in instances.all))

    common = instances.wait_until(lambda: found if len(found := slots()) >= 8 else set())
    check(instances, store)
    for instance in instances.all:
        assert instance.said("error", "failure", "interrupted") == []
        assert {report["reason"] for report in instance.said("skip")} == {"taken"}
    assert common <= set(instances.log.slots("tick"))


@pytest.mark.slow
def test_a_mount_that_goes_away_is_an_outage_of_its_host_alone(
    mounts: TwoMounts, instances: Instances
) -> None:
    store = LockDirectory(mounts.behind)
    store.make()
    start(instances, mounts.first, mounts.first, mounts.second)
    *cut_off, other = instances.all
    mounts.unmount(mounts.first)
    for instance in cut_off:
        instance.wait_for("error", operation="claim")
    since = time.time() * 1000
    instances.wait_until(lambda: len(ran(other, since)) >= 6)
    assert [slot for instance in cut_off for slot in ran(instance, since)] == []
    assert list(mounts.first.iterdir()) == []

    mounts.mount(mounts.first)
    back = time.time() * 1000
    # The other one is alone on its mount, and may be the quicker one for long.
    instances.wait_until(lambda: all(decided(instance, back) for instance in cut_off))
    check(instances, store)
    assert other.said("error") == []


def decided(instance: Instance, since: float) -> set[int]:
    """Return the slots to come that the store has decided on for an instance."""
    said = [*instance.said("start"), *instance.said("skip", reason="taken")]
    return {report["slot"] for report in said if report["slot"] > since}


def ran(instance: Instance, since: float) -> list[int]:
    return [report["slot"] for report in instance.said("start") if report["slot"] > since]
