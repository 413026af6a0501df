"""How long a run took, in its event and in history."""

from __future__ import annotations

import pytest

from leasecron import RunContext, RunSucceeded, Scheduler
from leasecron.testing import EventRecorder, FakeClock


@pytest.mark.parametrize("step", [-7200.0, -30.0, 28_800.0])
def test_a_step_of_the_wall_clock_neither_stretches_a_run_nor_turns_it_round(step: float) -> None:
    clock = FakeClock()
    scheduler = Scheduler("memory://", clock=clock)
    events = EventRecorder(scheduler)
    clock.advance(1)

    @scheduler.every("job", "1d", jitter=0, catch_up="1d")
    def job(ctx: RunContext) -> None:
        ctx.sleep(10)

    scheduler.start()
    clock.advance(4)
    clock.jump(wall=step)
    clock.advance(10)
    event = events.wait_for(RunSucceeded)
    scheduler.stop()

    assert isinstance(event, RunSucceeded)
    assert event.result.duration == 10.0
    assert (event.result.ended_at - event.result.started_at).total_seconds() == 10.0
    assert scheduler.history("job", limit=1) == [event.result]
