"""A process whose threads are greenlets, with stand-ins for the libraries that make them so."""

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from leasecron import Scheduler, SchedulerStateError

LIBRARIES = {
    "gevent": ("gevent.monkey", "is_module_patched", "threading"),
    "eventlet": ("eventlet.patcher", "is_monkey_patched", "thread"),
}
libraries = pytest.mark.parametrize("library", LIBRARIES)


def patch(monkeypatch: pytest.MonkeyPatch, library: str, *patched: str) -> None:
    name, question, _ = LIBRARIES[library]
    module = ModuleType(name)
    setattr(module, question, lambda asked: asked in patched)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler("memory://")
    yield made
    assert made.stop()


def assert_refused(scheduler: Scheduler, library: str) -> None:
    message = f"{library} makes the threads of this process greenlets.*--worker-class gthread"
    with pytest.raises(SchedulerStateError, match=message):
        scheduler.start()
    assert not scheduler.running


@libraries
def test_nothing_is_started_where_threads_are_greenlets(
    monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler, library: str
) -> None:
    patch(monkeypatch, library, LIBRARIES[library][2])
    assert_refused(scheduler, library)


@libraries
def test_a_library_that_left_threads_alone_disturbs_nothing(
    monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler, library: str
) -> None:
    patch(monkeypatch, library, "socket", "time", "os")
    scheduler.start()
    assert scheduler.running


@libraries
def test_nothing_is_started_in_a_worker_that_will_patch_threads_later(
    monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler, library: str
) -> None:
    patch(monkeypatch, library)
    worker = f"gunicorn.workers.g{library}"
    monkeypatch.setitem(sys.modules, worker, ModuleType(worker))
    assert_refused(scheduler, library)


def test_history_can_be_read_among_greenlets(
    monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler
) -> None:
    patch(monkeypatch, "gevent", "threading")
    assert scheduler.history() == []
