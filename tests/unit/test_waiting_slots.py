"""``overlap="queue"`` and ``"cancel"``: what an instance does with slots that have to wait."""

from __future__ import annotations

import pytest
from runs_support import HEARTBEAT, LEASE, SEEDS, Fleet, Instance, at, seconds

from leasecron import RunContext
from leasecron.model import Claim, Overlap
from leasecron.testing import Cluster


class Noting:
    """A handler that notes when the run of which slot began and how it ended."""

    def __init__(self, fleet: Fleet, lasts: dict[float, float], *, deaf: bool = False) -> None:
        self.fleet = fleet
        self.lasts = lasts
        self.deaf = deaf
        self.began: list[tuple[float, float, int]] = []
        self.told: list[tuple[float, str | None]] = []

    def __call__(self, ctx: RunContext) -> None:
        slot = (ctx.slot - at(0)).total_seconds()
        self.began.append((slot, seconds(self.fleet.clock), ctx.attempt))
        lasts = self.lasts.get(slot, 1.0)
        if self.deaf:
            self.fleet.nap(lasts)
        else:
            ctx.signal.wait(lasts)
        self.told.append((slot, ctx.signal.reason))
        ctx.signal.raise_if_set()


def two(fleet: Fleet, handler: Noting, overlap: Overlap) -> tuple[Instance, Instance]:
    for _ in range(2):
        fleet.instance().every(60, handler, overlap=overlap, max_late=10)
    fleet.start()
    one, other = fleet.instances
    return one, other


def begun(handler: Noting) -> list[tuple[float, int]]:
    return [(slot, attempt) for slot, _, attempt in handler.began]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_newest_slot_in_the_queue_begins_when_the_older_run_ends(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 200})
    two(fleet, handler, "queue")
    fleet.until(290)

    assert [(slot, round(when)) for slot, when, _ in handler.began] == [(60, 60), (240, 260)]
    fleet.until(310)
    assert begun(handler)[-1] == (300, 1)
    assert [(r.slot, r.trigger) for r in fleet.history()][1] == (at(240), "scheduled")


def test_a_slot_that_waits_outlasts_a_restart_after_which_a_newer_one_was_due() -> None:
    with Cluster(instances=1, seed=1) as cluster:  # from midnight on

        @cluster.cron("job", "0 3 * * *", overlap="queue")
        def job(ctx: RunContext) -> None:
            ctx.sleep(3600 if ctx.trigger == "manual" else 1)

        cluster.advance("2h50m")
        cluster.schedulers[0].trigger("job")
        cluster.advance("20m")
        cluster.crash(0)
        cluster.advance("24h")
        cluster.restart(0)
        cluster.advance("2h")
        cluster.check()
    scheduled = [attempt for attempt in cluster.attempts if attempt.slot.hour == 3]
    assert [attempt.slot.day for attempt in scheduled] == [1]


def test_slots_that_wait_are_told_of_as_overlap(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 100})
    one, other = two(fleet, handler, "queue")
    fleet.until(170)

    for instance in (one, other):
        reasons = [(event.slot, event.reason) for event in instance.of("skip")]
        assert (at(120), "overlap") in reasons
    assert begun(handler) == [(60, 1), (120, 1)]


def test_a_queued_slot_waits_for_the_takeover_of_the_older_run(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 70})
    one, other = two(fleet, handler, "queue")
    fleet.until(118)
    holder = one if one.of("start") else other
    holder.store.cut()
    fleet.until(118 + LEASE + 2 * HEARTBEAT + 80)

    assert begun(handler)[:3] == [(60, 1), (60, 2), (180, 1)]


def test_who_stops_lets_the_others_go_on_with_the_queue(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 70})
    one, other = two(fleet, handler, "queue")
    fleet.until(122)
    holder = one if one.of("start") else other
    holder.scheduler.stop(timeout=5)
    fleet.until(122 + 2 * HEARTBEAT)

    assert begun(handler) == [(60, 1), (60, 2)]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_older_run_is_cancelled_at_its_next_heartbeat(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 200})
    one, other = two(fleet, handler, "cancel")
    fleet.until(120 + 2 * HEARTBEAT)

    assert handler.told[:1] == [(60, "replaced")]
    (first, _, _), (second, when, attempt) = handler.began
    assert (first, second, attempt) == (60, 120, 1)
    assert 120 < when <= 120 + HEARTBEAT + 0.1
    holder = one if one.of("interrupted") else other
    (event,) = holder.of("interrupted")
    assert (event.reason, event.slot) == ("replaced", at(60))
    fleet.until(170)
    assert [(r.slot, r.status) for r in fleet.history()] == [
        (at(120), "success"),
        (at(60), "interrupted"),
    ]
    assert len(handler.began) == 2


