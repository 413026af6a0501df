"""Leases under clocks that step and observers that do not share them."""

from __future__ import annotations

import pytest

from contract.driver import LEASE, Driver

STEPS = {"-30 s": -30.0, "-2 h": -7200.0, "+8 h": 28_800.0, "+10 years": 315_576_000.0}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_step_of_the_wall_clock_does_not_end_a_lease(store: Driver, step: float) -> None:
    store.win(0, "a")
    store.clock.step(step)

    assert store.claim(0, "b").outcome == "running"
    assert store.claim(0, "a").outcome == "won"
    assert store.unfinished()[0].alive
    assert store.heartbeat(0, "a") == "ok"


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_step_of_the_wall_clock_makes_no_lease_longer(store: Driver, step: float) -> None:
    store.win(0, "a")
    store.clock.step(step)
    store.clock.advance(LEASE)

    assert store.heartbeat(0, "a") == "lost"
    assert store.take_over(0, "b").attempt == 2


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_lease_renewed_after_a_step_holds_after_the_step_back(store: Driver, step: float) -> None:
    store.win(0, "a")
    store.clock.step(step)
    store.heartbeat(0, "a")
    store.clock.step(-step)
    store.clock.advance(LEASE - 1)

    assert store.claim(0, "b").outcome == "running"
    store.clock.advance(1)
    assert store.claim(0, "b").outcome == "won"


@pytest.mark.parametrize("boot", ["boot-a/ns-1", None], ids=["one boot", "no name"])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_lease_that_was_ended_stays_so_whatever_the_clock_says(
    store: Driver, step: float, boot: str | None
) -> None:
    store.clock.boot = boot
    store.win(0, "a")
    store.finish(0, "a")
    store.win(1, "b", max_late=1e9)
    store.release(1, "b")
    store.clock.step(step)

    assert store.heartbeat(0, "a") == "lost"
    assert store.heartbeat(1, "b") == "lost"
    assert store.claim(2, "c", max_late=1e9).outcome == "won"


def test_a_suspend_does_not_end_a_lease(store: Driver) -> None:
    store.win(0, "a")
    store.clock.step(28_800)  # asleep: the monotonic clock stood still

    assert store.heartbeat(0, "a") == "ok"


def test_slots_that_ran_are_done_after_the_clock_was_set_back(store: Driver) -> None:
    for slot in (0, 10, 20):
        store.win(slot, "a")
        store.finish(slot, "a")
        store.clock.advance(10)
    store.clock.step(-30)

    assert [store.claim(slot, "b").outcome for slot in (0, 10, 20)] == ["done"] * 3
    assert store.claim(-10, "b").outcome == "won"


def test_another_time_namespace_of_the_same_boot_judges_by_the_wall_clock(store: Driver) -> None:
    store.win(0, "a")
    with store.clock.seen_by(boot="boot-a/ns-2", uptime=-4000):
        assert store.claim(0, "b").outcome == "running"
    store.clock.advance(LEASE)
    with store.clock.seen_by(boot="boot-a/ns-2", uptime=-4000):
        assert store.claim(0, "b").outcome == "won"


def test_a_lease_of_an_earlier_boot_is_over(store_without_server: Driver) -> None:
    store = store_without_server
    store.win(0, "a")
    with store.clock.seen_by(boot="boot-b/ns-1", uptime=-4900):
        answer = store.take_over(0, "b")

    assert (answer.outcome, answer.attempt) == ("won", 2)
    assert store.heartbeat(0, "a") == "lost"


@pytest.mark.parametrize(("holder", "observer"), [(None, "boot-a/ns-1"), ("boot-a/ns-1", None)])
def test_where_a_boot_has_no_name_the_wall_clock_decides(
    store: Driver, holder: str | None, observer: str | None
) -> None:
    with store.clock.seen_by(boot=holder):
        store.win(0, "a")
    with store.clock.seen_by(boot=observer, uptime=1e6):
        assert store.claim(0, "b").outcome == "running"
    store.clock.advance(LEASE)
    with store.clock.seen_by(boot=observer, uptime=-4000):
        assert store.claim(0, "b").outcome == "won"


def test_a_heartbeat_takes_the_lease_into_the_holders_own_boot(store: Driver) -> None:
    with store.clock.seen_by(boot="boot-a/ns-2"):
        store.win(0, "a")
    assert store.heartbeat(0, "a") == "ok"
    store.clock.step(28_800)

    assert store.claim(0, "b").outcome == "running"


def test_an_observer_that_sees_a_lease_as_over_ends_it_for_all(
    store_without_server: Driver,
) -> None:
    store = store_without_server
    store.win(0, "a")
    with store.clock.seen_by(boot="boot-a/ns-2", wall=LEASE):
        store.win(10, "b")
        assert store.heartbeat(10, "b") == "ok"

    assert store.heartbeat(0, "a") == "lost"
    assert store.finish(0, "a") is False
    assert [status for _fence, status in store.statuses()] == ["lost"]
