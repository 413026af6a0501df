"""run(), and stop() in a signal handler, with the clocks and signals of the machine."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from leasecron import BackendError, RunContext, RunStarted, Scheduler, SystemClock
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.testing import EventRecorder

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def mine(_signal: int, _frame: FrameType | None) -> None:
    """A signal handler that was there before."""


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """Let no signal that comes too late end the process of the tests."""
    before = {number: signal.signal(number, mine) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def kill(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def on_start(scheduler: Scheduler, act: Callable[[], object]) -> None:
    """Act in a thread of its own when the first run has started."""
    once = threading.Lock()

    def listener(_event: RunStarted) -> None:
        if once.acquire(blocking=False):
            threading.Thread(target=act, daemon=True).start()

    scheduler.on("start", listener)


@pytest.mark.parametrize("number", SIGNALS)
def test_run_works_until_a_signal_and_stops_cleanly(number: signal.Signals) -> None:
    scheduler = Scheduler("memory://")
    recorder = EventRecorder()
    scheduler.on("*", recorder)
    scheduler.every("sync", "50ms", lambda ctx: ctx.sleep(30), jitter=0, lease=10)
    on_start(scheduler, lambda: kill(number))
    assert scheduler.run(timeout=10) is True
    assert not scheduler.running
    assert handlers() == [mine, mine]
    interrupted = recorder.wait_for("interrupted")
    assert getattr(interrupted, "reason", None) == "stop"


def test_a_second_signal_ends_the_waiting_for_a_handler_that_ignores_the_first() -> None:
    scheduler = Scheduler("memory://")
    free = threading.Event()

    def handler(ctx: RunContext) -> None:
        ctx.signal.wait(10)  # the first signal was heard
        kill(signal.SIGTERM)
        free.wait(10)

    scheduler.every("sync", "50ms", handler, jitter=0, lease=10)
    on_start(scheduler, lambda: kill(signal.SIGINT))
    assert scheduler.run(timeout=None) is False
    assert handlers() == [mine, mine]
    assert not scheduler.running
    free.set()
    assert scheduler.stop(timeout=10) is True
    assert [result.status for result in scheduler.history()] == ["success"]


def test_run_gives_up_after_its_timeout() -> None:
    scheduler = Scheduler("memory://")
    free = threading.Event()
    scheduler.every("sync", "50ms", lambda: free.wait(10), jitter=0, lease=10)
    on_start(scheduler, lambda: kill(signal.SIGTERM))
    assert scheduler.run(timeout=0.01) is False
    free.set()
    assert scheduler.stop(timeout=10) is True


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL, mine])
def test_the_handlers_are_put_back_when_the_start_fails(before: Any) -> None:
    class Broken(MemoryBackend):
        def open(self, clock: Any = None) -> None:
            raise BackendError("no")

    for number in SIGNALS:
        signal.signal(number, before)
    with pytest.raises(BackendError, match="no"):
        Scheduler(Broken()).run()
    assert handlers() == [before, before]


def test_run_waits_for_a_signal_even_when_it_is_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEASECRON_OFF", "1")
    scheduler = Scheduler("memory://")
    timer = threading.Timer(0.02, kill, [signal.SIGTERM])
    timer.start()
    assert scheduler.run() is True
    timer.join()
    assert scheduler.history() == []


@pytest.mark.parametrize("number", range(5))
def test_run_returns_when_a_handler_stops_the_scheduler(number: int) -> None:
    scheduler = Scheduler("memory://")
    ran: list[int] = []

    @scheduler.every("last", "10ms", jitter=0)
    def last() -> None:
        ran.append(number)
        scheduler.stop()

    assert scheduler.run() is True
    assert ran
    assert not scheduler.running


def test_run_goes_on_when_a_stop_is_taken_back() -> None:
    scheduler = Scheduler("memory://")
    held = threading.Event()
    again: list[bool] = []

    def stop_and_start() -> None:
        again.append(scheduler.stop(timeout=0))
        scheduler.start()
        held.set()
        on_start(scheduler, lambda: kill(signal.SIGTERM))

    @scheduler.every("held", "50ms", jitter=0, overlap="allow")
    def hold() -> None:
        held.wait(20)

    on_start(scheduler, stop_and_start)
    assert scheduler.run() is True
    assert again == [False]


def test_run_can_be_called_again() -> None:
    scheduler = Scheduler("memory://")
    scheduler.every("sync", "20ms", lambda: None, jitter=0, lease=10)
    for _ in range(3):
        on_start(scheduler, lambda: kill(signal.SIGTERM))
        assert scheduler.run(timeout=10) is True


class Storm:
    """Signals the main thread at random moments; what is done then is timed."""

    def __init__(self, seed: int, count: int, act: Callable[[], object]) -> None:
        self.random = random.Random(seed)
        self.act = act
        self.left = count
        self.longest = 0.0
        self.over = threading.Event()
        self.taken = threading.Event()

    def handler(self, _signal: int, _frame: FrameType | None) -> None:
        before = time.monotonic()
        self.act()
        self.longest = max(self.longest, time.monotonic() - before)
        self.left -= 1
        self.taken.set()

    def send(self) -> None:
        while self.left > 0:
            time.sleep(self.random.random() ** 3 * 0.003)
            self.taken.clear()
            kill(signal.SIGTERM)
            self.taken.wait(10)
        self.over.set()


@pytest.fixture
def hasty_switches() -> Iterator[None]:
    """Let the interpreter switch threads at nearly every chance, so that signals hit every line."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_switches")
