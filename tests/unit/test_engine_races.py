"""Two threads at one scheduler in the same moment, and what an engine holds on to."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from datetime import datetime
from functools import partial

import pytest

from leasecron import (
    ConfigurationError,
    RunContext,
    RunFailed,
    RunStarted,
    Scheduler,
    StoreFailed,
    forks,
)
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.schedules import Every
from leasecron.testing import EventRecorder, FakeClock


def draining(clock: FakeClock) -> Scheduler:
    """Return a scheduler whose stop() waits for a handler that ignores its signal."""
    scheduler = Scheduler("memory://", clock=clock)
    deaf = clock.waker()

    @scheduler.every("deaf", "1h", jitter=0, catch_up="2h")
    def handler() -> None:
        deaf.get(600)

    scheduler.start()
    clock.advance(1)
    assert scheduler.stop(timeout=1) is False
    return scheduler


def test_a_stop_that_is_handed_over_after_a_start_took_its_flag_back_still_stops() -> None:
    clock = FakeClock()
    scheduler = draining(clock)
    engine = scheduler._lifecycle.engine
    assert engine is not None
    engine.stop_asked = True
    scheduler.start()
    engine.timers.post(engine._stop, clock.waker())  # the second half of a stop() that was slow
    clock.settle()
    assert scheduler.running is False
    scheduler.start()
    assert scheduler.running is True


def test_a_job_that_is_added_while_a_stop_is_taken_back_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    scheduler = draining(clock)
    engine = scheduler._lifecycle.engine
    assert engine is not None
    resume = engine.resume
    ran: list[int] = []

    def add_then_resume(*arguments: object) -> None:
        scheduler.every("late", "1s", lambda: ran.append(1), jitter=0)
        resume(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "resume", add_then_resume)
    scheduler.start()
    clock.advance(5)
    assert len(ran) >= 4


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_a_schedule_raises_is_an_error_event_and_it_is_asked_again(
    raised: type[BaseException],
) -> None:
    class Rude(Every):
        rude = False

        def next_after(self, t: object, /) -> None:
            raise raised

    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock)
    events = EventRecorder(scheduler)
    ran: list[int] = []
    scheduler.add("rude", Rude(10), lambda: None)
    scheduler.every("polite", "10s", lambda: ran.append(1))
    scheduler.start()
    clock.advance(65)
    errors = [event for event in events.of(StoreFailed) if event.job == "rude"]
    assert len(errors) == 3  # at recovery, when it is armed, and a minute after that
    assert len(ran) >= 6
    assert scheduler.stop() is True


def test_a_run_that_has_ended_is_held_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # What records log lines for the tests keeps their exceptions.
    monkeypatch.setattr(logging.getLogger("leasecron"), "disabled", True)

    class Large:
        """Stands for what a handler's frame holds."""

    held: list[weakref.ref[Large]] = []
    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock)

    @scheduler.every("fails", "1s", jitter=0, lease="1h", timeout="1h")
    def fails(_ctx: RunContext) -> None:
        large = Large()
        held.append(weakref.ref(large))
        raise ValueError(str(large))

    scheduler.start()
    clock.advance(30)
    gc.collect()
    alive = [one for one in held if one() is not None]
    assert len(held) >= 30
    assert len(alive) <= 1
    scheduler.stop()


def test_a_long_history_is_read_page_by_page() -> None:
    clock = FakeClock()
    backend = MemoryBackend()
    limits: list[int] = []
    history = backend.history

    def paged(*arguments: object, limit: int = 100, **more: object) -> object:
        limits.append(limit)
        return history(*arguments, limit=limit, **more)  # type: ignore[arg-type]

    backend.history = paged  # type: ignore[method-assign,assignment]
    scheduler = Scheduler(backend, clock=clock)
    scheduler.every("tick", "1s", lambda: None, jitter=0)
    scheduler.start()
    clock.advance(2100)
    scheduler.stop()
    found = scheduler.history(limit=5000)
    assert len(found) == 2101
    assert [result.slot for result in found] == sorted({r.slot for r in found}, reverse=True)
    assert limits == [1000, 1000, 1000]
    assert scheduler.history(limit=1500) == found[:1500]


def test_the_end_of_the_interpreter_does_not_wait_for_what_a_stop_has_waited_for_in_vain() -> None:
    clock = FakeClock()
    scheduler = draining(clock)
    before = clock.now()
    scheduler._lifecycle.stop_at_exit()(3.0)
    assert clock.now() == before


def test_the_end_of_the_interpreter_waits_for_a_handler_that_nobody_has_waited_for() -> None:
    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock)

    @scheduler.every("slow", "1h", jitter=0, catch_up="2h")
    def slow(ctx: RunContext) -> None:
        scheduler.stop()  # asks only
        ctx.signal.wait()

    scheduler.start()
    clock.settle()
    scheduler._lifecycle.stop_at_exit()(3.0)
    assert scheduler._lifecycle.engine is None
    assert [result.status for result in scheduler.history()] == ["success"]


