"""Workers: a thread for each live run, reused while there is work."""

from __future__ import annotations

import os
import sys
import threading

import pytest
from claim_memory import ClaimMemory
from runs_support import SEEDS, Fleet, at

from leasecron import RunContext
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.executor import Executor
from leasecron.runs import LiveRun
from leasecron.workers import IDLE, Worker


def workers(fleet: Fleet) -> list[str]:
    seats = fleet.clock._turns._seats
    return sorted(s.thread.name for s in seats if "worker" in s.thread.name)


def test_an_idle_worker_is_used_again(fleet: Fleet) -> None:
    names: list[str] = []
    one = fleet.instance()
    one.every(5, lambda: names.append(threading.current_thread().name), lease=4, heartbeat=1)
    fleet.start()
    fleet.until(51)
    assert names == ["leasecron-worker-1"] * 10


@pytest.mark.parametrize("seed", SEEDS)
def test_every_live_run_has_a_thread_of_its_own(fleet: Fleet) -> None:
    threads: list[int] = []
    one = fleet.instance()

    def handler() -> None:
        threads.append(threading.get_ident())
        fleet.nap(3)

    for number in range(20):
        one.every(600, handler, name=f"job {number}")
    fleet.start()
    fleet.until(601)
    assert len(set(threads)) == len(threads) == 20
    assert len(workers(fleet)) == 20


def test_idle_workers_end_after_a_while(fleet: Fleet) -> None:
    one = fleet.instance()
    for number in range(5):
        one.every(600, lambda: fleet.nap(3), name=f"job {number}")
    fleet.start()
    fleet.until(603 + IDLE - 0.1)
    assert len(workers(fleet)) == 5
    fleet.until(603 + 2 * IDLE + 0.1)
    assert workers(fleet) == []
    fleet.until(1201)
    assert len(one.of("start")) == 10


@pytest.mark.parametrize("seed", range(30))
def test_a_worker_that_goes_as_a_run_comes_loses_no_run(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(2 * IDLE, lambda: None)  # the worker is ended as the next slot is due
    fleet.start()
    fleet.until(20 * IDLE + 1)
    assert [event.slot for event in one.of("success")] == [at(2 * n * IDLE) for n in range(1, 11)]


def test_a_hung_handler_costs_one_thread_and_starves_nobody(fleet: Fleet) -> None:
    hung = fleet.clock.waker()
    one = fleet.instance()
    one.every(600, lambda: hung.get(), name="hung")
    one.every(10, lambda: None, name="other")
    fleet.start()
    fleet.until(1199)
    others = [event for event in one.of("success") if event.job == "other"]
    assert len(others) == 119
    assert len(workers(fleet)) == 2
    hung.put(None)


def test_a_handler_that_starts_threads_and_ends_leaves_them_alone(fleet: Fleet) -> None:
    left: list[bool] = []

    def handler(ctx: RunContext) -> None:
        fleet.clock.start_thread(lambda: left.append(ctx.signal.wait(30)), "left behind")

    one = fleet.instance()
    one.every(600, handler)
    fleet.start()
    fleet.until(601)
    assert one.scheduler.stop()
    fleet.until(640)
    assert left == [False]  # the signal belongs to a run that ended before the stop


def test_the_copy_of_a_worker_in_a_child_that_its_handler_forked_ends(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getpid()

    given = fleet.clock.waker()
    worker = Worker(
        given, lambda _run: patched.setattr(os, "getpid", lambda: here + 1), lambda _ended: None
    )
    with monkeypatch.context() as patched:
        fleet.clock.start_thread(worker.run, "leasecron-worker-1")
        given.put("a run")
        fleet.clock.settle()
        left = workers(fleet)
    given.put(None)
    fleet.clock.settle()
    assert left == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(("memory", "run"), [(MemoryBackend, [600, 1200]), (ClaimMemory, [1200])])
def test_a_thread_that_died_without_a_word_is_missed(
    memory: type[MemoryBackend | ClaimMemory], run: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(0, memory())
    one = fleet.instance()
    call_handler = Executor._call_handler

    def die_at_first(executor: Executor, run: LiveRun) -> None:
        if fleet.clock.wall() < at(601).timestamp():
            sys.exit()
        call_handler(executor, run)

    monkeypatch.setattr(Executor, "_call_handler", die_at_first)
    for number in range(3):
        one.every(600, lambda: None, name=f"job {number}", jitter=0)
    fleet.start()
    fleet.until(601)
    assert workers(fleet) == []
    fleet.until(1201)
    assert sorted(event.slot for event in one.of("success")) == [at(n) for n in run for _ in "123"]
    assert one.scheduler.stop()
    fleet.close()


def test_a_run_that_was_given_when_its_thread_had_died_idle_gets_another(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, died = Worker.run, iter([True])

    def die_at_first(worker: Worker) -> None:
        if not next(died, False):
            work(worker)

    monkeypatch.setattr(Worker, "run", die_at_first)
    one = fleet.instance()
    one.every(600, lambda: None, lease=30)
    fleet.start()
    fleet.until(600 + 2 * IDLE)
    assert len(one.of("success")) == 1