@pytest.mark.parametrize("seed", [1, 2])
def test_stop_works_in_a_signal_handler_that_interrupted_any_line(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", seed)
    scheduler = Scheduler("memory://")
    storm = Storm(seed, 100, lambda: scheduler.stop(timeout=5))
    signal.signal(signal.SIGTERM, storm.handler)
    sender = threading.Thread(target=storm.send)
    sender.start()
    number = 0
    while not storm.over.is_set():
        number += 1
        scheduler.start()
        scheduler.every(f"job {number}", "10ms", lambda ctx: ctx.sleep(0.002), jitter=0, lease=1)
        scheduler.history(limit=5)
        assert scheduler.jobs
        if number % 3 == 0:
            assert scheduler.stop(timeout=5)
        scheduler.remove(f"job {number}")
    sender.join(10)
    assert storm.longest < 5
    assert scheduler.stop(timeout=10)
    assert not scheduler.running
    recorder = EventRecorder()
    scheduler.on("success", recorder)
    scheduler.every("last", "10ms", lambda: None, jitter=0, lease=1)
    with scheduler:
        recorder.wait_for("success")


class Interruption:
    """Calls ``act`` before the n-th line, or in the n-th call, of the package's own code.

    It stands for a signal handler there: Python runs one between two lines of the main thread.
    """

    def __init__(self, number: int, act: Callable[[], object], at: str = "line") -> None:
        self.left = number
        self.act = act
        self.at = at

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        if not frame.f_globals.get("__name__", "").startswith("leasecron"):
            return None
        if event == self.at:
            self.left -= 1
            if self.left == 0:
                self.act()
        return self

    def during(self, call: Callable[[], object]) -> bool:
        """Call ``call``; say whether it has so many lines."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            call()
        finally:
            sys.settrace(before)
        return self.left <= 0


def declare_one(scheduler: Scheduler) -> None:
    scheduler.every("other", "1h", lambda: None, catch_up=0)


@pytest.mark.parametrize(
    ("call", "running"),
    [
        (lambda s: s.start(), False),
        (lambda s: s.start(), True),
        (lambda s: s.stop(timeout=5), True),
        (lambda s: s.history(), True),
        (lambda s: s.history(), False),
        (declare_one, True),
        (lambda s: s.remove("sync"), True),
        (lambda s: dict(s.jobs), True),
        (lambda s: s.on("skip", print)(), True),
    ],
    ids=[
        "start",
        "start twice",
        "stop",
        "history",
        "history stopped",
        "add",
        "remove",
        "jobs",
        "on",
    ],
)
def test_stop_may_interrupt_every_single_line(
    call: Callable[[Scheduler], object], running: bool
) -> None:
    lines = 0
    more = True
    while more:
        lines += 1
        scheduler = Scheduler("memory://")
        scheduler.every("sync", "1h", lambda: None, catch_up=0)
        if running:
            scheduler.start()
        before = time.monotonic()
        interruption = Interruption(lines, partial(scheduler.stop, timeout=5))
        more = interruption.during(partial(call, scheduler))
        assert time.monotonic() - before < 5
        assert scheduler.stop(timeout=5)
        assert not scheduler.running
    assert lines > 3


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.start(),
        lambda s: s.stop(timeout=5),
        pytest.param(lambda s: s.history(), marks=pytest.mark.slow),
        declare_one,
    ],
    ids=["start", "stop", "history", "add"],
)
def test_an_exception_of_a_signal_handler_breaks_nothing_wherever_it_is_raised(
    call: Callable[[Scheduler], object],
) -> None:
    calls = 0
    more = True
    while more:
        calls += 1
        scheduler = Scheduler("memory://")
        scheduler.every("sync", "1h", lambda: None, catch_up=0)
        if calls % 2:
            scheduler.start()
        interruption = Interruption(calls, interrupt, at="call")
        with contextlib.suppress(KeyboardInterrupt):
            interruption.during(partial(call, scheduler))
        more = interruption.left <= 0
        scheduler.start()
        assert scheduler.running
        assert scheduler.stop(timeout=5)
        assert scheduler.history() == []
    assert calls > 2


@pytest.mark.usefixtures("hasty_switches")
def test_history_answers_at_any_moment_of_a_start_and_a_stop() -> None:
    scheduler = Scheduler("memory://")
    scheduler.every("sync", "20ms", lambda: None, jitter=0, lease=1)
    over = threading.Event()
    answers: list[object] = []

    def ask() -> None:
        while not over.is_set():
            try:
                answers.append(len(scheduler.history()))
            except Exception as error:
                answers.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        scheduler.start()
        assert scheduler.stop(timeout=10)
    over.set()
    for thread in threads:
        thread.join(20)
    assert [answer for answer in answers if not isinstance(answer, int)] == []
    assert len(answers) > 20


def test_threads_that_start_and_stop_at_once_leave_a_scheduler_that_works() -> None:
    scheduler = Scheduler("memory://", clock=SystemClock())
    recorder = EventRecorder()
    scheduler.on("success", recorder)
    scheduler.every("sync", "10ms", lambda: None, jitter=0, lease=1)
    failures: list[BaseException] = []

    def toggle(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(30):
                scheduler.start() if chance.random() < 0.5 else scheduler.stop(timeout=5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=toggle, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert failures == []
    assert scheduler.stop(timeout=10)
    recorder.events.clear()
    with scheduler:
        recorder.wait_for("success")
    assert not scheduler.running
