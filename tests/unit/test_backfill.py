"""Backfills: slots that never succeeded, run one after the other by whoever declares the job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from runs_support import HEARTBEAT, LEASE, SEEDS, Fleet, Instance, at

from leasecron import (
    BackendError,
    ConfigurationError,
    Cron,
    Every,
    LockDirBackend,
    RunContext,
    Scheduler,
)
from leasecron.backfill import MissingSlots
from leasecron.model import BackfillState
from leasecron.schedules import Once, schedule_in_words


class Noting:
    """A handler that notes the slots that it was called for; it fails for some of them."""

    def __init__(self, fleet: Fleet, lasts: float = 0.0, failing: tuple[float, ...] = ()) -> None:
        self.fleet = fleet
        self.lasts = lasts
        self.failing = failing
        self.calls: list[tuple[float, str]] = []
        self.running = 0
        self.most = 0

    def __call__(self, ctx: RunContext) -> None:
        slot = (ctx.slot - at(0)).total_seconds()
        self.calls.append((slot, ctx.trigger))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.lasts:
                ctx.sleep(self.lasts)
        finally:
            self.running -= 1
        if slot in self.failing:
            raise ValueError("no")

    @property
    def filled(self) -> list[float]:
        return [slot for slot, trigger in self.calls if trigger == "backfill"]


def two(
    fleet: Fleet, handler: Noting, *, polled: bool = False, **options: object
) -> tuple[Instance, Instance]:
    for _ in range(2):
        instance = fleet.instance()
        instance.store.polled = polled
        instance.every(600, handler, **options)  # type: ignore[arg-type]
    fleet.start()
    one, other = fleet.instances
    return one, other


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("polled", [False, True])
def test_the_slots_of_a_range_are_run_oldest_first(fleet: Fleet, *, polled: bool) -> None:
    handler = Noting(fleet, lasts=2)
    one, _other = two(fleet, handler, polled=polled)
    fleet.until(100)

    backfill = one.scheduler.backfill("sync", at(-3000), at(0))
    assert backfill.total == 5
    states: list[BackfillState] = []
    ended = backfill.wait(timeout=60, progress=states.append)

    assert ended is not None
    assert (ended.succeeded, ended.failed, ended.total) == (5, 0, 5)
    assert handler.calls == [(slot, "backfill") for slot in range(-3000, 0, 600)]
    assert handler.most == 1
    assert [state.succeeded for state in states] == sorted(state.succeeded for state in states)
    assert {(r.trigger, r.status) for r in fleet.history()} == {("backfill", "success")}
    steps = sum(len(instance.store.of("advance")) for instance in fleet.instances)
    assert steps <= 2 * (5 + 1)  # each asks when a run has ended, and not while it goes on


def test_slots_that_succeeded_are_left_out_and_those_that_failed_are_not(fleet: Fleet) -> None:
    handler = Noting(fleet, failing=(1200,))
    one, _other = two(fleet, handler)
    fleet.until(2500)
    assert [slot for slot, _ in handler.calls] == [600, 1200, 1800, 2400]
    handler.failing = ()
    handler.calls.clear()

    backfill = one.scheduler.backfill("sync", at(0), at(2401))
    assert [*one.scheduler.missing("sync", at(0), at(2401))] == [at(0), at(1200)]
    ended = backfill.wait(timeout=60)

    assert ended is not None
    assert (backfill.total, ended.succeeded) == (2, 2)
    assert handler.calls == [(0, "backfill"), (1200, "backfill")]
    assert [*one.scheduler.missing("sync", at(0), at(2401))] == []


def test_a_slot_that_succeeds_by_itself_meanwhile_is_counted(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=30)
    one = fleet.instance()
    one.every(600, handler)
    fleet.start()
    fleet.until(610)
    backfill = one.scheduler.backfill("sync", at(-600), at(605))

    ended = backfill.wait(timeout=200)

    assert ended is not None
    assert (backfill.total, ended.succeeded, ended.failed) == (3, 3, 0)
    assert handler.calls == [(600, "scheduled"), (-600, "backfill"), (0, "backfill")]


def test_whoever_declares_the_job_later_goes_on_at_once(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=1)
    one, two = fleet.instance(), fleet.instance()
    two.every(600, handler)
    one.every(700, print, name="other")
    fleet.start()
    fleet.until(50)
    backfill = two.scheduler.backfill("sync", at(-6000), at(0))
    fleet.until(53)
    two.scheduler.stop(timeout=5)
    fleet.until(60)
    one.every(600, handler)
    fleet.until(75)

    assert backfill.state().ended_at is not None


def test_a_range_is_cut_to_whole_milliseconds_and_may_end_now(fleet: Fleet) -> None:
    handler = Noting(fleet)
    one, _other = two(fleet, handler)
    fleet.until(100)
    odd = timedelta(microseconds=7)

    first = one.scheduler.backfill("sync", at(-1200) + odd, at(0) + odd)
    assert (first.start, first.end) == (at(-1199.999), at(0.001))
    assert first.wait(timeout=20) is not None
    assert handler.filled == [-600, 0]
    second = one.scheduler.backfill("sync", at(-1200))
    assert 100 <= (second.end - at(0)).total_seconds() < 121
    assert second.wait(timeout=20) is not None
    assert handler.filled == [-600, 0, -1200]


def test_a_slot_that_fails_does_not_stop_the_others(fleet: Fleet) -> None:
    handler = Noting(fleet, failing=(-1200,))
    one, _other = two(fleet, handler, retries=1, backoff=1)
    fleet.until(100)

    ended = one.scheduler.backfill("sync", at(-1800), at(-600)).wait(timeout=60)

    assert ended is not None
    assert (ended.succeeded, ended.failed) == (1, 1)
    assert handler.filled == [-1800, -1200, -1200]


def test_a_backfill_goes_on_when_its_instance_is_gone(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=5)
    one, other = two(fleet, handler)
    fleet.until(100)
    one.scheduler.backfill("sync", at(-2400), at(0))
    fleet.until(107)
    busy = next(
        i for i in (one, other) if i.of("start")[-1:] and i.of("start")[-1].slot == at(-1800)
    )
    busy.store.cut()
    fleet.until(107 + LEASE + 2 * HEARTBEAT + 25)

    left = other if busy is one else one
    state = left.scheduler.current_backfill("sync")
    assert state is not None
    assert (state.state().succeeded, state.state().ended_at is None) == (4, False)
    assert handler.filled == [-2400, -1800, -1200, -600]
    assert handler.most <= 2  # whoever was cut off is told of it, and ends


def test_a_slot_of_the_schedule_waits_and_goes_before_the_next(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=50)
    one, other = two(fleet, handler)
    fleet.until(580)

    one.scheduler.backfill("sync", at(-1800), at(0))
    fleet.until(800)

    assert [slot for slot, _ in handler.calls] == [-1800, 600, -1200, -600]
    assert handler.most == 1
    starts = sorted(event.at for instance in (one, other) for event in instance.of("start"))
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(starts)]
    assert max(gaps) < 50 + 2.5 * HEARTBEAT
    assert other.of("error") == one.of("error") == []


def test_a_paused_job_is_not_backfilled_until_it_is_resumed(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=5)
    one, _other = two(fleet, handler)
    fleet.until(100)
    backfill = one.scheduler.backfill("sync", at(-1800), at(0))
    fleet.until(102)
    one.scheduler.pause("sync")
    fleet.until(150)
    assert len(handler.calls) == 1
    with pytest.raises(ConfigurationError, match="backfill: job 'sync' is paused"):
        one.scheduler.backfill("sync", at(-1800), at(0))
    one.scheduler.resume("sync")

    ended = backfill.wait(timeout=60)

    assert ended is not None
    assert ended.succeeded == 3


def test_a_backfill_can_be_cancelled(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=5)
    one, _other = two(fleet, handler)
    fleet.until(100)
    backfill = one.scheduler.backfill("sync", at(-1800), at(0))
    fleet.until(102)
    backfill.cancel()
    backfill.cancel()
    fleet.until(150)

    assert len(handler.calls) == 1
    assert [r.status for r in fleet.history()] == ["success"]
    ended = backfill.wait(timeout=0)
    assert ended is not None
    assert ended.ended_at is not None


def test_a_job_has_one_backfill_at_a_time(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=5)
    one, other = two(fleet, handler)
    fleet.until(100)
    one.scheduler.backfill("sync", at(-1800), at(0))

    with pytest.raises(ConfigurationError, match=r"one goes on already, from .* asked for by 'a'"):
        other.scheduler.backfill("sync", at(-1800), at(-600))


def test_another_process_may_ask_for_it_with_the_schedule(fleet: Fleet) -> None:
    handler = Noting(fleet)
    two(fleet, handler)
    fleet.until(100)
    stranger = Scheduler(fleet.memory, clock=fleet.clock, instance="stranger")
    with pytest.raises(ConfigurationError, match="the store knows no job 'synk'; it knows 'sync'"):
        stranger.backfill("synk", at(-1800), at(0))

    backfill = stranger.backfill("sync", at(-1800), at(0), schedule=Every("10m"))

    assert backfill.wait(timeout=60) is not None
    assert handler.filled == [-1800, -1200, -600]


def test_a_schedule_that_is_not_that_of_the_job_is_refused(fleet: Fleet) -> None:
    one, _other = two(fleet, Noting(fleet))
    fleet.until(100)

    with pytest.raises(ConfigurationError, match=r"schedule is .*1m.* declared here with .*10m"):
        one.scheduler.backfill("sync", at(-1800), at(0), schedule=Every("1m"))

    assert one.scheduler.backfill("sync", at(-1800), at(0), schedule=Every("10m")).total == 3


def test_a_backfill_begins_whose_first_slot_is_watched(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=700)
    one, _other = two(fleet, handler)
    fleet.until(1210)  # slot 600 is run, and slot 1200 was skipped, and stands behind it
    backfill = one.scheduler.backfill("sync", at(1200), at(1201))
    handler.lasts = 0

    fleet.until(1320)

    assert handler.filled == [1200]
    assert backfill.state().ended_at is not None


@pytest.mark.parametrize("polled", [False, True])
def test_what_cannot_go_on_for_long_costs_few_writes(fleet: Fleet, *, polled: bool) -> None:
    one, other = two(fleet, Noting(fleet), polled=polled)
    fleet.until(100)
    one.scheduler.backfill("sync", at(-1800), at(0))
    one.scheduler.trigger("sync")
    one.scheduler.pause("sync")
    fleet.until(130)
    before = {
        kind: len(one.store.of(kind) + other.store.of(kind)) for kind in ("advance", "declare")
    }
    fleet.until(590)

    asked = len(one.store.of("advance") + other.store.of("advance")) - before["advance"]
    assert 2 * 460 / 10 <= asked <= 2 * 460 / 5
    declared = len(one.store.of("declare") + other.store.of("declare")) - before["declare"]
    assert declared <= 2 * 460 / 30  # one job a minute, in any case


def test_a_job_that_nobody_declares_is_not_backfilled(fleet: Fleet) -> None:
    two(fleet, Noting(fleet))
    fleet.until(100)
    stranger = Scheduler(fleet.memory, clock=fleet.clock, instance="stranger")

    with pytest.raises(ConfigurationError, match=r"no instance that declares job 'synk' .* 'sync'"):
        stranger.backfill("synk", at(-1800), at(0), schedule=Every(600))

    current = stranger.current_backfill("synk")
    assert current is not None
    assert current.state().ended_at is not None


def test_an_empty_backfill_ends_at_once(fleet: Fleet) -> None:
    one, _other = two(fleet, Noting(fleet))
    fleet.until(100)

    ended = one.scheduler.backfill("sync", at(1), at(2)).wait(timeout=10)

    assert ended is not None
    assert (ended.total, ended.cursor) == (0, None)


def test_a_schedule_that_raises_is_told_of_and_tried_again(fleet: Fleet) -> None:
    class Broken:
        def __init__(self) -> None:
            self.broken = False
            self.every = Every(600)

        def next_after(self, t: datetime) -> datetime | None:
            if self.broken:
                raise OSError("no holidays")
            return self.every.next_after(t)

        def latest_at(self, t: datetime) -> datetime | None:
            return self.every.latest_at(t)

    one = fleet.instance()
    schedule, calls = Broken(), []
    one.scheduler.add("sync", schedule, lambda: calls.append(1))
    fleet.start()
    fleet.until(100)
    backfill = one.scheduler.backfill("sync", at(-1200), at(0))
    schedule.broken = True
    fleet.until(102)
    schedule.broken = False
    fleet.until(110)

    assert [event.operation for event in one.of("error")] == ["schedule"]
    assert backfill.state().succeeded == len(calls) == 2


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (at(10), at(10), "end is .* which is not after start"),
        (at(10), at(0), "end is .* which is not after start"),
        (at(0), at(10_000), "end is .* which is still to come"),
        (datetime(2026, 1, 1), at(0), "start is .* right is an aware datetime"),
        (at(0), "2026-01-01", "end is '2026-01-01'; right is an aware datetime"),
        (datetime.min.replace(tzinfo=UTC), at(0), "is no instant of the years 1 to 9999"),
        (at(-6_000_000_000), at(0), r"it has 10,000,000 slots, and most is 10,000"),
    ],
)
def test_what_is_no_range_is_refused(
    fleet: Fleet, start: object, end: object, message: str
) -> None:
    one, _other = two(fleet, Noting(fleet))
    fleet.until(100)

    with pytest.raises(ConfigurationError, match=f"backfill of job 'sync': .*{message}"):
        one.scheduler.backfill("sync", start, end)  # type: ignore[arg-type]
    assert one.scheduler.current_backfill("sync") is None


@pytest.mark.parametrize("most", [0, -1, True, 1.5, None])
def test_what_is_no_number_of_slots_is_refused(fleet: Fleet, most: object) -> None:
    one, _other = two(fleet, Noting(fleet))

    with pytest.raises(ConfigurationError, match="backfill of job 'sync': most is"):
        one.scheduler.backfill("sync", at(-600), at(0), most=most)  # type: ignore[arg-type]


def test_a_large_backfill_is_counted_or_nearly_so() -> None:
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    slots = MissingSlots(Cron("*/5 * * * *"), start, end, frozenset())

    with pytest.raises(ConfigurationError, match=r"it has about 1,0[0-9]{2},[0-9]{3} slots"):
        slots.count("sync", 1000)
    hour = MissingSlots(Every(60), start, start + timedelta(hours=1), frozenset({start}))
    assert hour.count("sync", 59) == 59


def test_a_store_of_claims_alone_refuses(tmp_path: object) -> None:
    scheduler = Scheduler(LockDirBackend(f"{tmp_path}/locks", create=True))
    scheduler.every("sync", 600, print)

    with pytest.raises(ConfigurationError, match=r"backfill\(\) needs a store such as sqlite:"):
        scheduler.backfill("sync", at(-600), at(0))


@pytest.mark.parametrize(
    "schedule",
    [
        Every("90s"),
        Every("1d"),
        Cron("0 3 * * *", "Europe/Amsterdam"),
        Cron("@daily"),
        Once(at(0.5)),
    ],
)
def test_a_schedule_is_found_again_in_its_words(schedule: object) -> None:
    assert schedule_in_words(str(schedule)) == schedule


@pytest.mark.parametrize("words", ["", "every", "cron", "my own", "once at noon", "every x"])
def test_what_is_no_schedule_of_ours_is_none(words: str) -> None:
    assert schedule_in_words(words) is None


def test_whoever_cannot_learn_of_his_backfill_leaves_none_behind(fleet: Fleet) -> None:
    two(fleet, Noting(fleet))
    fleet.until(100)
    fleet.instances[0].scheduler.stop()
    fleet.instances[1].scheduler.stop()
    stranger = Instance(fleet.clock, fleet.memory, "stranger", 200)
    looks: list[int] = []

    def fail_once(_items: list[object]) -> None:
        looks.append(1)
        if len(looks) == 1:
            raise BackendError("the disk is broken")

    stranger.store.scripts["backfill"] = fail_once

    with pytest.raises(BackendError, match="the disk is broken"):
        stranger.scheduler.backfill("sync", at(-1800), at(0), schedule=Every(600))

    current = stranger.scheduler.current_backfill("sync")
    assert current is not None
    assert current.state().ended_at is not None


def test_a_range_may_end_at_the_instant_at_which_it_is_asked_for(fleet: Fleet) -> None:
    one, _other = two(fleet, Noting(fleet))
    fleet.until(100.0004)

    backfill = one.scheduler.backfill("sync", at(-600), at(100) + timedelta(microseconds=400))

    assert backfill.end == at(100.001)


def test_a_slot_that_waits_behind_a_backfill_outlasts_newer_ones_that_nobody_begins(
    fleet: Fleet,
) -> None:
    handler = Noting(fleet, lasts=70)
    one = fleet.instance()
    one.every(60, handler, max_late=1)
    fleet.start()
    fleet.until(50)
    one.scheduler.backfill("sync", at(-60), at(0))
    fleet.until(119)
    one.store.cut("claim")
    fleet.until(125)
    one.store.heal()
    fleet.until(150)

    assert [slot for slot, _ in handler.calls] == [-60, 60]


def test_cancelling_one_that_has_ended_leaves_a_later_one_alone(fleet: Fleet) -> None:
    one, _other = two(fleet, Noting(fleet, lasts=5))
    fleet.until(100)
    earlier = one.scheduler.backfill("sync", at(-1200), at(-600))
    fleet.until(150)
    later = one.scheduler.backfill("sync", at(-1800), at(-1200))
    earlier.cancel()

    assert later.state().ended_at is None


def test_one_that_has_to_wait_for_its_first_step_is_noticed(fleet: Fleet) -> None:
    handler = Noting(fleet, lasts=30)
    one, _other = two(fleet, handler)
    fleet.until(100)
    one.scheduler.backfill("sync", at(-1800), at(0))
    fleet.until(102)
    current = one.scheduler.current_backfill("sync")
    assert current is not None
    current.cancel()
    stranger = Scheduler(fleet.memory, clock=fleet.clock, instance="stranger")

    backfill = stranger.backfill("sync", at(-1200), at(0))

    assert backfill.state().cursor is None
    assert backfill.wait(timeout=120) is not None
