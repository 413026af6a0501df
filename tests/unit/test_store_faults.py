"""What the store thread does about a store that is away, and about errors of single items."""

from __future__ import annotations

import string
from itertools import pairwise
from typing import Any

import pytest
from store_bench import StoreBench, did

from leasecron.errors import BackendError, BackendUnavailable
from leasecron.outages import MOST_REASONS


def test_a_store_that_is_away_ends_the_pass_and_the_next_begins_with_heartbeats(
    opened: StoreBench,
) -> None:
    opened.backend.away.add("claim")
    opened.submit("heartbeat", "h1")
    opened.submit("claim", "c1", "c2")
    opened.submit("save_results", "r")
    opened.clock.settle()
    assert opened.work() == [("heartbeat", ["h1"]), ("claim", ["c1", "c2"])]
    opened.submit("heartbeat", "h2")
    opened.submit("claim", "c3")
    opened.clock.settle()
    assert opened.work() == []  # a delay comes first
    opened.backend.away.clear()
    opened.clock.advance(0.1)
    assert opened.work() == [
        ("heartbeat", ["h2"]),
        ("claim", ["c1", "c2", "c3"]),
        ("save_results", ["r"]),
    ]
    assert opened.replies == [*did("h1", "h2", "c1", "c2", "c3"), ("r", None)]


def test_the_delay_grows_to_a_second_and_begins_anew_after_a_success(opened: StoreBench) -> None:
    opened.backend.away.add("heartbeat")
    opened.submit("heartbeat", "h")
    opened.clock.advance(10)
    times = [call.at for call in opened.backend.asked if call.operation == "heartbeat"]
    pauses = [after - before for before, after in pairwise(times)]
    longest = [0.05, 0.1, 0.2, 0.4, 0.8, *[1.0] * (len(pauses) - 5)]
    assert len(pauses) >= 12
    for pause, most in zip(pauses, longest, strict=True):
        assert 0.499 * most < pause < 1.001 * most
    assert len({round(pause, 3) for pause in pauses[5:]}) > 3  # no two instances ask in step
    opened.backend.away.clear()
    opened.clock.advance(1)
    opened.backend.away.add("heartbeat")
    opened.backend.asked.clear()
    opened.submit("heartbeat", "h")
    opened.clock.advance(0.06)
    assert len(opened.backend.asked) >= 2


def test_an_outage_is_reported_once_for_each_kind(opened: StoreBench) -> None:
    opened.backend.away |= {"heartbeat", "claim"}
    opened.submit("claim", "c")
    opened.clock.advance(20)
    opened.submit("heartbeat", "h1", "h2")
    opened.clock.advance(20)
    assert [(operation, items) for operation, items, _ in opened.reports] == [
        ("claim", ["c"]),
        ("heartbeat", ["h1", "h2"]),
    ]
    opened.backend.away.clear()
    opened.clock.advance(1)
    opened.backend.away.add("claim")
    opened.submit("claim", "c")
    opened.clock.advance(20)
    assert [operation for operation, _, _ in opened.reports] == ["claim", "heartbeat", "claim"]


def test_another_reason_in_the_same_outage_is_told_too(opened: StoreBench) -> None:
    reasons = iter(["connection 7 lost", "connection 8 lost", "password is wrong", "lost again"])

    def fail() -> None:
        raise BackendUnavailable(next(reasons, "password is wrong"))

    opened.backend.before["claim"] = fail
    opened.submit("claim", "c")
    opened.clock.advance(60)
    assert [operation for operation, _, _ in opened.reports] == ["claim"] * 3


def test_not_every_text_of_an_outage_is_a_reason(opened: StoreBench) -> None:
    texts = iter(string.ascii_letters)

    def fail() -> None:
        raise BackendUnavailable(f"the answer is {next(texts)}")

    opened.backend.before["claim"] = fail
    opened.submit("claim", "c")
    opened.clock.advance(30)
    assert len(opened.reports) == MOST_REASONS


