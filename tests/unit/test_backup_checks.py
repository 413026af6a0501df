"""One check for all watched runs of a heartbeat, whenever each of them began to be watched."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise

import pytest
from fake_instances import Once
from runs_support import HEARTBEAT, LEASE, SEEDS, Fleet, Instance, at

from leasecron import BackendUnavailable, RunContext
from leasecron.model import Claim, LeaseState

NAP = 0.001
"""How much later than the holder the backup claims."""


def pair(fleet: Fleet, slots: Iterable[float], *, places: int = 200) -> tuple[Instance, Instance]:
    """Return a holder of one run for each slot, and an instance that stands by for all of them."""
    holder, backup = fleet.instance("holder"), fleet.instance("backup", places=places)

    def wait(claims: list[Claim]) -> None:
        if claims[0].mode == "claim":
            fleet.nap(NAP)

    backup.store.scripts["claim"] = wait
    for instance in (holder, backup):
        for number, slot in enumerate(slots):
            instance.scheduler.add(f"job {number}", Once(at(slot)), hold)
    fleet.start()
    return holder, backup


def hold(ctx: RunContext) -> None:
    """Run until it is told to end."""
    ctx.sleep(10_000)


def moments(backup: Instance, operation: str = "claim") -> list[float]:
    """Return when the backup made checks of one kind."""
    return [call.at for call in backup.store.of(operation, "takeover")]


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_runs_that_began_at_different_times_share_their_checks(fleet: Fleet) -> None:
    slots = [600 + number * 0.37 for number in range(40)]
    _, backup = pair(fleet, slots)
    fleet.until(700)
    checks = moments(backup)
    assert all(after - before >= HEARTBEAT for before, after in pairwise(checks))
    for slot in slots:
        gaps = [
            after - before for before, after in pairwise([slot, *backup.store.checks(at(slot))])
        ]
        assert min(gaps) >= HEARTBEAT
        assert max(gaps) <= 2 * HEARTBEAT + 10 * NAP
    late = [call.items for call in backup.store.of("claim", "takeover") if call.at > 630]
    assert {len(claims) for claims in late} == {40}


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_the_number_of_checks_does_not_grow_with_the_number_of_runs(fleet: Fleet) -> None:
    _, backup = pair(fleet, [600] * 150)
    fleet.until(800)
    checks = moments(backup)
    assert 200 / (2 * HEARTBEAT) - 1 <= len(checks) <= 200 / HEARTBEAT
    assert len(set(checks)) == len(checks)


def test_checks_of_several_instances_come_at_different_moments(fleet: Fleet) -> None:
    others = [fleet.instance() for _ in range(3)]
    for other in others:
        other.scheduler.add("job 0", Once(at(600)), hold)
    pair(fleet, [600])
    fleet.until(700)
    checks = [moment for instance in fleet.instances for moment in moments(instance)]
    assert len(checks) > 100
    assert len(set(checks)) == len(checks)


@pytest.mark.parametrize("seed", SEEDS[:3])
@pytest.mark.parametrize("places", [1, 7, 30])
def test_where_there_is_no_room_for_all_checks_at_once_the_others_follow(
    fleet: Fleet, places: int
) -> None:
    _, backup = pair(fleet, [600] * 30, places=places)
    fleet.until(700)
    calls = backup.store.of("claim", "takeover")
    assert max(len(call.items) for call in calls) == places
    for number in range(30):
        job = f"job {number}"
        checks = [call.at for call in calls if job in [claim.job for claim in call.items]]
        gaps = [after - before for before, after in pairwise([600, *checks])]
        assert min(gaps) >= HEARTBEAT
        assert max(gaps) <= 2 * HEARTBEAT + 30 * 2 * NAP


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_an_instance_whose_room_is_taken_checks_again_when_it_has_room(fleet: Fleet) -> None:
    holder, backup = pair(fleet, [600] * 10, places=3)
    for name in ("x", "y", "z"):
        backup.scheduler.add(name, Once(at(605)), lambda: fleet.nap(30))
    fleet.until(606)
    holder.store.cut()
    fleet.until(634)
    assert len(backup.of("start")) == 3
    assert all(call.at < 606 for call in backup.store.of("claim", "takeover"))
    fleet.until(635 + 2 * HEARTBEAT)
    assert [start.trigger for start in backup.of("start")[3:]] == ["takeover"] * 3


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_runs_of_a_holder_that_is_gone_are_taken_over_in_time_whenever_they_began(
    fleet: Fleet,
) -> None:
    slots = [600 + number * 0.61 for number in range(30)]
    holder, backup = pair(fleet, slots)
    fleet.until(619)
    holder.store.cut()
    fleet.until(640)
    begun = backup.of("start")
    assert {start.slot for start in begun} == {at(slot) for slot in slots}
    until = at(619 + LEASE + 2 * HEARTBEAT + 10 * NAP)
    assert all(start.at <= until and start.trigger == "takeover" for start in begun)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_a_store_that_takes_longer_than_a_heartbeat_is_not_asked_at_once_again(
    fleet: Fleet,
) -> None:
    _, backup = pair(fleet, [600, 600, 600])
    fleet.until(602)
    backup.store.scripts["claim"] = lambda _: fleet.nap(3 * HEARTBEAT)
    fleet.until(1000)
    checks = [call.at for call in backup.store.of("claim", "takeover") if call.at > 610]
    pauses = [after - before - 3 * HEARTBEAT for before, after in pairwise(checks)]
    assert len(pauses) > 40
    assert max(pauses) <= HEARTBEAT
    assert sum(pauses) / len(pauses) > HEARTBEAT / 4


def looks_and_claims(fleet: Fleet) -> Instance:
    """Return a backup of ten runs: of five a newer slot is due, and nobody was seen to skip it."""
    _, backup = pair(fleet, [600] * 5)
    for instance in fleet.instances:
        for number in range(5):
            instance.scheduler.add(f"newer {number}", Newer(), hold)
    fleet.clock.settle()
    fleet.until(605)
    Newer.due = True
    fleet.until(610)
    return backup


class Newer:
    """Due at 600 s; once ``due`` is set also at 604 s, for which no timer was armed."""

    due = False

    def next_after(self, t: datetime, /) -> datetime | None:
        return at(600) if t < at(600) else None

    def latest_at(self, t: datetime, /) -> datetime | None:
        if self.due and t >= at(604):
            return at(604)
        return at(600) if t >= at(600) else None


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_runs_to_be_looked_at_and_runs_to_be_taken_over_are_two_calls_of_one_check(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Newer, "due", False)
    backup = looks_and_claims(fleet)
    fleet.until(700)
    claims = [call for call in backup.store.of("claim", "takeover") if call.at > 610]
    looks = [call for call in backup.store.of("unfinished") if call.at > 610]
    assert {len(call.items) for call in [*claims, *looks]} == {5}
    assert [call.at for call in claims] == [call.at for call in looks]
    assert all(after.at - before.at >= HEARTBEAT for before, after in pairwise(looks))


def test_a_look_that_fails_is_told_once_and_made_again_at_the_next_check(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Newer, "due", False)
    backup = looks_and_claims(fleet)
    backup.store.break_("claim", "unfinished")
    fleet.until(630)
    assert [event.operation for event in backup.of("error")] == ["claim"]
    backup.store.heal()
    fleet.until(640)

    def ended(_jobs: list[str]) -> list[LeaseState]:
        return []

    backup.store.scripts["unfinished"] = ended
    fleet.until(650)
    backup.store.heal()
    looks = len(backup.store.of("unfinished"))
    fleet.until(700)
    assert len(backup.store.of("unfinished")) == looks  # they are watched no more


@pytest.mark.parametrize("seed", SEEDS)
def test_a_takeover_whose_answer_was_lost_is_won_by_the_next_check(fleet: Fleet) -> None:
    attempts: list[tuple[int, object]] = []
    holder, backup = fleet.instance("holder"), fleet.instance("backup")

    def handler(ctx: RunContext) -> None:
        attempts.append((ctx.attempt, fleet.clock.now()))
        ctx.sleep(10_000)

    holder.every(600, handler, max_attempts=2)
    holder.start()
    fleet.until(601)
    backup.every(600, handler, max_attempts=2)
    backup.start()
    fleet.until(602)
    holder.store.cut()

    def made_and_lost(claims: list[Claim]) -> None:
        answers = backup.store.inner.claim(claims)
        if answers[0].outcome == "won":
            del backup.store.scripts["claim"]
            raise BackendUnavailable("the connection was cut")

    backup.store.scripts["claim"] = made_and_lost
    # Its claims were answered until a lease after the crash, so the next check is of a won run.
    fleet.until(602 + LEASE + 4 * HEARTBEAT + 1)
    assert [attempt for attempt, _ in attempts] == [1, 2]
    assert [(r.attempt, r.status) for r in fleet.history()] == [(1, "lost")]
