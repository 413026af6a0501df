"""Standing by: when a backup asks, when it takes over, and when it stops watching."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import pairwise
from typing import Unpack

import pytest
from runs_support import HEARTBEAT, LEASE, SEEDS, Fleet, Instance, at

from leasecron import Every, JobOptionArgs, RunContext, RunStarted
from leasecron.lease_runner import LeaseRunner
from leasecron.model import Claim, ClaimAnswer


def crash(instance: Instance) -> None:
    """Let nothing that an instance says reach the store any more, as if its process were gone."""
    instance.store.cut()


def pair(fleet: Fleet) -> tuple[Instance, Instance]:
    """Return a holder, which claims first, and a backup."""
    holder, backup = fleet.instance("holder"), fleet.instance("backup")

    def wait(claims: list[Claim]) -> None:
        if claims[0].mode == "claim":
            fleet.nap(0.001)

    backup.store.scripts["claim"] = wait
    return holder, backup


def hold_on(
    instance: Instance, interval: float, **options: Unpack[JobOptionArgs]
) -> list[RunContext]:
    """Declare a job whose handler runs until it is told to end; return its contexts."""
    contexts: list[RunContext] = []

    def handler(ctx: RunContext) -> None:
        contexts.append(ctx)
        ctx.sleep(10_000)

    instance.every(interval, handler, **options)
    return contexts


@pytest.mark.parametrize("seed", SEEDS)
def test_a_check_comes_between_one_and_two_heartbeats_after_the_last(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 600)
    fleet.start()
    fleet.until(900)
    checks = [600, *backup.store.checks(at(600))]
    gaps = [after - before for before, after in pairwise(checks)]
    assert len(gaps) > 80
    assert HEARTBEAT <= min(gaps) < HEARTBEAT * 1.2
    assert HEARTBEAT * 1.8 < max(gaps) <= HEARTBEAT * 2 + 0.01


def test_checks_that_are_due_together_share_a_call(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    fleet.clock.random.random = lambda: 0.5  # type: ignore[method-assign]
    for instance in (holder, backup):
        for name in ("x", "y", "z"):
            instance.every(600, lambda ctx: ctx.sleep(1000), name=name)
        instance.every(600, lambda ctx: ctx.sleep(1000), name="slow", heartbeat=4, lease=20)
    fleet.start()
    fleet.until(612.5)
    calls = [
        (round(call.at, 1), sorted(claim.job for claim in call.items))
        for call in backup.store.of("claim", "takeover")
    ]
    assert calls == [
        (603.0, ["x", "y", "z"]),
        (606.0, ["slow", "x", "y", "z"]),
        (609.0, ["x", "y", "z"]),
        (612.0, ["slow", "x", "y", "z"]),
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_is_watched_once_however_often_it_was_skipped(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 10)
    fleet.start()
    fleet.until(99)
    assert [skip.reason for skip in backup.of("skip")] == ["taken", *["overlap"] * 8]
    checks = backup.store.checks(at(10))
    assert all(after - before >= HEARTBEAT for before, after in pairwise(checks))


def test_the_holder_does_not_watch_its_own_run(fleet: Fleet) -> None:
    one = fleet.instance()
    hold_on(one, 10)
    fleet.start()
    fleet.until(39)
    assert [skip.reason for skip in one.of("skip")] == ["overlap", "overlap"]
    assert one.store.checks(at(10)) == []


def test_a_run_that_is_done_is_watched_no_more(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        instance.every(600, lambda: fleet.nap(5))
    fleet.start()
    fleet.until(900)
    checks = backup.store.checks(at(600))
    assert 605 < checks[-1] < 609.1
    assert backup.told == ["skip"]


@pytest.mark.parametrize("seed", range(20))
def test_a_crashed_run_is_taken_over_within_a_lease_and_two_heartbeats(fleet: Fleet) -> None:
    for _ in range(3):
        hold_on(fleet.instance(), 600)
    fleet.start()
    fleet.until(607)
    (holder,) = (instance for instance in fleet.instances if instance.of("start"))
    crash(holder)
    fleet.until(630)
    started = [s for i in fleet.instances if i is not holder for s in i.of("start")]
    (start,) = started
    assert (start.attempt, start.trigger, start.slot) == (2, "takeover", at(600))
    assert start.fence > holder.of("start")[0].fence
    assert at(606 + LEASE) <= start.at <= at(607 + LEASE + 2 * HEARTBEAT)
    assert [(r.attempt, r.status, r.instance) for r in fleet.history()] == [
        (1, "lost", holder.scheduler.instance)
    ]


def test_a_released_run_is_taken_over_without_waiting_for_its_lease(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 600)
    fleet.start()
    fleet.until(601)
    assert holder.scheduler.stop()
    fleet.until(605.1)
    assert [start.attempt for start in backup.of("start")] == [2]
    assert [(r.attempt, r.status) for r in fleet.history()] == [(1, "interrupted")]


def test_checks_say_nothing_but_a_won_run(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 600)
    fleet.start()
    fleet.until(606)
    crash(holder)
    fleet.until(630)
    assert backup.told == ["skip", "start"]


def test_an_overlapped_slot_replaces_nothing_so_the_older_run_is_taken_over(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 20)
    fleet.start()
    fleet.until(40.5)
    assert [skip.reason for skip in backup.of("skip")] == ["taken", "overlap"]
    crash(holder)  # its lease is over at 48 s, before slot 60 is due
    fleet.until(59)
    assert [(s.slot, s.attempt, s.trigger) for s in backup.of("start")] == [(at(20), 2, "takeover")]


def test_an_overlapped_slot_that_nobody_starts_is_watched_until_a_newer_one_is_due(
    fleet: Fleet,
) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 20)
    fleet.start()
    fleet.until(119)
    assert [skip.reason for skip in backup.of("skip")] == ["taken", *["overlap"] * 4]
    for slot in (40, 60, 80):
        checks = backup.store.checks(at(slot))
        assert slot + 20 - 2 * HEARTBEAT <= checks[-1] <= slot + 20 + 2 * HEARTBEAT
    assert backup.store.checks(at(20))[-1] > 114


def test_a_run_is_left_to_a_newer_slot_that_was_not_seen_as_overlap(fleet: Fleet) -> None:
    holder, backup = fleet.instance("holder"), fleet.instance("backup")
    for instance in (holder, backup):
        hold_on(instance, 10)

    def later(claims: list[Claim]) -> list[ClaimAnswer] | None:
        early = claims[0].mode == "claim" and claims[0].slot == at(20)
        return [ClaimAnswer("early", wait=9)] if early and fleet.clock.now() < at(29) else None

    backup.store.scripts["claim"] = later
    holder.start()
    fleet.until(9)
    backup.start()
    backup.store.cut("claim")
    fleet.until(10.2)
    backup.store.faults.clear()
    fleet.until(17)
    assert [skip.reason for skip in backup.of("skip")] == ["taken"]
    crash(holder)
    fleet.until(28.9)
    assert [check for check in backup.store.checks(at(10)) if check >= 20] == []
    looks = [call.at for call in backup.store.of("unfinished") if call.at > 10]
    assert looks[0] >= 20
    assert 24 <= looks[-1] <= 28.1  # the lease was over at 24 s; then it was left
    fleet.until(35)
    assert [(s.slot, s.attempt, s.trigger) for s in backup.of("start")] == [
        (at(20), 1, "scheduled")
    ]
    assert [(r.slot, r.status) for r in fleet.history()] == [(at(10), "lost")]


def test_an_overlapped_slot_is_watched_in_case_another_instance_starts_it(fleet: Fleet) -> None:
    """All but c see slot 600 as overlapped; c claims it when the old run is over, and dies."""
    a, b, c = (fleet.instance(name) for name in "abc")
    a.every(300, lambda: fleet.nap(302))
    for instance in (b, c):
        hold_on(instance, 300)
    a.start()
    fleet.until(301)
    b.start()

    def later(claims: list[Claim]) -> list[ClaimAnswer] | None:
        early = claims[0].slot == at(600) and fleet.clock.now() < at(602)
        return [ClaimAnswer("early", wait=2.5)] if early else None

    c.store.scripts["claim"] = later
    c.start()
    fleet.until(603)
    assert [(skip.slot, skip.reason) for skip in b.of("skip")] == [(at(600), "overlap")]
    assert [start.slot for start in c.of("start")] == [at(600)]
    crash(c)
    fleet.until(617)
    taken_over = [s for s in [*a.of("start"), *b.of("start")] if s.slot == at(600)]
    assert [(s.attempt, s.trigger) for s in taken_over] == [(2, "takeover")]


@pytest.mark.parametrize(
    ("interval", "slot", "last_check"),
    [(600, 600, 630 + 2 * HEARTBEAT), (20, 20, 40 + 2 * HEARTBEAT)],
    ids=["until it would be too late", "until a newer slot is due"],
)
def test_a_run_that_nobody_started_is_asked_for_while_it_could_start(
    fleet: Fleet, interval: float, slot: float, last_check: float
) -> None:
    one = fleet.instance()
    one.every(interval, lambda: None, max_late=30, catch_up=0)
    one.store.break_("claim")
    fleet.start()
    fleet.until(slot + 0.5)
    one.store.heal()
    fleet.until(slot + 100)
    checks = one.store.checks(at(slot))
    assert last_check - 2 * HEARTBEAT - 2 * HEARTBEAT <= checks[-1] <= last_check
    assert all(HEARTBEAT <= b - a <= 2 * HEARTBEAT for a, b in pairwise([slot, *checks]))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_used_up_its_attempts_fails_once(fleet: Fleet) -> None:
    for _ in range(4):
        hold_on(fleet.instance(), 600, max_attempts=2)
    fleet.start()
    for moment in (601, 620):
        fleet.until(moment)
        for instance in fleet.instances:
            if instance.of("start"):
                crash(instance)
    fleet.until(660)
    alive = [instance for instance in fleet.instances if not instance.of("start")]
    assert len(alive) == 2
    ((failure),) = (event for instance in alive for event in instance.of("failure"))
    second = next(s for i in fleet.instances for s in i.of("start") if s.attempt == 2)
    assert failure.exception is None
    assert (failure.job, failure.slot) == ("sync", at(600))
    assert failure.instance in {instance.scheduler.instance for instance in alive}
    assert failure.result in fleet.history()
    assert (failure.result.status, failure.result.attempt) == ("lost", 2)
    assert failure.result.instance == second.instance
    assert Counter(r.status for r in fleet.history()) == {"lost": 2}


def test_a_lone_instance_that_comes_too_late_reports_an_abandoned_run_with_its_skip(
    fleet: Fleet,
) -> None:
    holder, other = fleet.instance(), fleet.instance()
    hold_on(holder, 600, max_attempts=1)
    hold_on(other, 600, max_attempts=1)

    def later(_claims: list[Claim]) -> list[ClaimAnswer] | None:
        return [ClaimAnswer("early", wait=20)] if fleet.clock.now() < at(615) else None

    other.store.scripts["claim"] = later
    fleet.start()
    fleet.until(601)
    crash(holder)
    fleet.until(640)
    assert [event.name for event in other.events] == ["failure", "skip"]
    assert other.of("skip")[0].reason == "taken"


def test_a_check_that_fails_is_an_error_once_and_the_run_is_watched_on(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 600)
    fleet.start()
    fleet.until(601)
    backup.store.cut("claim")
    fleet.until(640)
    assert [(error.operation, error.at < at(605)) for error in backup.of("error")] == [
        ("claim", True)
    ]
    crash(holder)
    backup.store.heal()
    fleet.until(655)
    assert [s.attempt for s in backup.of("start") if isinstance(s, RunStarted)] == [2]


def test_a_check_that_fails_for_good_is_an_error_once_and_the_run_is_watched_on(
    fleet: Fleet,
) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 600)
    fleet.start()
    fleet.until(601)
    backup.store.break_("claim")
    fleet.until(640)
    assert len(backup.store.checks(at(600))) >= 9
    assert [(e.operation, e.job, e.slot) for e in backup.of("error")] == [
        ("claim", "sync", at(600))
    ]
    crash(holder)
    backup.store.heal()
    fleet.until(655)
    assert [start.attempt for start in backup.of("start")] == [2]


def test_every_outage_of_the_checks_is_an_error_of_its_own(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 600)
    fleet.start()
    for outage in (610, 630, 650):
        fleet.until(outage)
        backup.store.break_("claim")
        fleet.until(outage + 10)
        backup.store.heal()
    assert [10 * (event.at.second // 10) for event in backup.of("error")] == [10, 30, 50]


def test_a_removed_job_is_watched_no_more(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    for instance in (holder, backup):
        hold_on(instance, 600)
    fleet.start()
    fleet.until(611)
    backup.scheduler.remove("sync")
    crash(holder)
    fleet.until(660)
    assert all(check <= 611 for check in backup.store.checks(at(600)))
    assert backup.of("start") == []


class Unreliable:
    """Every 600 seconds; after the start nobody can say which slot was the latest."""

    def __init__(self) -> None:
        self.every = Every(600)
        self.broken = False

    def next_after(self, t: datetime, /) -> datetime | None:
        return self.every.next_after(t)

    def latest_at(self, t: datetime, /) -> datetime | None:
        if self.broken:
            raise ValueError("no")
        return self.every.latest_at(t)


def test_a_run_of_a_broken_schedule_is_watched_on(fleet: Fleet) -> None:
    holder, backup = pair(fleet)
    schedules = [Unreliable(), Unreliable()]
    for instance, schedule in zip((holder, backup), schedules, strict=True):
        instance.scheduler.add("sync", schedule, lambda ctx: ctx.sleep(1000))
    fleet.start()
    fleet.until(601)
    for schedule in schedules:
        schedule.broken = True
    fleet.until(606)
    crash(holder)
    fleet.until(620)
    assert [(s.attempt, s.trigger) for s in backup.of("start")] == [(2, "takeover")]


def test_what_is_known_of_slots_that_met_a_run_does_not_grow_with_its_length(fleet: Fleet) -> None:
    backup = pair(fleet)[1]
    for instance in fleet.instances:
        hold_on(instance, 1, lease=LEASE, heartbeat=HEARTBEAT)
    fleet.start()
    known = []
    for minute in range(1, 6):
        fleet.until(60 * minute)
        engine = backup.scheduler._lifecycle._engine
        assert engine is not None
        assert isinstance(engine.runner, LeaseRunner)
        known.append(len(engine.runner._backups._behind["sync"]))
    assert max(known) <= 2 * known[0]
