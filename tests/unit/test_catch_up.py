"""Catching up: the latest slot that was missed while nobody ran, and only that one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Unpack

import pytest
from fake_instances import NOON, START, Instances, every, several_orders

from leasecron import BackendUnavailable, JobOptionArgs, Scheduler
from leasecron.backends.memory.backend import MemoryBackend
from leasecron.model import Claim, ClaimAnswer
from leasecron.testing import FakeClock

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class ClaimedBackend(MemoryBackend):
    """A memory store that notes the claims and when they came, and can refuse them."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self.claims: list[tuple[float, Claim]] = []
        self.away = False

    def claim(self, claims: Sequence[Claim]) -> list[ClaimAnswer]:
        self.claims += [(self._now(), claim) for claim in claims]
        if self.away:
            raise BackendUnavailable("away")
        return super().claim(claims)


@pytest.fixture
def instances(seed: int) -> Iterator[Instances]:
    """Instances whose claims are noted."""
    made = Instances(FakeClock(START, seed=seed))
    made.backend = ClaimedBackend(made.at)
    yield made
    made.stop()


def store(instances: Instances) -> ClaimedBackend:
    assert isinstance(instances.backend, ClaimedBackend)
    return instances.backend


def declared(
    instances: Instances, expression: str = "* * * * *", **options: Unpack[JobOptionArgs]
) -> Scheduler:
    scheduler = instances.new()
    scheduler.cron("job", expression, instances.handler(), **options)
    return scheduler


def down_for(instances: Instances, downtime: timedelta, expression: str = "* * * * *") -> None:
    """Let the job be known and run for two minutes, and then let nobody run it."""
    scheduler = declared(instances, expression)
    scheduler.start()
    instances.clock.advance(2 * MINUTE)
    assert scheduler.stop()
    instances.calls.clear()
    store(instances).claims.clear()
    instances.clock.jump(wall=downtime, monotonic=downtime)


@several_orders
@pytest.mark.parametrize("options", [{"catch_up": "1h"}, {}], ids=["given", "default"])
def test_after_two_hours_down_eight_instances_run_the_latest_slot_once(
    instances: Instances, options: JobOptionArgs
) -> None:
    down_for(instances, 2 * HOUR + 30 * SECOND)
    for _ in range(8):
        declared(instances, **options).start()
    instances.clock.advance(10)
    latest = NOON + 2 * HOUR + 2 * MINUTE
    assert [(call.slot, call.trigger) for call in instances.calls] == [(latest, "catch-up")]
    instances.clock.advance(10 * MINUTE)
    assert instances.slots() == every(60, start=latest, count=11)


@several_orders
def test_after_two_hours_down_nothing_is_run_where_catch_up_is_zero(instances: Instances) -> None:
    down_for(instances, 2 * HOUR + 30 * SECOND)
    for _ in range(8):
        declared(instances, catch_up=0).start()
    instances.clock.advance(10)
    assert instances.calls == []
    instances.clock.advance(5 * MINUTE)
    assert instances.slots() == every(60, start=NOON + 2 * HOUR + 3 * MINUTE, count=5)


@pytest.mark.parametrize(
    ("age", "options", "caught_up"),
    [
        (timedelta(minutes=4, seconds=59), {}, True),  # max_late is five minutes
        (timedelta(minutes=5), {}, False),
        (timedelta(minutes=9), {"max_late": "10m"}, True),
        (timedelta(minutes=59), {"catch_up": "1h"}, True),
        (timedelta(hours=1), {"catch_up": "1h"}, False),
        (timedelta(minutes=2), {"catch_up": "1m"}, False),
        (timedelta(seconds=1), {"catch_up": 0}, False),
        (timedelta(days=40), {"catch_up": "60d"}, True),
    ],
)
def test_the_latest_slot_is_caught_up_if_it_was_due_less_than_catch_up_ago(
    instances: Instances, age: timedelta, options: JobOptionArgs, caught_up: bool
) -> None:
    down_for(instances, timedelta(0), "0 0 1 12 *")
    latest = datetime(2026, 12, 1, tzinfo=NOON.tzinfo)
    passed = latest + age - instances.clock.now()
    instances.clock.jump(wall=passed, monotonic=passed)
    declared(instances, "0 0 1 12 *", **options).start()
    instances.clock.advance(1)
    assert instances.slots() == ([latest] if caught_up else [])
    assert instances.skips("late") == []


