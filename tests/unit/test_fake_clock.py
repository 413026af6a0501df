"""The fake clock: simulated time, and threads that take turns in an order that replays."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from leasecron.clock import Clock, Waker
from leasecron.testing import FakeClock, turns
from leasecron.testing.turns import Turns


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hasty_switches() -> Iterator[None]:
    """Let the interpreter switch threads at nearly every chance it has."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def seats(clock: FakeClock) -> int:
    return len(clock._turns._seats)


def sleeper(clock: FakeClock, pauses: list[float], log: list[float]) -> Callable[[], None]:
    """Note the simulated seconds since now at each wake."""
    start = clock.monotonic()

    def run() -> None:
        waker = clock.waker()
        for pause in pauses:
            with pytest.raises(queue.Empty):
                waker.get(pause)
            log.append(clock.monotonic() - start)

    return run


def relay(source: Waker, target: Waker) -> Callable[[], None]:
    def run() -> None:
        while (item := source.get()) is not None:
            target.put(item)

    return run


def order_of(seed: int) -> str:
    """Return the order in which four threads ran that were ready together ten times."""
    clock = FakeClock(seed=seed)
    log: list[str] = []

    def worker(name: str) -> Callable[[], None]:
        def run() -> None:
            waker = clock.waker()
            for _ in range(10):
                log.append(name)
                with pytest.raises(queue.Empty):
                    waker.get(1)

        return run

    for name in "abcd":
        clock.start_thread(worker(name), name)
    clock.advance(20)
    return "".join(log)


def test_it_satisfies_the_clock_protocol() -> None:
    clock: Clock = FakeClock()
    assert clock.wall() == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert clock.monotonic() > 0


def test_start_is_an_aware_instant_of_any_zone() -> None:
    start = datetime(2026, 3, 1, 2, 0, tzinfo=timezone(timedelta(hours=2)))
    assert FakeClock(start).now() == datetime(2026, 3, 1, tzinfo=UTC)
    assert FakeClock(start).now().tzinfo is UTC
    with pytest.raises(ValueError, match="aware"):
        FakeClock(datetime(2026, 3, 1))


def test_repr_shows_seed_and_time() -> None:
    assert repr(FakeClock(seed=7)) == "FakeClock(seed=7, now=2026-01-01T00:00:00+00:00)"


def test_each_clock_is_a_boot_of_its_own() -> None:
    first, second = FakeClock().boot_id(), FakeClock().boot_id()
    assert first.partition("/")[0] != second.partition("/")[0]
    assert first.count("/") == 1


def test_chance_is_seeded() -> None:
    assert FakeClock(seed=5).random.random() == FakeClock(seed=5).random.random()
    assert FakeClock(seed=5).random.random() != FakeClock(seed=6).random.random()


def test_small_steps_do_not_drift(clock: FakeClock) -> None:
    start = clock.monotonic()
    for _ in range(10_000):
        clock.advance(0.1)
    assert clock.monotonic() == start + 1_000
    assert clock.now() == datetime(2026, 1, 1, 0, 16, 40, tzinfo=UTC)
    clock.advance(timedelta(microseconds=1))
    assert clock.now().microsecond == 1
    assert round(clock.wall() * 1_000_000) % 1_000_000 == 1


def test_a_wait_for_less_than_a_microsecond_takes_one(clock: FakeClock) -> None:
    start = clock.monotonic()
    with pytest.raises(queue.Empty):
        clock.waker().get(1e-9)
    assert clock.monotonic() == pytest.approx(start + 1e-6, abs=1e-9)


def test_threads_have_the_given_name_and_begin_when_the_test_waits(clock: FakeClock) -> None:
    log: list[str] = []
    thread = clock.start_thread(lambda: log.append(threading.current_thread().name), "leasecron-x")
    assert thread.daemon
    assert log == []
    clock.settle()
    assert log == [thread.name] == ["leasecron-x"]


