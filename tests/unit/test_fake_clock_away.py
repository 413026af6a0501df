"""The fake clock and threads that block outside it, or that it does not know."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from leasecron.testing import FakeClock, turns
from leasecron.testing.posture import stack_of

LIMIT = 10.0  # real seconds after which a test gives up


class Interrupted(Exception):
    pass


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def on_signal() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Set what SIGUSR1 does."""
    before = signal.getsignal(signal.SIGUSR1)

    def set_handler(act: Callable[[], None]) -> None:
        def handle(number: int, frame: FrameType | None) -> None:
            act()

        signal.signal(signal.SIGUSR1, handle)

    yield set_handler
    signal.signal(signal.SIGUSR1, before)


def seats(clock: FakeClock) -> int:
    return len(clock._turns._seats)


def wait_for_turn(thread: threading.Thread) -> None:
    """Return when the thread stands in the clock, whatever the turn."""
    end = time.monotonic() + LIMIT
    while all(code is not turns.Turns.wait.__code__ for code, _ in stack_of(thread)):
        assert time.monotonic() < end
        time.sleep(0.001)


def test_a_thread_that_blocks_outside_stops_nobody_and_is_seen_to_return(clock: FakeClock) -> None:
    gates = [threading.Event() for _ in range(3)]
    passed = clock.waker()
    ticks: list[float] = []

    def handler() -> None:
        for number, gate in enumerate(gates):
            gate.wait(LIMIT)
            passed.put(number)

    def ticker() -> None:
        for _ in range(5):
            with pytest.raises(queue.Empty):
                clock.waker().get(1)
            ticks.append(clock.monotonic())

    clock.start_thread(handler, "handler")
    clock.start_thread(ticker, "ticker")
    clock.advance(5)
    assert len(ticks) == 5
    for number, gate in enumerate(gates):
        assert passed.drain() == []
        gate.set()
        clock.settle()
        assert passed.drain() == [number]
    assert seats(clock) == 1


def test_a_return_is_seen_where_the_kernel_shows_nothing(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "pulse_of", lambda thread: None)
    gate = threading.Event()
    passed = clock.waker()

    def handler() -> None:
        gate.wait(LIMIT)
        passed.put("through")

    clock.start_thread(handler, "handler")
    clock.settle()
    gate.set()
    clock.settle()
    assert passed.drain() == ["through"]


def test_time_waits_for_a_thread_that_another_one_wakes(clock: FakeClock) -> None:
    gate = threading.Event()
    start, answers = clock.monotonic(), clock.waker()

    def handler() -> None:
        gate.wait(LIMIT)
        answers.put(clock.monotonic() - start)

    def opener() -> None:
        with pytest.raises(queue.Empty):
            clock.waker().get(5)
        gate.set()

    clock.start_thread(handler, "handler")
    clock.start_thread(opener, "opener")
    assert answers.get(3_600) == 5


def test_a_returning_thread_queues_for_its_turn(clock: FakeClock) -> None:
    gate = threading.Event()
    log: list[str] = []
    source = clock.waker()
    source.put("item")

    def handler() -> None:
        gate.wait(LIMIT)
        log.append(source.get())

    thread = clock.start_thread(handler, "handler")
    clock.settle()
    gate.set()
    wait_for_turn(thread)
    assert log == []
    clock.settle()
    assert log == ["item"]


def test_an_endless_wait_is_no_deadlock_while_a_thread_is_outside(clock: FakeClock) -> None:
    answers = clock.waker()

    def long_call() -> None:
        time.sleep(0.5)  # stands for a call into C: longer than the patience and the grace
        answers.put("done")

    clock.start_thread(long_call, "long-call")
    assert answers.get() == "done"


def test_a_loop_of_real_sleeps_holds_up_no_time(clock: FakeClock) -> None:
    stop = threading.Event()

    def handler() -> None:
        while not stop.is_set():
            time.sleep(0.001)

    thread = clock.start_thread(handler, "handler")
    ticks = 0

    def ticker() -> None:
        nonlocal ticks
        waker = clock.waker()
        while ticks < 1_000:
            with pytest.raises(queue.Empty):
                waker.get(1)
            ticks += 1

    clock.start_thread(ticker, "ticker")
    clock.advance(1_000)
    assert ticks == 1_000
    stop.set()
    thread.join(LIMIT)
    clock.settle()
    assert seats(clock) == 1


def test_a_thread_unknown_to_the_clock_may_put(clock: FakeClock) -> None:
    source, target = clock.waker(), clock.waker()
    clock.start_thread(lambda: target.put(source.get()), "relay")
    clock.settle()
    stranger = threading.Thread(target=source.put, args=["item"])
    stranger.start()
    stranger.join()
    assert target.drain() == []
    clock.settle()
    assert target.drain() == ["item"]


def test_drivers_that_have_ended_keep_no_seat(clock: FakeClock) -> None:
    start = clock.monotonic()
    for _ in range(3):
        driver = threading.Thread(target=clock.advance, args=[1])
        driver.start()
        driver.join()
        assert seats(clock) == 2
    clock.settle()
    assert seats(clock) == 1
    assert clock.monotonic() - start == 3


def test_a_signal_handler_may_wake_the_test(
    clock: FakeClock, on_signal: Callable[[Callable[[], None]], None]
) -> None:
    waker = clock.waker()
    on_signal(lambda: waker.put("signal"))
    clock.start_thread(lambda: os.kill(os.getpid(), signal.SIGUSR1), "sender")
    assert waker.get() == "signal"


def test_an_exception_out_of_advance_leaves_the_clock_usable(
    clock: FakeClock, on_signal: Callable[[Callable[[], None]], None]
) -> None:
    left = threading.Event()
    log: list[str] = []

    def interrupt() -> None:
        left.set()
        raise Interrupted

    def sender() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        left.wait(LIMIT)
        with pytest.raises(queue.Empty):
            clock.waker().get(1)
        log.append("sender")

    on_signal(interrupt)
    clock.start_thread(sender, "sender")
    with pytest.raises(Interrupted):
        clock.advance(60)
    clock.advance(60)
    assert log == ["sender"]
    assert seats(clock) == 1


def test_a_signal_handler_cannot_wait_inside_a_wait(
    clock: FakeClock, on_signal: Callable[[Callable[[], None]], None]
) -> None:
    left = threading.Event()

    def wait() -> None:
        left.set()
        clock.settle()

    def sender() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        left.wait(LIMIT)

    on_signal(wait)
    clock.start_thread(sender, "sender")
    with pytest.raises(RuntimeError, match="signal handler"):
        clock.advance(60)
    clock.settle()
    assert seats(clock) == 1
