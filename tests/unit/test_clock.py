"""The machine's own clock, and its wakers."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

import leasecron.clock
from leasecron import Scheduler, SystemClock
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.clock import MAX_WAIT, SIGNAL_WAIT, Clock, SystemWaker
from leasecron.testing import EventRecorder


class StubTime:
    """Stands for the module time and for a waker's lock; it notes how long each wait would be."""

    def __init__(self, waker: SystemWaker, arrives: float = math.inf) -> None:
        self.now = 1000.0
        self.timeouts: list[float] = []
        self._waker = waker
        self._arrives = self.now + arrives

    def monotonic(self) -> float:
        return self.now

    def acquire(self, timeout: float) -> bool:
        self.timeouts.append(timeout)
        if self.now + timeout < self._arrives:
            self.now += timeout
            return False
        self.now = self._arrives
        self._waker._items.append("item")
        return True


def stub(monkeypatch: pytest.MonkeyPatch, arrives: float = math.inf) -> tuple[SystemWaker, Any]:
    waker = SystemWaker()
    stub_time = StubTime(waker, arrives)
    waker._woken = stub_time  # type: ignore[assignment]
    monkeypatch.setattr(leasecron.clock, "time", stub_time)
    return waker, stub_time


def test_it_satisfies_the_protocol_and_reads_the_clocks_of_the_machine() -> None:
    clock: Clock = SystemClock()
    assert time.time() <= clock.wall() <= time.time()
    assert time.monotonic() <= clock.monotonic() <= time.monotonic()


def test_chance_differs_between_clocks() -> None:
    assert SystemClock().random.random() != SystemClock().random.random()


def test_a_thread_is_a_daemon_with_the_name_that_it_was_given() -> None:
    ran = threading.Event()
    thread = SystemClock().start_thread(ran.set, "leasecron-something")
    assert ran.wait(5)
    assert (thread.daemon, thread.name) == (True, "leasecron-something")
    thread.join(5)


@pytest.mark.skipif(not os.path.exists("/proc/sys/kernel/random/boot_id"), reason="needs Linux")
def test_the_boot_id_is_the_same_in_every_process_of_a_boot() -> None:
    here = SystemClock().boot_id()
    code = "from leasecron import SystemClock; print(SystemClock().boot_id())"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert here == SystemClock().boot_id() == there.stdout.strip()
    assert here is not None
    boot, namespace = here.split("/")
    assert len(boot) == 36
    assert namespace.startswith("time:[")


def test_where_a_boot_has_no_name_the_boot_id_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    assert SystemClock().boot_id() is None


def test_items_come_out_in_the_order_in_which_they_were_put() -> None:
    waker = SystemWaker()
    for item in "abcd":
        waker.put(item)
    assert waker.get() == "a"
    assert waker.get(10) == "b"
    assert waker.drain() == ["c", "d"]
    assert waker.drain() == []


@pytest.mark.parametrize("timeout", [0, 0.0, -1, -math.inf, math.nan, 0.001])
def test_a_wait_without_length_is_over_at_once(timeout: float) -> None:
    waker = SystemWaker()
    with pytest.raises(queue.Empty):
        waker.get(timeout)
    waker.put("item")
    assert waker.get(timeout) == "item"


@pytest.mark.parametrize("timeout", [60.001, 150, 3600, 86_400])
def test_a_long_wait_is_split_and_lasts_as_long_as_it_shall(
    monkeypatch: pytest.MonkeyPatch, timeout: float
) -> None:
    waker, waits = stub(monkeypatch)
    with pytest.raises(queue.Empty):
        waker.get(timeout)
    assert waits.now - 1000.0 == pytest.approx(timeout)
    assert max(waits.timeouts) <= MAX_WAIT


@pytest.mark.parametrize("timeout", [None, math.inf, 1e10, 1e300, 86_400.0 * 10_000])
def test_a_wait_of_any_length_is_split_and_ends_when_something_is_put(
    monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    waker, waits = stub(monkeypatch, arrives=100_000)
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(waker.get(timeout)))
    thread.start()
    thread.join()
    assert got == ["item"]
    assert max(waits.timeouts) == MAX_WAIT