def test_an_outage_that_flickers_is_reported_every_five_seconds_at_most(opened: StoreBench) -> None:
    for number in range(200):
        opened.backend.away.add("claim")
        opened.submit("claim", number)
        opened.clock.settle()
        opened.backend.away.clear()
        opened.clock.advance(0.1)
    assert len(opened.replies) == 200
    times = [at for _, _, at in opened.reports]
    assert 3 <= len(times) <= 5
    assert min(after - before for before, after in pairwise(times)) >= 5


def test_a_fault_is_the_answer_once_it_is_time_to_give_up(opened: StoreBench) -> None:
    opened.backend.away |= {"heartbeat", "claim"}
    opened.submit("claim", "gives up", give_up=opened.later(3))
    opened.submit("heartbeat", "h")  # fails first, so the claims behind it are not even tried
    opened.submit("claim", "does not")
    opened.clock.advance(2.9)
    assert opened.replies == []
    opened.clock.advance(1.2)
    assert [item for item, _ in opened.replies] == ["gives up"]
    assert isinstance(opened.replies[0][1], BackendUnavailable)
    opened.backend.away.clear()
    opened.clock.advance(1)
    assert opened.replies[1:] == did("h", "does not")


def test_a_call_that_gives_up_at_the_first_fault_is_made_all_the_same(opened: StoreBench) -> None:
    opened.backend.away.add("claim")
    opened.submit("claim", "first", give_up=opened.later(0))
    opened.clock.advance(5)
    assert [type(answer) for _, answer in opened.replies] == [BackendUnavailable]
    opened.backend.away.clear()
    opened.submit("claim", "second", give_up=opened.later(0))
    opened.clock.settle()
    assert opened.replies[1:] == did("second")


@pytest.mark.parametrize("kind", ["heartbeat", "claim", "save_results", "declare"])
def test_any_other_error_goes_to_the_guilty_item_alone(opened: StoreBench, kind: Any) -> None:
    opened.backend.guilty.add("bad")
    opened.submit(kind, "a", "bad", "b")
    opened.clock.settle()
    assert opened.work() == [(kind, ["a", "bad", "b"])] + [(kind, [i]) for i in ("a", "bad", "b")]
    answers = dict(opened.replies)
    assert isinstance(answers.pop("bad"), BackendError)
    assert set(answers) == {"a", "b"}
    assert not any(isinstance(answer, Exception) for answer in answers.values())


def test_items_tried_one_by_one_keep_their_order_when_the_store_goes_away(
    opened: StoreBench,
) -> None:
    def fail_once() -> None:
        if opened.backend.asked[-1].items == [2]:
            opened.backend.before.clear()
            opened.backend.away.add("claim")

    opened.backend.before["claim"] = fail_once
    opened.backend.guilty.add(4)
    opened.submit("claim", *range(1, 1003))  # more than one call holds
    opened.clock.settle()
    assert opened.replies == did(1)
    opened.work()
    opened.backend.away.clear()
    opened.clock.advance(1)
    assert opened.work()[0] == ("claim", [*range(2, 1002)])
    assert [item for item, _ in opened.replies] == [*range(1, 1003)]


@pytest.mark.parametrize("kind", ["finish", "release"])
def test_an_end_is_tried_again_after_every_error_until_it_is_stored(
    opened: StoreBench, kind: Any
) -> None:
    opened.backend.guilty.add("bad")
    opened.submit(kind, "good", "bad")
    opened.clock.advance(3600)
    assert opened.replies == did("good")
    assert [items for _, items, _ in opened.reports] == [["bad"]]
    assert len(opened.work()) < 3700  # about one try a second
    opened.backend.guilty.clear()
    opened.clock.advance(1)
    assert opened.replies == did("good", "bad")


def test_an_end_that_fails_holds_up_nothing_else(opened: StoreBench) -> None:
    opened.backend.guilty.add("bad")
    opened.submit("finish", "bad")
    opened.submit("claim", "c1")
    opened.clock.settle()
    opened.submit("claim", "c2")
    opened.clock.settle()
    assert opened.replies == did("c1", "c2")