def test_a_thread_that_cannot_be_started_leaves_no_trace(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        clock.start_thread(lambda: None, "none")
    assert seats(clock) == 1
    clock.advance(1)


@pytest.mark.usefixtures("hasty_switches")
def test_one_thread_runs_at_a_time(clock: FakeClock) -> None:
    inside: list[int] = []
    faults: list[list[int]] = []

    def worker(number: int) -> None:
        waker = clock.waker()
        for _ in range(50):
            inside.append(number)
            faults.extend(list(inside) for _ in range(100) if inside != [number])
            inside.remove(number)
            with pytest.raises(queue.Empty):
                waker.get(1)

    for number in range(5):
        clock.start_thread(lambda n=number: worker(n), f"worker-{number}")  # type: ignore[misc]
    clock.advance(60)
    assert faults == []
    assert seats(clock) == 1


def test_a_seed_replays_its_order_and_another_has_another() -> None:
    orders = [order_of(seed) for seed in range(5)]
    assert [order_of(seed) for seed in range(5)] == orders
    assert len(set(orders)) == 5


def test_advance_visits_every_deadline_in_order(clock: FakeClock) -> None:
    log: list[float] = []
    for pauses in ([3.0, 3.0, 3.0], [2.0, 5.0], [1.0, 0.5]):
        clock.start_thread(sleeper(clock, pauses, log), "sleeper")
    clock.advance(6)
    assert log == [1, 1.5, 2, 3, 6]
    clock.advance(10)
    assert log == [1, 1.5, 2, 3, 6, 7, 9]


def test_all_that_is_due_at_the_target_comes_to_rest(clock: FakeClock) -> None:
    wakers = [clock.waker() for _ in range(4)]

    def timer() -> None:
        with pytest.raises(queue.Empty):
            clock.waker().get(10)
        wakers[0].put("due")

    clock.start_thread(timer, "timer")
    for number in range(3):
        clock.start_thread(relay(wakers[number], wakers[number + 1]), f"relay-{number}")
    clock.advance(timedelta(seconds=10) - timedelta(microseconds=1))
    assert wakers[3].drain() == []
    clock.advance(timedelta(microseconds=1))
    assert wakers[3].drain() == ["due"]


def test_a_wait_of_the_test_lets_time_flow_until_it_is_answered(clock: FakeClock) -> None:
    start, answers = clock.now(), clock.waker()

    def answer() -> None:
        with pytest.raises(queue.Empty):
            clock.waker().get(7)
        answers.put("yes")

    clock.start_thread(answer, "answer")
    assert answers.get(30) == "yes"
    assert clock.now() - start == timedelta(seconds=7)
    with pytest.raises(queue.Empty):
        answers.get(30)
    assert clock.now() - start == timedelta(seconds=37)


def test_a_driver_goes_on_only_when_no_service_thread_can(clock: FakeClock) -> None:
    log: list[str] = []

    def wait_and_note(name: str) -> Callable[[], None]:
        def run() -> None:
            with pytest.raises(queue.Empty):
                clock.waker().get(5)
            log.append(name)

        return run

    driver = threading.Thread(target=wait_and_note("driver"))
    driver.start()
    for _ in range(5):
        clock.start_thread(wait_and_note("service"), "service")
    driver.join()  # outside the clock: the other driver takes over
    assert log == ["service"] * 5 + ["driver"]
    clock.settle()
    assert seats(clock) == 1


def test_a_wait_of_no_time_gives_no_turn_away(clock: FakeClock) -> None:
    log: list[str] = []
    clock.start_thread(lambda: log.append("ran"), "idle")
    waker = clock.waker()
    for timeout in (0, -1):
        with pytest.raises(queue.Empty):
            waker.get(timeout)
    waker.put("first")
    waker.put("second")
    assert [waker.get(0), waker.get()] == ["first", "second"]
    assert log == []


def test_drain_takes_all_at_once(clock: FakeClock) -> None:
    waker = clock.waker()
    for item in range(3):
        waker.put(item)
    assert waker.drain() == [0, 1, 2]
    assert waker.drain() == []


@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300])
def test_one_who_waits_for_ever_is_woken_by_an_item_alone(timeout: float | None) -> None:
    clock = FakeClock()
    source, target = clock.waker(), clock.waker()
    clock.start_thread(lambda: target.put(source.get(timeout)), "patient")
    clock.advance(timedelta(days=50 * 365))
    assert target.drain() == []
    source.put("item")
    clock.settle()
    assert target.drain() == ["item"]


def test_a_deadlock_is_an_error_that_names_who_waits(clock: FakeClock) -> None:
    waker = clock.waker()
    clock.start_thread(lambda: waker.put(waker.get()), "leasecron-stuck")
    with pytest.raises(RuntimeError, match=r"deadlock.*MainThread.*leasecron-stuck"):
        clock.waker().get()
    waker.put("item")
    clock.advance(1)
    assert waker.drain() == ["item"]


def test_two_hundred_years_in_one_wait_are_an_error(clock: FakeClock) -> None:
    start = clock.now()
    with pytest.raises(RuntimeError, match="200 simulated years"):
        clock.advance(timedelta(days=201 * 366))
    clock.advance(1)
    assert clock.now() - start == timedelta(seconds=1)


def test_time_does_not_go_back(clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="-1"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="-1"):
        clock.jump(wall=5, monotonic=-1)
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_jump_of_the_wall_clock_reaches_no_deadline(clock: FakeClock) -> None:
    log: list[float] = []
    start = clock.now()
    clock.start_thread(sleeper(clock, [1.0], log), "sleeper")
    clock.jump(wall=timedelta(hours=8))
    assert clock.now() - start == timedelta(hours=8)
    clock.jump(wall=-2 * 86_400)
    assert clock.now() - start == timedelta(hours=8, days=-2)
    assert log == []
    clock.advance(1)
    assert log == [1]


def test_a_jump_of_the_monotonic_clock_skips_what_lies_between(clock: FakeClock) -> None:
    log: list[float] = []
    start = clock.now()
    clock.start_thread(sleeper(clock, [1.0, 1.0, 1.0], log), "sleeper")
    clock.settle()
    clock.jump(monotonic=60)
    assert log == [60]
    assert clock.now() == start
    clock.advance(2)
    assert log == [60, 61, 62]


def test_an_exception_ends_its_thread_alone(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: queue.SimpleQueue[threading.ExceptHookArgs] = queue.SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", raised.put)
    log: list[float] = []

    def broken() -> None:
        raise LookupError("broken")

    thread = clock.start_thread(broken, "broken")
    clock.start_thread(sleeper(clock, [1.0], log), "sleeper")
    clock.advance(1)
    assert log == [1]
    assert seats(clock) == 1
    thread.join(5)
    assert raised.get(timeout=5).exc_type is LookupError


def test_threads_that_have_ended_pass_the_turn_on_and_keep_no_seat(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def miss(_: Turns) -> None:
        raise AssertionError("the turn was not passed on")

    monkeypatch.setattr(turns, "LOOK", 5.0)
    monkeypatch.setattr(Turns, "_look", miss)
    for _ in range(20):
        clock.start_thread(lambda: None, "short")
        clock.settle()
    assert seats(clock) == 1