def test_a_new_job_is_not_caught_up_unless_that_was_asked_for(instances: Instances) -> None:
    instances.clock.advance(90)
    declared(instances).start()
    instances.clock.advance(5)
    assert instances.calls == []


def test_a_new_job_is_caught_up_where_that_was_asked_for(instances: Instances) -> None:
    instances.clock.advance(90)
    declared(instances, catch_up="1h").start()
    instances.clock.advance(5)
    assert instances.slots() == [NOON + MINUTE]


def test_a_slot_since_the_job_was_first_seen_anywhere_is_caught_up(instances: Instances) -> None:
    first = declared(instances)
    first.start()
    instances.clock.advance(30)
    first.stop()
    instances.clock.advance(60)
    declared(instances).start()  # this one has never seen the job
    instances.clock.advance(5)
    assert instances.slots() == [NOON + MINUTE]


@several_orders
def test_a_catch_up_waits_for_a_random_jitter_and_then_claims(instances: Instances) -> None:
    down_for(instances, HOUR + 5 * SECOND)
    begin = instances.at()
    for _ in range(8):
        declared(instances, catch_up="1h", jitter="30s").start()
    instances.clock.advance(31)
    waits = sorted(at - begin for at, _ in store(instances).claims)
    assert len(waits) == 8
    assert 0 <= waits[0] < 15 < waits[-1] < 30
    assert len(set(waits)) == 8
    assert len(instances.calls) == 1
    assert instances.calls[0].at - begin == waits[0]


@pytest.mark.parametrize("options", [{"catch_up": "1h"}, {"catch_up": "1m", "max_late": "1h"}])
def test_a_catch_up_claim_may_be_as_late_as_the_longer_of_its_limits(
    instances: Instances, options: JobOptionArgs
) -> None:
    down_for(instances, HOUR + 5 * SECOND)
    declared(instances, **options).start()
    instances.clock.advance(61)
    limits = [(claim.trigger, claim.max_late) for _, claim in store(instances).claims]
    scheduled = 3600 if "max_late" in options else 300
    assert limits == [("catch-up", 3600), ("scheduled", scheduled)]


def test_a_catch_up_whose_claim_fails_is_tried_again_within_its_own_limit(
    instances: Instances,
) -> None:
    down_for(instances, timedelta(0), "0 13 * * *")
    instances.clock.jump(wall=HOUR + 10 * MINUTE, monotonic=HOUR + 10 * MINUTE)  # 13:12
    store(instances).away = True
    declared(instances, "0 13 * * *", catch_up="1h").start()
    instances.clock.advance(20 * MINUTE)
    assert instances.calls == []
    store(instances).away = False
    instances.clock.advance(5)
    assert [(call.slot, call.trigger) for call in instances.calls] == [(NOON + HOUR, "catch-up")]


def test_a_slot_that_has_run_is_not_run_again_by_a_restart(instances: Instances) -> None:
    scheduler = declared(instances)
    for _ in range(4):
        scheduler.start()
        instances.clock.advance(25)
        assert scheduler.stop()
    assert instances.slots() == [NOON + MINUTE]
    assert {skip.reason for skip in instances.events("skip")} == {"taken"}


@several_orders
def test_instances_that_restart_one_after_the_other_run_every_slot_once(
    instances: Instances,
) -> None:
    schedulers = [declared(instances) for _ in range(3)]
    for _ in range(4):
        for scheduler in schedulers:
            scheduler.stop()
            instances.clock.advance(17)
            scheduler.start()
    instances.clock.advance(3)
    assert instances.slots() == every(60, start=NOON + MINUTE, count=3)


def test_a_schedule_without_a_past_has_nothing_to_catch_up(instances: Instances) -> None:
    class FromNowOn:
        def next_after(self, t: datetime) -> datetime | None:
            return t.replace(second=0, microsecond=0) + MINUTE

        def latest_at(self, t: datetime) -> datetime | None:
            return None

    scheduler = instances.new()
    scheduler.add("job", FromNowOn(), instances.handler(), catch_up="1h")
    scheduler.start()
    instances.clock.advance(61)
    assert [(call.slot, call.trigger) for call in instances.calls] == [(NOON + MINUTE, "scheduled")]
    assert instances.events("error") == []
