"""The fake clock and threads that block outside it, or that it does not know."""

from __future__ import annotations

import gc
import itertools
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from leasecron.testing import FakeClock, seats, turns
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


def seats_of(clock: FakeClock) -> int:
    return len(clock._turns._seats)


def wait_until(condition: Callable[[], bool]) -> None:
    """Look again and again, for what happens outside the clock announces itself nowhere else."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def stands_in(thread: threading.Thread, function: Callable[..., object]) -> bool:
    return any(code is function.__code__ for code, _ in stack_of(thread))


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
    assert seats_of(clock) == 1


def test_a_return_is_seen_where_the_kernel_shows_nothing(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "pulse_of", lambda thread: None)
    monkeypatch.setattr(turns, "RETURN", LIMIT)
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
    wait_until(lambda: stands_in(thread, turns.Turns.wait))
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
    assert seats_of(clock) == 1


def looks_until_away(seat: seats.Seat) -> int:
    return next(look for look in range(1, 10_000) if seat.stands_still())


@pytest.mark.parametrize(
    ("state", "patience"),
    [("S", seats.PATIENCE), ("R", seats.LONG_PATIENCE), ("D", seats.LONG_PATIENCE)],
)
def test_a_thread_that_the_kernel_calls_busy_is_given_longer(
    state: str, patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "pulse_of", lambda thread: (state, "1", "1"))
    seat = seats.Seat(threading.current_thread(), seats.Process(), service=False)
    assert looks_until_away(seat) == 1 + patience  # the first look has none to be compared with


def test_a_thread_that_has_not_woken_up_to_its_turn_is_never_away() -> None:
    seat = seats.Seat(threading.current_thread(), seats.Process(), service=True)
    assert not any(seat.stands_still() for _ in range(2 * seats.LONG_PATIENCE))


def test_a_pulse_that_never_rests_counts_less_than_the_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beats = itertools.count()
    monkeypatch.setattr(seats, "pulse_of", lambda thread: ("S", str(next(beats))))
    first, second = threading.Event(), threading.Event()

    def stand_at_two_places() -> None:
        first.wait(LIMIT)
        second.wait(LIMIT)

    def comes_to_rest() -> bool:
        before = stack_of(thread)
        time.sleep(0.01)
        return stands_in(thread, threading.Condition.wait) and stack_of(thread) == before

    thread = threading.Thread(target=stand_at_two_places)
    thread.start()
    wait_until(comes_to_rest)
    seat = seats.Seat(thread, seats.Process(), service=False)
    looks_until_away(seat)
    assert not seat.stirs()
    first.set()
    wait_until(seat.stirs)
    second.set()
    thread.join()


def test_no_garbage_is_collected_while_the_stacks_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collects: list[bool] = []

    def list_nothing() -> dict[int, FrameType]:
        collects.append(gc.isenabled())
        return {}

    monkeypatch.setattr(sys, "_current_frames", list_nothing)
    assert stack_of(threading.current_thread()) == ()
    assert collects == [False]
    assert gc.isenabled()


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
        assert seats_of(clock) == 2
    clock.settle()
    assert seats_of(clock) == 1
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
    wait_until(clock._turns.has_turn)
    clock.advance(60)
    assert log == ["sender"]
    assert seats_of(clock) == 1


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
    assert seats_of(clock) == 1