def test_the_main_thread_looks_for_signals_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes just before it falls asleep does not wake it."""
    waker, waits = stub(monkeypatch, arrives=1_000)
    assert waker.get(None) == "item"
    assert max(waits.timeouts) == SIGNAL_WAIT


def test_what_is_put_while_the_reader_sleeps_wakes_it() -> None:
    waker, got = SystemWaker(), SystemWaker()

    def read() -> None:
        for timeout in (None, 1e10, 5):
            got.put(waker.get(timeout))

    threading.Thread(target=read, daemon=True).start()
    for item in "abc":
        waker.put(item)
        assert got.get(5) == item


def put_all(waker: SystemWaker, start: int) -> None:
    for number in range(start, start + 500):
        waker.put(number)


def test_every_item_of_many_threads_arrives_once() -> None:
    waker = SystemWaker()
    threads = [
        threading.Thread(target=lambda start=start: put_all(waker, start))
        for start in range(0, 4000, 500)
    ]
    for thread in threads:
        thread.start()
    assert sorted(waker.get(5) for _ in range(4000)) == list(range(4000))


@pytest.fixture
def alarms() -> Iterator[list[int]]:
    """A list that grows by a number for each alarm; none comes after the test."""
    yield []
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_a_signal_handler_may_put_while_it_interrupts_a_put_or_a_get(alarms: list[int]) -> None:
    waker = SystemWaker()
    numbers = itertools.count()

    def handler(_signal: int, _frame: FrameType | None) -> None:
        number = next(numbers)
        alarms.append(number)
        waker.put(("alarm", number))

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0003)
    seen = []
    while len(alarms) < 500:
        waker.put(("own", 0))
        for _ in range(2):  # the second finds something only if a signal came
            try:
                seen.append(waker.get(0.0001))
            except queue.Empty:
                continue
    signal.setitimer(signal.ITIMER_REAL, 0)
    seen += waker.drain()
    # In any order: a handler may be interrupted by the next one before its own put.
    assert sorted(number for kind, number in seen if kind == "alarm") == sorted(alarms)


def test_no_thread_of_a_scheduler_waits_longer_than_a_minute_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timeouts: list[float] = []

    class NotingLock:
        def __init__(self, lock: Any) -> None:
            self._lock = lock
            self.release = lock.release
            self.locked = lock.locked

        def acquire(self, timeout: float = math.inf) -> bool:
            timeouts.append(timeout)
            return bool(self._lock.acquire(timeout=timeout))

    made = SystemWaker.__init__

    def noting(self: SystemWaker) -> None:
        made(self)
        self._woken = NotingLock(self._woken)  # type: ignore[assignment]

    monkeypatch.setattr(SystemWaker, "__init__", noting)
    scheduler = Scheduler(MemoryBackend())
    scheduler.cron("yearly", "0 0 1 1 *", lambda: None)
    scheduler.every("rare", "60d", lambda: None, timeout="100d", lease="60d")
    scheduler.every("often", "50ms", lambda ctx: ctx.signal.wait(1e10))
    recorder = EventRecorder(scheduler)
    scheduler.start()
    recorder.wait_for("start")
    recorder.wait_for("skip")  # the handler waits for its signal meanwhile
    assert scheduler.stop(timeout=1e10)
    assert len(timeouts) > 5
    assert max(timeouts) == MAX_WAIT


def test_a_signal_handler_that_outlasts_a_wait_does_not_make_it_endless(alarms: list[int]) -> None:
    waker = SystemWaker()

    def outlast(_signal: int, _frame: FrameType | None) -> None:
        alarms.append(1)
        with contextlib.suppress(queue.Empty):
            SystemWaker().get(0.3)

    signal.signal(signal.SIGALRM, outlast)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(queue.Empty):
        waker.get(0.1)
    assert alarms == [1]
