"""The path of one run through one instance, and of one slot through several."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime
from functools import partial

import pytest
from runs_support import SEEDS, Fleet, at

from leasecron import RunContext, RunStarted, RunSucceeded


def test_a_run_goes_from_its_slot_to_its_record(fleet: Fleet) -> None:
    seen: list[RunContext] = []

    def handler(ctx: RunContext) -> None:
        seen.append(ctx)
        ctx.sleep(3)

    one = fleet.instance("one")
    one.every(10, handler)
    fleet.start()
    fleet.until(15)
    (ctx,) = seen
    (result,) = fleet.history()
    assert (ctx.job, ctx.slot, ctx.attempt, ctx.trigger) == ("sync", at(10), 1, "scheduled")
    assert (ctx.instance, ctx.lateness, ctx.signal.reason) == ("one", 0, None)
    assert one.events == [
        RunStarted(
            at=at(10),
            job="sync",
            slot=at(10),
            instance="one",
            attempt=1,
            fence=ctx.fence,
            trigger="scheduled",
            lateness=0.0,
        ),
        RunSucceeded(at=at(13), job="sync", slot=at(10), instance="one", result=result),
    ]
    assert (result.status, result.attempt, result.fence) == ("success", 1, ctx.fence)
    assert (result.started_at, result.ended_at, result.duration) == (at(10), at(13), 3.0)
    assert (result.trigger, result.instance, result.error) == ("scheduled", "one", None)


def test_the_end_is_written_before_the_record_and_the_record_before_the_event(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: None)
    kinds: list[str] = []
    one.scheduler.on("success", lambda _: kinds.append("event"))

    def note(kind: str, _items: list[object]) -> None:
        kinds.append(kind)

    for kind in ("claim", "finish", "save_results"):
        one.store.scripts[kind] = partial(note, kind)
    fleet.start()
    fleet.until(11)
    assert kinds == ["claim", "finish", "save_results", "event"]


def test_the_next_slot_is_armed_before_a_run_begins(fleet: Fleet) -> None:
    armed: list[datetime | None] = []
    one = fleet.instance()
    one.every(10, lambda: armed.append(one.scheduler.jobs["sync"].next_slot))
    fleet.start()
    fleet.until(31)
    assert armed == [at(20), at(30), at(40)]


def test_a_long_run_never_delays_the_schedule(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: fleet.nap(95), overlap="allow")
    fleet.start()
    fleet.until(101)
    starts = one.of("start")
    assert [(event.slot, event.at, event.lateness) for event in starts] == [
        (at(n), at(n), 0) for n in range(10, 101, 10)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_slot_is_run_by_one_instance_and_skipped_by_the_others(fleet: Fleet) -> None:
    bodies: list[tuple[datetime, str]] = []
    for _ in range(3):
        instance = fleet.instance()
        instance.every(10, lambda ctx: bodies.append((ctx.slot, ctx.instance)))
    fleet.start()
    fleet.until(101)
    assert sorted(slot for slot, _ in bodies) == [at(n) for n in range(10, 101, 10)]
    winners = dict(bodies)
    for instance in fleet.instances:
        name = instance.scheduler.instance
        lost = [slot for slot, winner in bodies if winner != name]
        skips = instance.of("skip")
        assert sorted(skip.slot for skip in skips) == sorted(lost)
        assert {skip.reason for skip in skips} <= {"taken"}
        assert all(skip.holder == winners[skip.slot] for skip in skips)
    assert all(result.status == "success" for result in fleet.history())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_start_of_a_run_is_told_before_its_end(fleet: Fleet) -> None:
    one = fleet.instance()
    for name in ("x", "y", "z"):
        one.every(5, lambda: None, name=name)
    fleet.start()
    fleet.until(31)
    order: dict[tuple[str, datetime | None], list[str]] = {}
    for event in one.events:
        order.setdefault((event.job or "", event.slot), []).append(event.name)
    assert len(order) == 18
    assert set(map(tuple, order.values())) == {("start", "success")}


def test_fences_rise_with_every_won_claim(fleet: Fleet) -> None:
    fences: list[int] = []
    for _ in range(2):
        instance = fleet.instance()
        for name in ("x", "y"):
            instance.every(10, lambda ctx: fences.append(ctx.fence), name=name)
    fleet.start()
    fleet.until(101)
    assert len(fences) == len(set(fences)) == 20
    firsts = [result.fence for result in fleet.history("x")]
    assert firsts == sorted(firsts, key=lambda fence: fence or 0, reverse=True)


def test_tokens_are_never_used_twice(fleet: Fleet) -> None:
    tokens: list[str] = []
    one = fleet.instance()
    one.every(1, lambda ctx: tokens.append(ctx.token), lease=1, heartbeat=0.5)
    fleet.start()
    fleet.until(30)
    assert len(set(tokens)) == len(tokens) == 26


def test_a_slot_reached_too_late_is_skipped_without_asking_the_store(fleet: Fleet) -> None:
    bodies = Counter[datetime]()
    one = fleet.instance()
    one.every(100, lambda ctx: bodies.update([ctx.slot]), max_late=30, catch_up=0)
    fleet.start()
    fleet.clock.jump(wall=131.5, monotonic=131.5)  # frozen until 36 s after the slot
    assert [(skip.reason, skip.slot, skip.holder) for skip in one.of("skip")] == [
        ("late", at(100), None)
    ]
    assert one.store.of("claim") == []
    fleet.until(201)
    assert bodies == {at(200): 1}


def test_a_slot_reached_in_time_is_run_late(fleet: Fleet) -> None:
    seen: list[RunContext] = []
    one = fleet.instance()
    one.every(100, seen.append, max_late=30)
    fleet.start()
    fleet.clock.jump(wall=125.5, monotonic=125.5)
    fleet.clock.settle()
    (ctx,) = seen
    assert (ctx.slot, ctx.lateness) == (at(100), 30.0)


def test_lateness_is_judged_before_overlap(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(50, lambda: fleet.nap(200), max_late=10, catch_up=0)
    fleet.start()
    fleet.until(60)
    fleet.clock.jump(wall=51, monotonic=51)
    assert [(skip.slot, skip.reason) for skip in one.of("skip")] == [(at(100), "late")]


def test_a_slot_is_never_late_because_of_its_predecessor(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(10, lambda: fleet.nap(35), max_late=5)
    fleet.start()
    fleet.until(61)
    assert [(skip.slot, skip.reason) for skip in one.of("skip")] == [
        (at(20), "overlap"),
        (at(30), "overlap"),
        (at(40), "overlap"),
        (at(60), "overlap"),
    ]
    assert [start.slot for start in one.of("start")] == [at(10), at(50)]


def test_overlap_allow_lets_runs_of_one_job_live_side_by_side(fleet: Fleet) -> None:
    live: list[int] = []
    most: list[int] = []

    def handler() -> None:
        live.append(1)
        most.append(len(live))
        fleet.nap(25)
        live.pop()

    for _ in range(2):
        fleet.instance().every(10, handler, overlap="allow")
    fleet.start()
    fleet.until(51)
    assert max(most) == 3
    assert all(skip.reason == "taken" for i in fleet.instances for skip in i.of("skip"))


def test_a_lambda_a_closure_and_a_bound_method_of_an_object_with_a_lock_all_run(
    fleet: Fleet,
) -> None:
    class Counting:
        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.count = 0

        def method(self, ctx: RunContext) -> object:
            with self.lock:
                self.count += 1
            return object()

    counting = Counting()
    seen: list[str] = []

    def closure() -> object:
        seen.append("closure")
        return object()

    one = fleet.instance()
    one.every(10, counting.method, name="method")
    one.every(10, closure, name="closure")
    one.every(10, lambda: seen.extend(["lambda"]), name="lambda")
    fleet.start()
    fleet.until(31)
    assert counting.count == 3
    assert (seen.count("lambda"), seen.count("closure")) == (3, 3)
    assert one.told.count("success") == 9


def test_lateness_is_the_time_between_the_slot_and_the_start(fleet: Fleet) -> None:
    late: list[float] = []
    one = fleet.instance()
    one.every(10, lambda ctx: late.append((fleet.clock.now() - ctx.slot).total_seconds()), jitter=4)
    fleet.start()
    fleet.until(205)
    assert len(late) == 20
    assert 0 <= min(late) < max(late) < 4
    assert [start.lateness for start in one.of("start")] == pytest.approx(late, abs=1e-5)
