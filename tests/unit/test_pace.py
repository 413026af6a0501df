"""How often claims are made: at once alone, and the less often the more others have won."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from store_bench import StoreBench

from leasecron.backends.base import OneUnavailable
from leasecron.model import Claim, ClaimAnswer, Mode
from leasecron.pace import ENOUGH, LONGEST_GAP, REMEMBER, STEP


def claim(
    bench: StoreBench, *, due_ago: float = 0.0, max_late: float = 300.0, mode: Mode = "claim"
) -> Claim:
    """Return a claim of a slot that was due so many seconds ago."""
    slot = bench.clock.now() - timedelta(seconds=due_ago)
    return Claim("job", slot, "token", "me", 20.0, "skip", 3, max_late, mode)


def lose_to(bench: StoreBench, *holders: str) -> None:
    """Lose one run to each of the holders, in calls of a few, and forget the calls."""
    for start in range(0, len(holders), ENOUGH - 1):
        few = holders[start : start + ENOUGH - 1]
        bench.clock.advance(2 * LONGEST_GAP)
        bench.backend.answers["claim"] = partial(_held_by, few)
        bench.submit("claim", *[claim(bench) for _ in few])
        bench.clock.settle()
    bench.backend.answers["claim"] = lose
    bench.backend.asked.clear()


def _held_by(holders: Sequence[str], _claims: Sequence[Any]) -> list[ClaimAnswer]:
    return [ClaimAnswer("running", holder=holder) for holder in holders]


def lose(claims: Sequence[Any]) -> list[ClaimAnswer]:
    """Answer that somebody has done it all, without a name."""
    return [ClaimAnswer("done") for _ in claims]


def rivals(number: int) -> list[str]:
    return [f"rival-{n}" for n in range(number)]


def asked_at(bench: StoreBench) -> list[float]:
    """Return when claims were made."""
    return [asked.at for asked in bench.backend.asked if asked.operation == "claim"]


def waited(bench: StoreBench, *claims: Claim) -> float:
    """Return how long claims wait that are handed over now."""
    now = bench.now()
    bench.submit("claim", *claims)
    bench.clock.advance(5)
    [at] = asked_at(bench)
    assert len(bench.backend.asked[0].items) == len(claims)
    return at - now


def test_an_instance_that_has_lost_to_nobody_never_waits(opened: StoreBench) -> None:
    opened.backend.answers["claim"] = lambda claims: [
        ClaimAnswer("done", holder="me") for _ in claims
    ]
    for _ in range(20):
        opened.submit("claim", claim(opened))
        opened.clock.settle()
    assert asked_at(opened) == [0.0] * 20


@pytest.mark.parametrize(
    ("number", "gap"), [(1, STEP), (10, 10 * STEP), (100, 100 * STEP), (900, LONGEST_GAP)]
)
def test_claims_gather_for_longer_the_more_rivals_there_are(
    opened: StoreBench, number: int, gap: float
) -> None:
    waits = []
    for _ in range(100):
        lose_to(opened, *rivals(number))
        waits.append(waited(opened, claim(opened), claim(opened)))
    assert max(waits) < 2 * gap
    assert 0.8 * gap < sum(waits) / len(waits) < 1.2 * gap


def test_a_claim_after_the_gap_is_made_at_once(opened: StoreBench) -> None:
    lose_to(opened, *rivals(100))
    opened.clock.advance(2 * LONGEST_GAP)
    assert waited(opened, claim(opened)) == 0.0


def test_a_takeover_waits_for_nobody_and_takes_the_others_along(opened: StoreBench) -> None:
    lose_to(opened, *rivals(100))
    claims = claim(opened), claim(opened, mode="takeover"), claim(opened)
    assert waited(opened, *claims) == 0.0


def test_no_slot_waits_until_it_is_late(opened: StoreBench) -> None:
    lose_to(opened, *rivals(200))
    assert waited(opened, claim(opened, max_late=0.2)) == pytest.approx(0.05, abs=0.001)


def test_what_was_due_a_while_ago_has_less_time(opened: StoreBench) -> None:
    lose_to(opened, *rivals(200))
    old = claim(opened, due_ago=9.8, max_late=10.0)
    assert waited(opened, old) == pytest.approx(0.05, abs=0.001)


def test_a_claim_that_is_made_again_waits_no_longer(opened: StoreBench) -> None:
    def one_is_away(claims: Sequence[Any]) -> list[ClaimAnswer]:
        opened.backend.answers["claim"] = lose
        raise OneUnavailable("its folder cannot be read")

    for _ in range(20):
        lose_to(opened, *rivals(200))
        opened.backend.answers["claim"] = one_is_away
        began = opened.now()
        opened.submit("claim", claim(opened, max_late=0.5))
        opened.clock.advance(5)
        first, again = asked_at(opened)
        assert first < again < began + 0.5


def test_a_stop_does_not_wait_for_the_gap(opened: StoreBench) -> None:
    lose_to(opened, *rivals(200))
    dropped: list[Any] = []
    opened.submit("claim", claim(opened))
    opened.queue.drop_claims(dropped.extend)
    opened.close()
    opened.clock.settle()
    assert len(dropped) == 1
    assert len(opened.closed) == 1


def test_other_calls_do_not_wait_for_the_gap(opened: StoreBench) -> None:
    lose_to(opened, *rivals(200))
    opened.submit("claim", claim(opened))
    opened.submit("finish", "run")
    opened.clock.settle()
    assert opened.work() == [("finish", ["run"])]


def test_more_claims_than_one_call_takes_follow_each_other_without_a_gap(
    opened: StoreBench,
) -> None:
    lose_to(opened, *rivals(200))
    opened.submit("claim", *[claim(opened)] * 2500)
    opened.clock.advance(2 * LONGEST_GAP)
    first, *others = asked_at(opened)
    assert others == [first, first]


def test_after_a_call_of_many_claims_the_next_ones_are_made_at_once(opened: StoreBench) -> None:
    lose_to(opened, *rivals(ENOUGH - 1))
    opened.clock.advance(2 * LONGEST_GAP)
    opened.submit("claim", *[claim(opened)] * ENOUGH)
    opened.clock.settle()
    opened.backend.asked.clear()
    assert waited(opened, claim(opened)) == 0.0


def test_a_rival_that_wins_nothing_more_is_forgotten(opened: StoreBench) -> None:
    lose_to(opened, *rivals(100))
    opened.clock.advance(REMEMBER + 1)
    lose_to(opened, "another")
    assert waited(opened, claim(opened)) < 2 * STEP
