"""A process forked in C from one whose scheduler runs: Python's fork hooks did not run in it.

It is played by this process, whose main thread believes in another process id for a while; the
threads of the scheduler go on as those of the parent would.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leasecron import Scheduler, SchedulerStateError, forks
from leasecron.testing import EventRecorder

HEARD = 10.0


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    """A scheduler that runs in the parent."""
    made = Scheduler(tmp_path / "store.db")
    made.every("tick", "50ms", lambda: None, jitter=0)
    made.start()
    yield made
    assert made.stop()


@contextmanager
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    here, real = threading.get_ident(), os.getpid
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: real() + 1 if threading.get_ident() == here else real())
        yield


def test_start_says_what_to_set(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        child(monkeypatch),
        pytest.raises(SchedulerStateError, match="lazy-apps = true, or py-call-uwsgi-fork-hooks"),
    ):
        scheduler.start()


def test_history_is_refused_too(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    with child(monkeypatch), pytest.raises(SchedulerStateError, match="cannot use its store"):
        scheduler.history()


def test_what_the_child_asks_and_does_leaves_the_parent_alone(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = EventRecorder(scheduler)
    with child(monkeypatch):
        running_in_child = scheduler.running
        assert scheduler.stop()
        assert scheduler.jobs["tick"].next_slot is not None
        scheduler.every("other", "1h", lambda: None)
        scheduler.remove("other")
        forks._before()
        forks._in_parent()
        forks._at_exit()
    assert not running_in_child
    assert scheduler.running
    events.wait_for("success", HEARD)


def test_a_fork_in_the_child_waits_for_no_thread_of_the_parent(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting: list[object] = []
    monkeypatch.setattr("leasecron.store.StoreQueue.rest", resting.append)
    with child(monkeypatch):
        forks._before()
        forks._in_parent()
    assert resting == []


def test_one_that_was_stopped_before_the_fork_may_be_started_in_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = Scheduler("memory://")
    scheduler.start()
    assert scheduler.stop()
    with child(monkeypatch):
        scheduler.start()
        running = scheduler.running
        scheduler.stop(0)
    assert running


def test_an_instance_forked_before_its_start_has_a_name_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = Scheduler("memory://")
    parent = scheduler.instance
    with child(monkeypatch):
        own = scheduler.instance
        assert own == scheduler.instance
    assert own != parent
    assert scheduler.instance == parent


def test_a_name_that_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler("memory://", instance="web")
    with child(monkeypatch):
        assert scheduler.instance == "web"
