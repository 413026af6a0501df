"""An instance whose clock is ahead of its server's waits for the server's time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from support.stores import PostgresView, RedisView

from leasecron import Scheduler
from leasecron.clock import SystemClock
from leasecron.model import from_seconds
from leasecron.testing import EventRecorder

AHEAD = 1.5
LONG = 30.0

View = PostgresView | RedisView


@pytest.fixture(
    params=[
        pytest.param(PostgresView, id="postgres"),
        pytest.param(RedisView, id="redis", marks=pytest.mark.slow),
    ]
)
def view(request: pytest.FixtureRequest) -> Iterator[View]:
    view: View = request.param()
    yield view
    view.drop()


class ClockAhead(SystemClock):
    """A clock that somebody has set wrong."""

    def wall(self) -> float:
        return super().wall() + AHEAD


class TwoSlots:
    """A schedule that is due twice: in a moment by the clock that is ahead, and a little later."""

    def __init__(self) -> None:
        first = time.time() + AHEAD + 0.5
        self.slots = [from_seconds(first), from_seconds(first + 0.2)]

    def next_after(self, t: datetime, /) -> datetime | None:
        return next((slot for slot in self.slots if slot > t), None)

    def latest_at(self, t: datetime, /) -> datetime | None:
        return next((slot for slot in reversed(self.slots) if slot <= t), None)


def test_nothing_runs_before_the_server_says_that_it_is_time(
    view: View, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "leasecron")
    due = TwoSlots()
    ended = threading.Semaphore(0)
    scheduler = Scheduler(view.url, clock=ClockAhead())
    recorder = EventRecorder()
    scheduler.on("*", recorder)
    began: list[float] = []

    def handler() -> None:
        began.append(time.time())
        ended.release()

    scheduler.add("job", due, handler, jitter=0)
    with scheduler:
        assert ended.acquire(timeout=LONG)
        assert ended.acquire(timeout=LONG)

    ahead = [slot.timestamp() - at for at, slot in zip(began, due.slots, strict=True)]
    assert max(ahead) <= 1
    assert {event.name for event in recorder.events} == {"start", "success"}
    warned = [record.message for record in caplog.records if "clock" in record.message]
    assert len(warned) == 1
    assert "s ahead of the store's" in warned[0]
