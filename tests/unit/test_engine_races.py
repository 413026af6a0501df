"""Two threads at one scheduler in the same moment, and what an engine holds on to."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest

from leasecron import RunContext, Scheduler, StoreFailed
from leasecron.backends.memory import MemoryBackend
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
