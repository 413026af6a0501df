"""Slots that are still to come by the clock of a server, which alone decides."""

from __future__ import annotations

from contract.driver import LEASE, Driver, a_claim, at
from leasecron.model import ClaimAnswer


def test_a_slot_more_than_a_second_ahead_is_early(store_in_server: Driver) -> None:
    store = store_in_server

    assert store.claim(5, "a") == ClaimAnswer("early", wait=5.0)
    assert store.claim(1.001, "a") == ClaimAnswer("early", wait=1.001)
    assert store.claim(1, "a").outcome == "won"


def test_an_early_claim_decides_nothing(store_in_server: Driver) -> None:
    store = store_in_server
    store.claim(5, "a")

    assert store.unfinished() == []
    assert store.take_over(5, "b") == ClaimAnswer("none")
    store.clock.advance(4)
    assert store.claim(5, "b").attempt == 1
    assert store.claim(5, "a").outcome == "running"


def test_whoever_asks_again_after_the_wait_wins(store_in_server: Driver) -> None:
    store = store_in_server
    wait = store.claim(3600, "a").wait
    assert wait == 3600.0
    store.clock.advance(wait)

    assert store.claim(3600, "a", max_late=0.0).outcome == "won"


def test_early_is_asked_before_overlap(store_in_server: Driver) -> None:
    store = store_in_server
    store.win(0, "a")

    assert store.claim(10, "b") == ClaimAnswer("early", wait=10.0)
    store.clock.advance(10)
    assert store.claim(10, "b").outcome == "overlap"


def test_a_run_that_somebody_began_is_not_early(store_in_server: Driver) -> None:
    store = store_in_server
    store.win(1, "a")
    store.clock.advance(-1)  # the clock of the server was set back

    assert store.claim(1, "b").outcome == "running"
    store.clock.advance(-LEASE)
    store.finish(1, "a")
    assert store.claim(1, "b").outcome == "done"


def test_early_claims_of_a_call_are_early_alone(store_in_server: Driver) -> None:
    store = store_in_server
    claims = [a_claim(slot, f"t{slot}", job=f"job-{slot}") for slot in (0, 60, 1, 2, -301)]

    answers = store.backend.claim(claims)

    assert [answer.outcome for answer in answers] == ["won", "early", "won", "early", "late"]
    assert [answer.wait for answer in answers] == [None, 60.0, None, 2.0, None]


def test_a_store_without_a_server_has_the_clock_of_who_asks(store_without_server: Driver) -> None:
    store = store_without_server
    answer = store.claim(3600, "a")

    assert (answer.outcome, answer.wait) == ("won", None)
    assert store.unfinished()[0].slot == at(3600)
