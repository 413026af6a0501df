"""What start() does in uWSGI's master, with a stand-in for the module that exists only there."""

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from leasecron import Scheduler, SchedulerStateError, forks

DECORATORS = """
import uwsgi

postfork_chain = []


def postfork_chain_hook():
    for function in postfork_chain:
        function()


uwsgi.post_fork_hook = postfork_chain_hook
uwsgi.spooler = "the spooler of uwsgidecorators"
"""


class Uwsgi(ModuleType):
    """The part of uWSGI's module that matters here; a test plays the fork."""

    post_fork_hook: Callable[[], None]  # not there until somebody sets it
    spooler: object

    def __init__(self) -> None:
        super().__init__("uwsgi")
        self.worker = self.mule = 0

    def worker_id(self) -> int:
        return self.worker

    def mule_id(self) -> int:
        return self.mule

    def fork(self, *, worker: int = 0, mule: int = 0) -> None:
        """Become a child, and call the hook as uWSGI does."""
        self.worker, self.mule = worker, mule
        hook = getattr(self, "post_fork_hook", None)
        if hook is not None:
            hook()


@pytest.fixture
def uwsgi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Uwsgi]:
    """Pretend to be uWSGI's master; put back what a worker does to SIGINT."""
    (tmp_path / "uwsgidecorators.py").write_text(DECORATORS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "uwsgidecorators", raising=False)
    module = Uwsgi()
    monkeypatch.setitem(sys.modules, "uwsgi", module)
    before = signal.getsignal(signal.SIGINT)
    yield module
    signal.signal(signal.SIGINT, before)
    sys.modules.pop("uwsgidecorators", None)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler("memory://")
    yield made
    made.stop()


def test_the_master_starts_nothing_and_a_worker_does(uwsgi: Uwsgi, scheduler: Scheduler) -> None:
    scheduler.start()
    scheduler.start()
    in_master = scheduler.running
    uwsgi.fork(worker=1)
    assert (in_master, scheduler.running) == (False, True)


def test_a_mule_starts_it_too_and_keeps_its_own_signal_handler(
    uwsgi: Uwsgi, scheduler: Scheduler
) -> None:
    before = signal.getsignal(signal.SIGINT)
    scheduler.start()
    uwsgi.fork(mule=1)
    assert scheduler.running
    assert signal.getsignal(signal.SIGINT) is before


def test_an_order_to_end_before_a_worker_has_its_own_handler_is_not_lost_in_python(
    uwsgi: Uwsgi, scheduler: Scheduler
) -> None:
    scheduler.start()
    uwsgi.fork(worker=1)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL


def test_a_process_that_is_neither_worker_nor_mule_does_not_start_it(
    uwsgi: Uwsgi, scheduler: Scheduler
) -> None:
    scheduler.start()
    uwsgi.fork()
    assert not scheduler.running


def test_with_lazy_apps_a_worker_starts_at_once(uwsgi: Uwsgi, scheduler: Scheduler) -> None:
    uwsgi.worker = 2
    scheduler.start()
    assert scheduler.running
    assert not hasattr(uwsgi, "post_fork_hook")


def test_a_stop_in_the_master_is_a_stop_for_the_workers(uwsgi: Uwsgi, scheduler: Scheduler) -> None:
    scheduler.start()
    assert scheduler.stop()
    uwsgi.fork(worker=1)
    assert not scheduler.running


def test_a_start_after_a_stop_in_the_master_counts(uwsgi: Uwsgi, scheduler: Scheduler) -> None:
    scheduler.start()
    scheduler.stop()
    scheduler.start()
    uwsgi.fork(worker=1)
    assert scheduler.running


def test_every_scheduler_of_the_master_is_started(uwsgi: Uwsgi) -> None:
    several = [Scheduler("memory://") for _ in range(3)]
    for scheduler in several:
        scheduler.start()
    uwsgi.fork(worker=1)
    assert [scheduler.running for scheduler in several] == [True] * 3
    assert all(scheduler.stop() for scheduler in several)


def test_the_hooks_of_the_application_are_called_as_before(
    uwsgi: Uwsgi, scheduler: Scheduler
) -> None:
    called: list[str] = []
    uwsgi.post_fork_hook = lambda: called.append("own")
    uwsgi.spooler = "own"
    scheduler.start()

    import uwsgidecorators  # noqa: PLC0415 - an application may do so after the start

    uwsgidecorators.postfork_chain.append(lambda: called.append("decorated"))
    uwsgi.fork(worker=1)
    assert called == ["own", "decorated"]
    assert uwsgi.spooler == "own"
    assert scheduler.running


def test_decorators_that_were_imported_before_are_called_once(
    uwsgi: Uwsgi, scheduler: Scheduler
) -> None:
    import uwsgidecorators  # noqa: PLC0415

    called: list[str] = []
    uwsgidecorators.postfork_chain.append(lambda: called.append("decorated"))
    scheduler.start()
    uwsgi.fork(worker=1)
    assert called == ["decorated"]
    assert scheduler.running


def test_a_hook_of_the_application_that_raises_stops_no_scheduler(
    uwsgi: Uwsgi, scheduler: Scheduler
) -> None:
    def broken() -> None:
        raise LookupError("this hook is broken")

    uwsgi.post_fork_hook = broken
    scheduler.start()
    with pytest.raises(LookupError, match="this hook is broken"):
        uwsgi.fork(worker=1)
    assert scheduler.running


def test_without_a_master_the_decorators_cannot_be_imported_and_it_works(
    uwsgi: Uwsgi, scheduler: Scheduler, tmp_path: Path
) -> None:
    (tmp_path / "uwsgidecorators.py").write_text("raise Exception('enable the master')")
    scheduler.start()
    uwsgi.fork(worker=1)
    assert scheduler.running


def test_a_store_that_a_worker_cannot_open_is_logged(
    uwsgi: Uwsgi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(tmp_path / "missing" / "store.db")
    scheduler.start()
    with caplog.at_level(logging.ERROR, "leasecron"):
        uwsgi.fork(worker=1)
    assert not scheduler.running
    assert "could not be started in a uWSGI worker" in caplog.text
    assert "missing" in caplog.text


def test_a_second_interpreter_is_told_that_it_cannot_start(
    uwsgi: Uwsgi, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "_in_main_interpreter", lambda: False)
    with pytest.raises(SchedulerStateError, match="set single-interpreter = true"):
        scheduler.start()
    assert not hasattr(uwsgi, "post_fork_hook")


def test_some_other_module_named_uwsgi_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler
) -> None:
    monkeypatch.setitem(sys.modules, "uwsgi", ModuleType("uwsgi"))
    scheduler.start()
    assert scheduler.running
