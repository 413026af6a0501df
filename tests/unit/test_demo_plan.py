from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from leasecron.cli import demo_plan as plan
from leasecron.schedules import Cron

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
LONGEST_WAIT = 1.0
instants = st.integers(0, 10 * 24 * 3600 * 1000).map(lambda ms: NOON + timedelta(milliseconds=ms))


@given(after=instants)
def test_a_quiet_moment_lies_clear_of_every_slot_and_is_near(after: datetime) -> None:
    schedules = plan.short_jobs().values()
    moment = plan.quiet_moment(after, schedules)
    assert after <= moment < after + timedelta(seconds=LONGEST_WAIT)
    for schedule in schedules:
        latest, following = schedule.latest_at(moment), schedule.next_after(moment)
        assert latest is not None
        assert following is not None
        assert moment - latest >= timedelta(seconds=0.7)
        assert following - moment >= timedelta(seconds=0.3)


@given(ready=instants)
def test_the_long_job_is_due_once_and_soon_after_all_are_ready(ready: datetime) -> None:
    slot = plan.export_slot(ready)
    schedule = Cron(plan.once_a_day(slot), "UTC")
    assert timedelta(seconds=3) < slot - ready <= timedelta(seconds=4)
    assert plan.slots_between(schedule, ready, ready + timedelta(hours=1)) == [slot]


def test_the_slots_that_must_run_are_those_after_the_start_and_up_to_the_end() -> None:
    expected = plan.expected_slots(plan.short_jobs(), NOON, NOON + timedelta(seconds=10))
    seconds = {job: [slot.second for slot in slots] for job, slots in expected.items()}
    assert seconds == {plan.TICK: [2, 4, 6, 8, 10], plan.REPORT: [5, 10]}


def test_the_killed_run_has_much_left_and_is_finished_before_the_demo_ends() -> None:
    killed_after = plan.KILL_AFTER + LONGEST_WAIT
    assert killed_after <= plan.EXPORT_WORK / 2
    taken_over_after = plan.LEASE + 2 * plan.HEARTBEAT
    assert 4 + killed_after + taken_over_after + plan.EXPORT_WORK < plan.SECONDS
