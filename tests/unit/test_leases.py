"""Heartbeats, how long a lease is trusted, and what its loss means."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from runs_support import HEARTBEAT, LEASE, MARGIN, SEEDS, Fleet, Instance, at, seconds

from leasecron import BackendError, BackendUnavailable, RunAborted, RunContext
from leasecron.lease_runner import LeaseRunner
from leasecron.leases import Lease
from leasecron.model import Claim, Ending, LeaseRef
from leasecron.runs import LiveRun
from leasecron.workers import Workers


class Told:
    """A handler that waits until it is told to end, and notes when and why."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.when: list[tuple[float, str | None, int]] = []

    def __call__(self, ctx: RunContext) -> None:
        ctx.signal.wait()
        self.when.append((seconds(self.fleet.clock), ctx.signal.reason, ctx.attempt))
        ctx.signal.raise_if_set()


def beats(instance: Instance) -> list[float]:
    return [call.at for call in instance.store.of("heartbeat")]


def test_heartbeats_begin_at_the_claim_and_end_when_the_end_is_stored(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(7))
    fleet.start()
    fleet.until(700)
    assert beats(one) == [602, 604, 606]


def test_heartbeats_go_on_while_the_end_cannot_be_stored(fleet: Fleet) -> None:
    bodies: list[object] = []

    def handler(ctx: RunContext) -> None:
        bodies.append(ctx.instance)
        fleet.nap(1)

    for _ in range(2):
        fleet.instance().every(600, handler)
    for instance in fleet.instances:
        instance.store.break_("finish")
    fleet.start()
    fleet.until(600 + 5 * LEASE)
    (holder,) = (instance for instance in fleet.instances if instance.of("start"))
    (backup,) = (instance for instance in fleet.instances if instance is not holder)
    assert beats(holder) == [600 + n * HEARTBEAT for n in range(1, 21)]
    assert holder.told == ["start", "error"]
    holder.store.heal()
    fleet.until(600 + 6 * LEASE)
    assert bodies == [holder.scheduler.instance]
    assert holder.told == ["start", "error", "success"]
    assert backup.told == ["skip"]
    assert max(beats(holder)) <= 641
    (result,) = fleet.history()
    assert (result.status, result.ended_at, result.duration) == ("success", at(601), 1.0)


def test_an_outage_at_the_moment_of_the_end_leads_to_no_second_run(fleet: Fleet) -> None:
    bodies: list[int] = []

    def handler(ctx: RunContext) -> None:
        bodies.append(ctx.attempt)
        fleet.nap(3)
        for instance in fleet.instances:
            instance.store.cut()

    for _ in range(2):
        fleet.instance().every(600, handler)
    fleet.start()
    fleet.until(603 + LEASE - 3)  # the heartbeat at 602 s keeps the lease until 610 s
    for instance in fleet.instances:
        instance.store.heal()
    fleet.until(700)
    assert bodies == [1]
    assert [result.status for result in fleet.history()] == ["success"]


