"""What others put in the place of files and folders of a store that is open and in use.

A folder that was moved away for another, real one is not among it where it held claims: that is
like removing the claims, which nobody can notice who has not seen them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from contract.driver import at
from contract.hand_clock import START
from contract.server_clock import lock_directory
from lockdir_bench import another, claim, claim_files, clock, locks
from lockdir_scene import DAY, KINDS, Scene, scene
from test_lockdir_history import record, slots

from leasecron.backends.lockdir.backend import LockDirBackend
from leasecron.errors import BackendError, BackendUnavailable
from leasecron.model import Declaration, Retention, to_ms

__all__ = ["clock", "locks", "scene"]

# A pipe that is waited for, or a device that is read without end, fails the test by this.
pytestmark = pytest.mark.timeout(30)

PLACES = (
    "claim",
    "day",
    "older day",
    "job",
    "job.json",
    "another's history",
    "own history",
    "prune.lock",
)
FOLDERS = ("history", "clocks", "locks", "jobs")

each_kind = pytest.mark.parametrize("kind", KINDS)
each_place = pytest.mark.parametrize("name", PLACES)


def outcome(backend: LockDirBackend, slot: float, token: str, job: str) -> str:
    """Claim, and return what came of it; ``error`` where it cannot be told."""
    try:
        return claim(backend, slot, token, job=job).outcome
    except BackendError:
        return "error"


def loses_claims(kind: str, name: str) -> bool:
    """Say whether claims are gone, in whose place there is now a folder like any other."""
    return kind == "folder" and name in {"day", "older day", "job"}


# In the place of what a job or an instance has


@each_place
@each_kind
def test_no_slot_is_won_twice_and_other_jobs_are_claimed_as_ever(
    scene: Scene, name: str, kind: str
) -> None:
    backend = scene.backend
    scene.put(kind, scene.place(name))
    if not loses_claims(kind, name):
        assert outcome(backend, 0, "b", "job") in {"done", "error"}
    assert outcome(backend, 0, "b", "third") == "done"
    following = {outcome(backend, slot, "b", "job") for slot in (1, -1)}
    assert following == {"won"} or (name in {"day", "job"} and "won" not in following)
    for job in ("third", "new"):
        assert [outcome(backend, slot, "b", job) for slot in (1, -1)] == ["won", "won"]
    assert len(backend.declare([Declaration("third", ""), Declaration("new", "")])) == 2
    for job in ("job", "third", "new"):
        for slot in (1, -1):
            assert outcome(backend, slot, "c", job) in {"done", "error"}


@each_kind
def test_a_job_whose_file_is_none_was_first_seen_when_that_was_made(
    scene: Scene, kind: str
) -> None:
    scene.put(kind, scene.place("job.json"))
    assert scene.backend.declare([Declaration("job", "")]) == [at(-3 * DAY)]


@each_place
@each_kind
def test_the_history_of_others_is_returned_and_goes_on(scene: Scene, name: str, kind: str) -> None:
    backend = scene.backend
    moved = scene.put(kind, scene.place(name))
    backend.save_results([record(2, instance="three")])
    if name != "own history" or kind == "giant":  # which is put aside as too long
        backend.save_results([record(3, instance="one")])
    else:
        with pytest.raises(BackendUnavailable):
            backend.save_results([record(3, instance="one")])
    gone = {"own history": {0}, "another's history": {1}}.get(name, set())
    written = {2} if name == "own history" and kind != "giant" else {2, 3}
    assert set(slots(backend)) == {0, 1} - gone | written

    path = scene.place(name)
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    moved.rename(path)
    backend.save_results([record(3, instance="one")])
    assert set(slots(backend)) == {0, 1, 2, 3}


@each_place
@each_kind
def test_pruning_goes_on_with_other_jobs_and_the_rest(scene: Scene, name: str, kind: str) -> None:
    backend, clock = scene.backend, scene.clock
    scene.put(kind, scene.place(name))
    left_over = scene.locks / "clocks" / "host-1-abc"
    left_over.touch()
    os.utime(left_over, (START, START))
    retentions = [Retention("job", DAY, 1, 0.0), Retention("third", DAY, 1, 0.0)]
    for passed in (0, 5 * DAY, 5 * DAY, 5 * DAY):
        clock.advance(passed)
        assert backend.prune(retentions) is False
    third = [path for path in claim_files(scene.locks) if path.parts[-3].startswith("third")]
    assert [path.name for path in third if path.name.isdigit()] == [str(to_ms(at(0)))]
    assert not left_over.exists()
    if name != "another's history":  # put aside after a day, and merged in the end
        assert not scene.place("another's history").exists()


@each_place
@each_kind
def test_a_start_works_and_what_cannot_be_claimed_says_why(
    scene: Scene, name: str, kind: str
) -> None:
    scene.put(kind, scene.place(name))
    fresh = another(scene.backend, scene.clock)
    assert outcome(fresh, 1, "b", "third") == "won"
    assert len(fresh.checks()) > 1
    if name in {"day", "job"} and kind != "folder":
        with pytest.raises(BackendError, match="Not a directory") as caught:
            claim(fresh, 1, "b")
        assert str(scene.place(name).parent) in str(caught.value)
    else:
        assert outcome(fresh, 1, "b", "job") == "won"
    if "history" in name and kind != "giant":  # which is too long to be looked at so soon
        (warning,) = fresh.warnings
        assert str(scene.locks / "history") in warning
    fresh.close()


# In the place of what the whole store has


@each_kind
def test_without_its_marker_nothing_is_done_until_it_is_back(scene: Scene, kind: str) -> None:
    backend = scene.backend
    path = scene.place("leasecron.json")
    moved = scene.put(kind, path)
    calls: list[Callable[[], object]] = [
        lambda: claim(backend, 1, "b"),
        lambda: backend.declare([Declaration("new", "")]),
        lambda: backend.save_results([record(2)]),
        backend.history,
        lambda: backend.prune([Retention("job", 0.0, 0, 0.0)]),
    ]
    for call in calls:
        with pytest.raises(BackendUnavailable, match=r"leasecron\.json"):
            call()
    assert [check.verdict for check in backend.checks()] == ["bad"]
    for create in (False, True):
        fresh = lock_directory(scene.locks, scene.clock, create=create)
        with pytest.raises(BackendError, match=r"leasecron\.json is damaged"):
            fresh.open(scene.clock)

    path.rmdir() if kind == "folder" else path.unlink()
    moved.rename(path)
    assert outcome(backend, 0, "b", "job") == "done"
    assert outcome(backend, 1, "b", "job") == "won"


@pytest.mark.parametrize("name", FOLDERS)
@each_kind
def test_a_folder_of_the_store_that_is_none_is_named_at_start(
    scene: Scene, name: str, kind: str
) -> None:
    scene.backend.close()
    scene.put(kind, scene.place(name))
    for create in (False, True):
        fresh = lock_directory(scene.locks, scene.clock, create=create)
        if kind == "folder":
            fresh.open(scene.clock)
            fresh.close()
        else:
            with pytest.raises(BackendError, match=f"{scene.locks}.*: {name} in it is not a fold"):
                fresh.open(scene.clock)


@pytest.mark.parametrize("name", FOLDERS)
@each_kind
def test_a_folder_of_the_store_that_is_lost_in_use_is_neither_followed_nor_waited_for(
    scene: Scene, name: str, kind: str
) -> None:
    backend = scene.backend
    scene.put(kind, scene.place(name))
    for slot in (1, -1):
        claimed = {outcome(backend, slot, "b", job) for job in ("job", "third", "new")}
        assert claimed == {"won"} or name == "jobs"
    for call in (lambda: backend.save_results([record(2)]), backend.history):
        assert fails(call) is None or name in {"history", "jobs"}
    scene.clock.advance(5 * DAY)
    retentions = [Retention(job, 0.0, 0, 0.0) for job in ("job", "third")]
    assert fails(lambda: backend.prune(retentions)) is None or name == "jobs"


def fails(call: Callable[[], object]) -> BackendError | None:
    """Make a call, and return how it failed."""
    try:
        call()
    except BackendError as error:
        return error
    return None


# In the place of a probe


@each_kind
def test_a_probe_is_used_while_it_is_open_and_another_one_made_after_that(
    scene: Scene, kind: str
) -> None:
    real = LockDirBackend(scene.locks)
    real.open()
    (path,) = scene.place("clocks").iterdir()
    scene.put(kind, path)
    now = time.time() - START
    assert outcome(real, now, "b", "third") == "won"
    real.suspend()
    assert outcome(real, now - 1, "b", "third") == "won"
    assert outcome(real, now - 1, "c", "third") == "done"
    assert real.checks()[0].verdict == "good"
    real.close()
    left = [found for found in scene.place("clocks").iterdir() if found != path]
    assert left == []


def test_no_probe_is_made_where_a_link_leads(scene: Scene) -> None:
    real = LockDirBackend(scene.locks)
    real.open()
    now = time.time() - START
    scene.put("link", scene.place("clocks"))
    assert outcome(real, now, "b", "third") == "won"
    real.suspend()
    with pytest.raises(BackendUnavailable, match="Not a directory"):
        claim(real, now - 1, "b")
    real.close()
