"""How many runs an instance takes on, and what becomes of slots that find no room."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

import pytest
from runs_support import SEEDS, Fleet, at, seconds

from leasecron import RunContext
from leasecron.room import CLAIMS
from leasecron.testing import FakeClock


class Live:
    """Counts the bodies that are live at once, and keeps the order of their starts."""

    def __init__(self, fleet: Fleet, length: float) -> None:
        self.fleet = fleet
        self.length = length
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.starts: list[tuple[str, float]] = []

    def __call__(self, ctx: RunContext) -> None:
        who = ctx.instance
        self.starts.append((ctx.job, seconds(self.fleet.clock)))
        self.now[who] = self.now.get(who, 0) + 1
        self.most[who] = max(self.most.get(who, 0), self.now[who])
        self.fleet.nap(self.length)
        self.now[who] -= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_slots_that_find_no_room_are_run_as_runs_end(fleet: Fleet) -> None:
    live = Live(fleet, 5)
    one = fleet.instance(places=2)
    for number in range(7):
        one.every(600, live, name=f"job {number}")
    fleet.start()
    fleet.until(700)
    assert live.most == {"a": 2}
    assert [start for _, start in live.starts] == [600, 600, 605, 605, 610, 610, 615]
    assert len({job for job, _ in live.starts}) == 7
    assert one.of("skip") == []


@pytest.mark.parametrize("seed", SEEDS)
def test_instances_share_what_one_has_no_room_for(fleet: Fleet) -> None:
    live = Live(fleet, 5)
    for _ in range(3):
        instance = fleet.instance(places=2)
        for number in range(12):
            instance.every(600, live, name=f"job {number}")
    fleet.start()
    fleet.until(700)
    assert live.most == {"a": 2, "b": 2, "c": 2}
    # Those who have lost to others ask for some milliseconds later.
    assert sorted(int(start) for _, start in live.starts) == [600] * 6 + [605] * 6
    assert len({job for job, _ in live.starts}) == 12


def test_a_slot_that_waits_for_room_until_it_is_late_is_skipped(fleet: Fleet) -> None:
    live = Live(fleet, 60)
    one = fleet.instance(places=1)
    one.every(600, live, name="long")
    fleet.start()
    fleet.until(590)
    one.every(600, live, name="short", max_late=20, catch_up=0, jitter=1)
    fleet.until(700)
    assert [(s.job, s.reason, s.at) for s in one.of("skip")] == [("short", "late", at(620))]
    assert all(claim.job == "long" for c in one.store.of("claim") for claim in c.items)
    fleet.until(1300)
    assert [job for job, _ in live.starts].count("long") == 2


def test_a_slot_that_another_instance_has_won_meanwhile_is_skipped_as_taken(fleet: Fleet) -> None:
    busy, idle = fleet.instance(places=1), fleet.instance(places=1)
    busy.every(600, lambda: fleet.nap(30), name="long")
    for instance in (busy, idle):
        instance.every(600, lambda: fleet.nap(5), name="short", jitter=1)
    fleet.start()
    fleet.until(625)
    assert busy.told == ["start"]
    fleet.until(631)
    assert [(s.job, s.reason, s.at) for s in busy.of("skip")] == [("short", "taken", at(630))]
    assert [s.job for s in idle.of("start")] == ["short"]


def test_a_takeover_that_finds_no_room_is_made_when_there_is_some(fleet: Fleet) -> None:
    holder, backup = fleet.instance(), fleet.instance(places=1)
    holder.every(600, lambda ctx: ctx.sleep(500))
    holder.start()
    fleet.until(600.5)
    backup.every(600, lambda ctx: ctx.sleep(500))
    backup.every(1, lambda: fleet.nap(40), name="own", overlap="allow", max_late=0.3, catch_up=0)
    backup.start()
    fleet.until(602)
    assert [start.job for start in backup.of("start")] == ["own"]
    holder.store.cut()
    backup.scheduler.remove("own")
    fleet.until(640.9)
    assert len(backup.of("start")) == 1
    fleet.until(645.2)
    assert [(s.job, s.attempt) for s in backup.of("start")[1:]] == [("sync", 2)]


def test_a_lost_claim_gives_its_place_to_the_next(fleet: Fleet) -> None:
    live = Live(fleet, 5)
    winner, loser = fleet.instance(), fleet.instance(places=1)
    loser.store.scripts["claim"] = lambda claims: fleet.nap(0.01)
    for instance in (winner, loser):
        for number in range(5):
            instance.every(600, live, name=f"job {number}")
    fleet.start()
    fleet.until(603)
    assert len(winner.of("start")) == 5
    assert len(loser.of("skip")) == 5


def test_a_zombie_keeps_its_place(fleet: Fleet) -> None:
    live = Live(fleet, 50)
    one = fleet.instance(places=1)
    one.every(600, live, name="zombie", timeout=5)
    fleet.start()
    fleet.until(601)
    one.every(60, live, name="other", catch_up=100, max_late=100)
    fleet.until(649)
    assert [job for job, _ in live.starts] == ["zombie"]
    fleet.until(651)
    assert [job for job, _ in live.starts] == ["zombie", "other"]


def test_a_removed_job_waits_no_more(fleet: Fleet) -> None:
    live = Live(fleet, 50)
    one = fleet.instance(places=1)
    one.every(600, live, name="first")
    one.every(600, live, name="second", jitter=1, max_late=40)
    fleet.start()
    fleet.until(605)
    one.scheduler.remove("second")
    fleet.until(700)
    assert [job for job, _ in live.starts] == ["first"]
    assert [claim.job for call in one.store.of("claim") for claim in call.items] == ["first"]
    assert one.of("skip") == []


def test_a_slot_that_waits_for_room_is_dropped_by_a_stop(fleet: Fleet) -> None:
    live = Live(fleet, 50)
    one = fleet.instance(places=1)
    one.every(600, live, name="first")
    one.every(600, live, name="second", jitter=1, max_late=40)
    fleet.start()
    fleet.until(605)
    assert one.scheduler.stop(timeout=60)
    assert [claim.job for call in one.store.of("claim") for claim in call.items] == ["first"]
    assert one.told == ["start", "success"]


class FullClock(FakeClock):
    """A fake clock on a machine that gives no more workers while ``full``."""

    full = False

    def start_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        if self.full and "worker" in name:
            raise RuntimeError("can't start new thread")
        return super().start_thread(target, name)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_thread_a_won_run_is_released_uncounted_and_taken_again(fleet: Fleet) -> None:
    clock = fleet.clock = FullClock(at(4.5), seed=fleet.clock.seed)
    bodies: list[tuple[datetime, int]] = []
    one = fleet.instance()
    one.every(600, lambda ctx: bodies.append((ctx.slot, ctx.attempt)), max_attempts=1)
    fleet.start()
    clock.full = True
    fleet.until(620)
    assert bodies == []
    errors = one.of("error")
    assert len(errors) >= 4
    assert {(e.operation, e.job, e.slot) for e in errors} == {("start", "sync", at(600))}
    assert all(isinstance(e.exception, RuntimeError) for e in errors)
    assert set(one.told) == {"error"}
    assert {item.counted for call in one.store.of("release") for item in call.items} == {False}
    clock.full = False
    fleet.until(625)
    assert bodies == [(at(600), len(errors) + 1)]
    assert one.told[-2:] == ["start", "success"]
    assert [(r.status, r.attempt) for r in fleet.history()] == [("success", len(errors) + 1)]


def test_an_instance_has_no_more_claims_on_their_way_than_a_batch_holds(fleet: Fleet) -> None:
    one = fleet.instance(places=1000)
    for number in range(1000):
        one.every(600, lambda: None, name=f"job {number}", jitter=0)
    fleet.start()
    sizes: list[int] = []
    claim = one.store.claim
    one.store.claim = lambda claims: sizes.append(len(claims)) or claim(claims)  # type: ignore
    fleet.until(700)
    assert sum(sizes) == 1000
    assert max(sizes) == CLAIMS
    assert len(one.of("success")) == 1000