def test_an_end_that_fails_for_good_a_thousand_times_is_stored_in_the_end(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(3600, lambda: None)
    one.store.break_("finish")
    fleet.start()
    fleet.until(3600 + 1500)
    assert one.told == ["start", "error"]
    one.store.heal()
    fleet.until(3600 + 1502)
    assert one.told == ["start", "error", "success"]


@pytest.mark.parametrize("lease", [8.0, 10.0, 20.0, 0.5])
def test_a_lease_is_trusted_from_before_the_claim_until_a_margin_before_its_end(
    fleet: Fleet, lease: float
) -> None:
    told = Told(fleet)
    one = fleet.instance()
    one.every(600, told, lease=lease, heartbeat=lease / 4)
    fleet.start()
    one.store.cut("heartbeat")
    fleet.until(700)
    margin = min(1.0, lease / 10)
    when, reason, attempt = told.when[0]
    assert when == pytest.approx(600 + lease - margin, abs=1e-5)
    assert (reason, attempt) == ("lease-lost", 1)


def test_a_renewed_lease_is_trusted_from_before_the_heartbeat_was_sent(fleet: Fleet) -> None:
    told = Told(fleet)
    one = fleet.instance()
    one.every(600, told)

    def slow(_leases: list[LeaseRef]) -> None:
        if seconds(fleet.clock) > 603:
            raise BackendUnavailable
        fleet.nap(1.5)

    one.store.scripts["heartbeat"] = slow  # sent at 602 s, answered at 603.5 s
    fleet.start()
    fleet.until(620)
    assert told.when[0] == (602 + LEASE - MARGIN, "lease-lost", 1)


def test_one_heartbeat_of_a_run_is_on_its_way_at_a_time(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(40))

    def slow(leases: list[LeaseRef]) -> None:
        assert len(leases) == 1
        fleet.nap(5)

    one.store.scripts["heartbeat"] = slow
    fleet.start()
    fleet.until(639)
    sent = beats(one)
    assert all(after - before >= 5 for before, after in pairwise(sent))
    assert len(sent) >= 6
    assert one.told == ["start"]


def test_heartbeats_that_are_due_together_share_a_call(fleet: Fleet) -> None:
    one = fleet.instance()
    for number in range(50):
        one.every(600, lambda ctx: ctx.sleep(100), name=f"job {number}")
    fleet.start()
    fleet.until(607)
    calls = one.store.of("heartbeat")
    assert [(call.at, len(call.items)) for call in calls] == [(602, 50), (604, 50), (606, 50)]


@pytest.mark.parametrize("seed", range(20))
def test_a_holder_knows_of_its_loss_before_another_can_have_the_run(fleet: Fleet) -> None:
    order: list[int] = []

    def handler(ctx: RunContext) -> None:
        if ctx.attempt > 1:
            order.append(ctx.attempt)
            return
        ctx.signal.wait()
        order.append(ctx.attempt)

    for _ in range(3):
        fleet.instance().every(600, handler)
    fleet.start()
    fleet.until(603)
    (holder,) = (instance for instance in fleet.instances if instance.of("start"))
    holder.store.cut()
    fleet.until(620)
    assert order == [1, 2]


def test_a_token_that_was_replaced_is_a_takeover(fleet: Fleet) -> None:
    told = Told(fleet)
    one = fleet.instance()
    one.every(600, told)
    one.store.scripts["heartbeat"] = lambda leases: ["lost" for _ in leases]
    one.store.scripts["release"] = lambda endings: [False for _ in endings]
    fleet.start()
    fleet.until(603)
    assert told.when == [(602, "takeover", 1)]
    (event,) = one.of("interrupted")
    assert (event.reason, event.result.status) == ("takeover", "interrupted")
    fleet.until(606)
    assert beats(one) == [602]


def test_a_lease_that_ran_out_is_lost_and_counts_as_an_attempt(fleet: Fleet) -> None:
    told = Told(fleet)
    one = fleet.instance()
    one.every(600, told, max_attempts=3)
    one.store.break_("heartbeat")
    fleet.start()
    fleet.until(660)
    assert [(reason, attempt) for _, reason, attempt in told.when] == [
        ("lease-lost", 1),
        ("lease-lost", 2),
        ("lease-lost", 3),
    ]
    endings = [item for call in one.store.of("release") for item in call.items]
    assert [ending.counted for ending in endings] == [True] * 3
    assert [event.reason for event in one.of("interrupted")] == ["lease-lost"] * 3
    assert [r.status for r in fleet.history()] == ["interrupted"] * 3
    assert [start.trigger for start in one.of("start")] == ["scheduled", "takeover", "takeover"]


def test_a_handler_that_returns_although_its_lease_is_lost_has_succeeded_if_nobody_took_it(
    fleet: Fleet,
) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(20))
    one.store.break_("heartbeat")
    fleet.start()
    fleet.until(640)
    assert one.told == ["start", "error", "success"]
    assert [(r.attempt, r.status) for r in fleet.history()] == [(1, "success")]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("end", ["return", "raise"])
def test_a_run_that_was_taken_over_is_interrupted_whatever_its_handler_does(
    fleet: Fleet, end: str
) -> None:
    def handler(ctx: RunContext) -> None:
        fleet.nap(30 if ctx.attempt == 1 else 25)
        if ctx.attempt == 1 and end == "raise":
            raise ValueError("too late")

    for _ in range(2):
        fleet.instance().every(600, handler)
    fleet.start()
    fleet.until(601)
    (holder,) = (instance for instance in fleet.instances if instance.of("start"))
    (backup,) = (instance for instance in fleet.instances if instance is not holder)
    holder.store.cut()
    fleet.until(620)
    assert [start.attempt for start in backup.of("start")] == [2]
    holder.store.heal()
    fleet.until(700)
    (event,) = holder.of("interrupted")
    expected = "takeover" if end == "return" else "lease-lost"
    assert (event.reason, event.result.status, event.result.attempt) == (
        expected,
        "interrupted",
        1,
    )
    assert "success" not in holder.told
    assert "failure" not in holder.told
    assert [(r.attempt, r.status, r.instance) for r in fleet.history()] == [
        (2, "success", backup.scheduler.instance),
        (1, "lost", holder.scheduler.instance),
    ]