def test_a_slot_that_waits_for_room_does_not_start_before_its_time_when_the_clock_is_set_back() -> (
    None
):
    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock, max_running=1)
    events = EventRecorder(scheduler)
    held = clock.waker()
    scheduler.every("first", "1h", lambda: held.get(600), jitter=0)
    scheduler.every("second", "1h", lambda: None, jitter=0)
    clock.advance(1)
    scheduler.start()
    clock.advance(3600)
    assert [event.job for event in events.of("start")] == ["first"]
    clock.jump(wall=-1800)
    held.put(None)
    clock.advance(7200)
    scheduler.stop()
    for event in events.of(RunStarted):
        assert event.at >= event.slot
    assert {event.job for event in events.of("start")} == {"first", "second"}


def test_a_slot_to_be_caught_up_does_not_start_before_its_time_when_the_clock_is_set_back() -> None:
    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock)
    events = EventRecorder(scheduler)
    scheduler.every("job", "1h", lambda: None, jitter=60, catch_up="2h", max_late="2h")
    scheduler.start()
    clock.jump(wall=-1800)  # within the jitter of the slot that is caught up
    clock.advance(7200)
    scheduler.stop()
    started = events.of(RunStarted)
    assert started
    assert all(event.at >= event.slot for event in started)


class Rude(logging.Filter):
    """A filter that looks at the current web request, and there is none."""

    def filter(self, _record: logging.LogRecord) -> bool:
        raise LookupError("working outside of request context")


def test_a_logging_filter_that_raises_ends_no_thread_and_loses_no_event() -> None:
    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock)
    events = EventRecorder(scheduler)
    rude = Rude()
    logger = logging.getLogger("leasecron")
    logger.addFilter(rude)
    logger.setLevel(logging.DEBUG)
    try:
        scheduler.every("job", "10s", lambda: None, jitter=0)
        scheduler.start()
        clock.advance(30)
        clock.jump(wall=300)
        clock.advance(30)
        assert len(events.of("success")) >= 6
        assert scheduler.stop() is True
    finally:
        logger.removeFilter(rude)
        logger.setLevel(logging.NOTSET)


def test_a_schedule_may_stop_the_scheduler() -> None:
    class Stopping(Every):
        def next_after(self, t: datetime, /) -> datetime | None:
            if stops:
                assert scheduler.stop(timeout=30) is False
            return super().next_after(t)

    stops: list[bool] = []
    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock)
    scheduler.add("job", Stopping(10), lambda: None)
    scheduler.start()
    clock.advance(5)
    stops.append(True)
    before = clock.now()
    clock.advance(10)
    assert (clock.now() - before).total_seconds() == 10
    assert scheduler.running is False


class Nameless(type):
    """A metaclass under which a class has no name."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise KeyboardInterrupt


class Odd(Exception, metaclass=Nameless):
    """An exception whose class refuses to tell its name."""


def test_the_text_of_an_exception_is_taken_in_the_worker_and_whatever_it_does_is_its_own() -> None:
    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock)
    events = EventRecorder(scheduler)
    threads: list[str] = []

    class Told(Exception):
        def __str__(self) -> str:
            threads.append(threading.current_thread().name)
            return "told"

    def fails(error: type[Exception]) -> None:
        raise error

    scheduler.every("told", "1h", partial(fails, Told), jitter=0, catch_up="2h")
    scheduler.every("odd", "1h", partial(fails, Odd), jitter=0, catch_up="2h")
    scheduler.every("tick", "1s", lambda: None, jitter=0)
    scheduler.start()
    clock.advance(5)
    errors = {event.job: event.result.error for event in events.of(RunFailed)}
    assert errors == {"told": "Told: told", "odd": "Odd"}
    assert threads[0].startswith("leasecron-worker")
    assert not any(name.startswith("leasecron-timers") for name in threads)
    assert len(events.of("success")) >= 5
    assert scheduler.stop() is True


def test_a_stop_in_a_signal_handler_that_interrupts_a_fork_asks_and_returns() -> None:
    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock)
    scheduler.every("job", "10s", lambda: None)
    scheduler.start()
    forks._before()
    before = clock.now()
    assert scheduler.stop(timeout=30) is False
    forks._before()  # and a handler that forks in the middle of it all
    forks._in_parent()
    assert clock.now() == before
    forks._in_parent()
    assert scheduler.stop() is True


@pytest.mark.parametrize("huge", [10**5000, -(10**5000)], ids=["huge", "negative"])
def test_a_value_that_has_no_text_is_refused_like_any_other(huge: int) -> None:
    scheduler = Scheduler("memory://")
    for declare in (
        lambda: scheduler.every("job", huge, lambda: None),
        lambda: scheduler.every("job", "1h", lambda: None, lease=huge),
        lambda: scheduler.every("job", "1h", lambda: None, keep=huge),
        lambda: scheduler.every("job", "1h", lambda: None, max_attempts=huge),
        lambda: scheduler.stop(timeout=huge),
        lambda: Scheduler("memory://", instance=huge),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigurationError, match="int"):
            declare()