def test_a_run_that_ignores_its_cancelling_may_succeed(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 100}, deaf=True)
    handler.told = []

    def deaf(ctx: RunContext) -> None:
        slot = (ctx.slot - at(0)).total_seconds()
        handler.began.append((slot, seconds(fleet.clock), ctx.attempt))
        fleet.nap(handler.lasts.get(slot, 1.0))

    for _ in range(2):
        fleet.instance().every(60, deaf, overlap="cancel", max_late=10)
    fleet.start()
    fleet.until(175)

    assert [(slot, round(when)) for slot, when, _ in handler.began] == [(60, 60), (120, 160)]
    assert [r.status for r in fleet.history()] == ["success", "success"]


def test_a_run_that_is_cancelled_between_its_tries_ends_at_once(fleet: Fleet) -> None:
    calls: list[tuple[float, int]] = []

    def handler(ctx: RunContext) -> None:
        calls.append(((ctx.slot - at(0)).total_seconds(), ctx.retry))
        if ctx.slot == at(60):
            raise ValueError("no")

    one = fleet.instance()
    one.every(60, handler, overlap="cancel", retries=3, backoff=100)
    fleet.start()
    fleet.until(120 + 2 * HEARTBEAT)

    assert calls == [(60, 0), (120, 0)]
    assert [event.reason for event in one.of("interrupted")] == ["replaced"]
    fleet.until(170)  # when its next try would have been
    assert [event.slot for event in one.of("start")] == [at(60), at(120)]


def test_a_cancelled_run_is_not_taken_over(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 500})
    one, other = two(fleet, handler, "cancel")
    fleet.until(119)
    holder = one if one.of("start") else other
    holder.store.cut()
    fleet.until(119 + LEASE + 4 * HEARTBEAT)

    assert begun(handler) == [(60, 1), (120, 1)]
    assert [(r.slot, r.status) for r in fleet.history()][-1] == (at(60), "lost")


def test_after_a_restart_of_all_the_queue_goes_on_where_it_was(fleet: Fleet) -> None:
    """The older run is begun and given back, the newer one waits in the store: nobody is left."""
    handler = Noting(fleet, {60: 30, 120: 5})
    one, other = two(fleet, handler, "queue")
    fleet.until(62)
    holder = one if one.of("start") else other
    fleet.memory.open(fleet.clock)
    fleet.memory.claim(
        [
            Claim("sync", at(120), "x", "x", LEASE, "queue", 3, 1000.0),
        ]
    )
    fleet.memory.close()
    for instance in (one, other):
        instance.scheduler.stop(timeout=1)
    assert holder.of("interrupted")
    fleet.until(130)
    late = fleet.instance()
    late.every(60, handler, overlap="queue", max_late=1, catch_up=0)
    late.start()
    fleet.until(170)

    assert begun(handler) == [(60, 1), (60, 2), (120, 1)]


def test_a_run_is_taken_over_after_a_pause_in_which_a_slot_came_due(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 500})
    one, other = two(fleet, handler, "skip")
    fleet.until(100)
    holder = one if one.of("start") else other
    backup = other if holder is one else one
    backup.scheduler.pause("sync")
    holder.store.cut()
    fleet.until(150)
    backup.scheduler.resume("sync")
    fleet.until(150 + 2 * HEARTBEAT)

    assert begun(handler) == [(60, 1), (60, 2)]


def test_a_slot_waits_on_while_newer_ones_are_too_late(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 130})
    one = fleet.instance()
    one.every(60, handler, overlap="queue", max_late=1)
    fleet.start()
    fleet.until(179)
    one.store.cut("claim")
    fleet.until(184)
    one.store.heal()
    fleet.until(239)

    assert begun(handler) == [(60, 1), (120, 1)]
    assert at(180) in [event.slot for event in one.of("error")]


def test_a_run_is_taken_over_though_a_newer_slot_was_too_late(fleet: Fleet) -> None:
    handler = Noting(fleet, {60: 500})
    one, other = two(fleet, handler, "queue")
    fleet.until(125)
    holder = one if one.of("start") else other
    backup = other if holder is one else one
    holder.store.cut()
    backup.store.cut()
    fleet.until(195)
    backup.store.heal()
    fleet.until(195 + 3 * HEARTBEAT)

    assert begun(handler)[:2] == [(60, 1), (60, 2)]
