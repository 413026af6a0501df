"""Processes whose wall clock is stepped while they run."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from support.instances import TOLERANCE, Instance, Instances, instances_off_the_disk
from support.wall_clock import WallClock

pytestmark = pytest.mark.slow

instances = instances_off_the_disk

LEASE, HEARTBEAT = 4.0, 1.0
SILENCE = 10.0  # with a slot every second; the shortest step back is thirty
LONGEST_WAIT = 60.0
HOUR = 3600
STEPS = {"-5s": -5, "-30s": -30, "-2h": -2 * HOUR, "+8h": 8 * HOUR, "+10y": 10 * 365 * 24 * HOUR}


TICKING_AND_HOLDING = """
scheduler = new_scheduler()

def hold(ctx):
    note(ctx)
    gates["job"].wait(60)

def due(slot):
    scheduler.add("job", Once(slot), hold, catch_up="1m", lease=4, heartbeat=1)

scheduler.every("tick", "1s", note, lease="20s", heartbeat="1s")  # longer than any pause
serve(scheduler)
"""


def ticks(instance: Instance, after: float) -> list[float]:
    """Return when the instance decided on slots of ``tick``, after a monotonic time."""
    said = [report["monotonic"] for report in instance.said("start", "skip", job="tick")]
    return [at for at in said if at > after]


def check_not_silent(instances: Instances, since: float, until: float) -> None:
    """Every instance goes on deciding on slots, without a pause, whatever its clock says."""
    instances.wait_until(lambda: all(ticks(instance, until) for instance in instances.all))
    for instance in instances.all:
        times = [since, *ticks(instance, since)]
        pauses = [after - before for before, after in pairwise(times)]
        assert max(pauses) <= SILENCE


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("whose", ["holder", "backup", "both"])
def test_a_step_of_the_wall_clock_ends_no_lease_doubles_no_run_and_silences_nobody(
    instances: Instances, whose: str, step: int
) -> None:
    clocks = [WallClock(instances.folder / f"clock-{n}") for n in range(2)]
    for clock in clocks:
        instances.spawn(TICKING_AND_HOLDING, **clock.environment())
    first, second = instances.all
    for instance in (first, second):
        instance.wait_for("up")
    slot = round(time.time() * 1000) + 300
    for instance in (first, second):
        instance.ask(f"due({slot})")
    instances.wait_until(lambda: first.said("start", job="job") or second.said("start", job="job"))
    held = int(not first.said("start", job="job"))
    holder, backup = instances.all[held], instances.all[1 - held]
    backup.ask("len(scheduler.history())")  # by then it has asked the store for what is unfinished
    stepped = {"holder": [held], "backup": [1 - held], "both": [0, 1]}[whose]

    since = [clocks[n].step(step) for n in stepped][-1]
    # Longer than a lease that was not renewed could last, and a backup could take to notice.
    check_not_silent(instances, since, since + LEASE + 2 * HEARTBEAT + TOLERANCE)
    since = [clocks[n].step(0) for n in stepped][-1]
    check_not_silent(instances, since, since + 1.0)

    assert backup.said("start", job="job") == []
    holder.ask("gates['job'].set()")
    holder.wait_for("success", job="job", attempt=1)
    assert holder.said("interrupted") == []
    results = instances.store.results("job")
    assert [(row["attempt"], row["status"]) for row in results] == [(1, "success")]
    assert instances.log.doubles() == []
    for instance in (first, second):
        assert instance.said("failure") == []
        # A machine under load may hold the lock for too long. Nothing else may fail.
        errors = [report["exception"] for report in instance.said("error")]
        assert [text for text in errors if "database is locked" not in str(text)] == []


WAITING = """
scheduler = new_scheduler()
scheduler.cron("far", EXPRESSION, note)

def next_slot():
    return scheduler.jobs["far"].next_slot.timestamp()

serve(scheduler)
"""


def test_a_step_is_noticed_within_a_minute_while_nothing_else_is_due(instances: Instances) -> None:
    clocks = [WallClock(instances.folder / name) for name in ("ahead", "back")]
    later = datetime.now(UTC) + timedelta(hours=6)
    daily, hourly = f"'{later.minute} {later.hour} * * *'", f"'{later.minute} * * * *'"
    ahead = instances.spawn(WAITING.replace("EXPRESSION", daily), **clocks[0].environment())
    back = instances.spawn(WAITING.replace("EXPRESSION", hourly), **clocks[1].environment())
    for instance in (ahead, back):
        instance.wait_for("up")
        for _ in range(2):  # the store has answered, and what it said of the job is dealt with
            instance.ask("len(scheduler.history())")
    due, due_hourly = ahead.ask("next_slot()"), back.ask("next_slot()")

    stepped = clocks[0].step(8 * HOUR)
    clocks[1].step(-2 * HOUR)
    skipped = ahead.wait_for("skip", limit=LONGEST_WAIT + 30)
    noticed = back.wait_for("log", level="WARNING", limit=LONGEST_WAIT + 30)
    for report in (skipped, noticed):
        print(f"noticed after {report['monotonic'] - stepped:.1f} s")
        assert report["monotonic"] - stepped <= LONGEST_WAIT + 10
    assert (skipped["reason"], skipped["slot"]) == ("late", due * 1000)
    assert "jumped" in noticed["text"]
    assert ahead.ask("next_slot()") == due + 24 * HOUR
    assert back.ask("next_slot()") == due_hourly - 2 * HOUR
    assert len(ahead.said("skip")) == 1
    assert instances.log.lines() == []