def test_an_interrupted_holder_stands_by_for_its_successor(fleet: Fleet) -> None:
    """The run is taken over from a, whose successor b dies as well; a makes the third attempt."""
    a, b = fleet.instance("a"), fleet.instance("b")
    for instance in (a, b):
        instance.every(600, lambda ctx: ctx.sleep(60) if ctx.attempt < 3 else None)
    a.start()
    fleet.until(601)
    a.store.cut()
    b.start()
    fleet.until(620)
    assert [start.attempt for start in b.of("start")] == [2]
    a.store.heal()
    b.store.cut()
    fleet.until(640)
    assert [(start.attempt, start.trigger) for start in a.of("start")] == [
        (1, "scheduled"),
        (3, "takeover"),
    ]


def test_heartbeats_that_fail_are_one_error_for_an_outage(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda ctx: ctx.signal.wait(300), lease=200, heartbeat=2)

    def fails(_leases: list[LeaseRef]) -> Any:
        if 610 < seconds(fleet.clock) < 630 or seconds(fleet.clock) > 650:
            raise BackendError("no")

    one.store.scripts["heartbeat"] = fails
    fleet.start()
    fleet.until(680)
    assert [(e.operation, e.at) for e in one.of("error")] == [
        ("heartbeat", at(612)),
        ("heartbeat", at(652)),
    ]


def test_a_heartbeat_answered_after_the_end_changes_nothing(fleet: Fleet) -> None:
    one = fleet.instance()
    one.every(600, lambda: fleet.nap(2.5))

    def slow(_leases: list[LeaseRef]) -> Any:
        fleet.nap(1)
        return ["lost"]

    one.store.scripts["heartbeat"] = slow
    fleet.start()
    fleet.until(610)
    assert one.told == ["start", "success"]


def test_an_abort_is_raised_out_of_a_sleep(fleet: Fleet) -> None:
    raised: list[tuple[float, object]] = []

    def handler(ctx: RunContext) -> None:
        try:
            ctx.sleep(100)
        except RunAborted as abort:
            raised.append((seconds(fleet.clock), abort.reason))
            raise

    one = fleet.instance()
    one.every(600, handler, max_attempts=1)
    one.store.break_("heartbeat")
    fleet.start()
    fleet.until(620)
    assert raised == [(607.2, "lease-lost")]


def test_trust_is_pure_arithmetic() -> None:
    claim = Claim("job", at(0), "t", "one", 20.0, "skip", 3, 300.0)
    lease = Lease(claim, 5.0, asked_at=100.0)
    assert (lease.trusted(118.9), lease.trusted(119.0)) == (True, False)
    lease.renewed(110.0)
    assert (lease.trusted(128.9), lease.trusted(129.0)) == (True, False)
    assert [lease.beat_due(now) for now in (104.9, 105.0, 107.0, 110.0)] == [
        False,
        True,
        False,
        True,
    ]
    lease.queued = True
    assert not lease.beat_due(200.0)


def test_endings_carry_the_token_of_their_claim(fleet: Fleet) -> None:
    tokens: list[str] = []
    one = fleet.instance()
    one.every(600, lambda ctx: tokens.append(ctx.token))
    fleet.start()
    fleet.until(601)
    (ending,) = one.store.of("finish")[0].items
    assert ending == Ending("sync", at(600), tokens[0], "success")


def test_a_handler_whose_thread_is_long_in_coming_is_not_called_without_its_lease(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    one = fleet.instance()
    one.every(600, lambda: called.append("called"), lease=4, heartbeat=1, max_attempts=1)
    given: list[Callable[[], None]] = []

    def keep(workers: Workers, run: LiveRun) -> None:
        given.append(lambda: workers._call(run))

    with monkeypatch.context() as patched:
        patched.setattr(Workers, "give", keep)
        patched.setattr(LeaseRunner, "_tick", lambda *_: None)  # nor is it told in time
        fleet.start()
        fleet.until(606)
    fleet.clock.start_thread(given[0], "the worker")
    fleet.until(620)
    assert called == []
    (event,) = one.of("interrupted")
    assert event.reason in {"lease-lost", "takeover"}
