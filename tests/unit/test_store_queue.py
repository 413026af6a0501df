"""The store thread: what a pass takes first, in which order, and whom it answers."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from store_bench import StoreBench, did

from leasecron.backends.base import OneUnavailable
from leasecron.calls import ORDER, Kind
from leasecron.errors import BackendUnavailable
from leasecron.passes import BATCH, FAILURES_IN_A_ROW


def test_a_pass_takes_heartbeats_then_ends_then_claims_then_the_rest(opened: StoreBench) -> None:
    for kind in reversed(ORDER):
        opened.submit(kind, kind)
    opened.clock.settle()
    operations = [operation for operation, _ in opened.work()]
    assert operations == [
        "heartbeat",
        "finish",
        "release",
        "retry",
        "claim",
        "save_results",
        "declare",
        "fix",
        "unfinished",
        "history",
    ]
    assert len(opened.replies) == len(ORDER)


def test_one_kind_is_one_call_in_order_of_arrival(opened: StoreBench) -> None:
    for number in range(5):
        opened.submit("claim", f"c{number}")
        opened.submit("heartbeat", f"h{number}")
    opened.clock.settle()
    assert opened.work() == [
        ("heartbeat", [f"h{number}" for number in range(5)]),
        ("claim", [f"c{number}" for number in range(5)]),
    ]


def test_no_call_has_more_than_a_thousand_items(opened: StoreBench) -> None:
    opened.submit("claim", *range(2500))
    opened.clock.settle()
    assert [len(items) for _, items in opened.work()] == [BATCH, BATCH, 500] == [1000, 1000, 500]
    assert opened.replies == did(*range(2500))


def test_heartbeats_do_not_wait_for_more_than_one_batch_of_claims(opened: StoreBench) -> None:
    opened.backend.before["claim"] = lambda: opened.submit("heartbeat", "h")
    opened.submit("claim", *range(2500))
    opened.clock.settle()
    operations = [operation for operation, _ in opened.work()]
    assert operations == ["claim", "heartbeat"] * 3


def test_a_heartbeat_waits_for_no_more_than_the_call_that_is_being_made(opened: StoreBench) -> None:
    kinds: list[Kind] = ["finish", "release", "claim", "save_results", "declare"]
    for kind in kinds:
        opened.backend.before[kind] = partial(opened.submit, "heartbeat", kind)
        opened.submit(kind, kind)
    opened.clock.settle()
    asked = [(operation, items) for operation, items in opened.work()]
    assert asked == [each for kind in kinds for each in ((kind, [kind]), ("heartbeat", [kind]))]


def test_other_calls_are_made_one_by_one(opened: StoreBench) -> None:
    opened.submit("other", "a", "b")
    opened.clock.settle()
    assert opened.work() == [("history", ["a"]), ("history", ["b"])]
    assert opened.replies == [("a", [("did", "a")]), ("b", [("did", "b")])]


def test_unfinished_runs_are_asked_for_once_per_job_and_answered_to_each(
    opened: StoreBench,
) -> None:
    opened.submit("unfinished", "a", "b", "a")
    opened.clock.settle()
    assert opened.work() == [("unfinished", ["a", "b"])]
    answered = [(item, [state.job for state in states]) for item, states in opened.replies]
    assert answered == [("a", ["a"]), ("b", ["b"]), ("a", ["a"])]


def test_an_answer_comes_with_the_time_before_the_call(opened: StoreBench) -> None:
    asked_at: list[float] = []
    opened.backend.before["heartbeat"] = lambda: opened.sleep(2)
    before = opened.clock.monotonic()
    opened.queue.submit("heartbeat", "h", lambda _, at: asked_at.append(at))
    opened.clock.advance(3)
    assert asked_at == [before]


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_wrong_number_of_answers_is_an_error_and_never_mixed_up(
    opened: StoreBench, count: int
) -> None:
    opened.backend.answers["claim"] = lambda items: ["won"] * count
    opened.submit("claim", "a", "b", "c")
    opened.clock.settle()
    assert [type(answer) for _, answer in opened.replies] == [RuntimeError] * 3


def test_claims_that_have_not_been_made_can_be_taken_back(opened: StoreBench) -> None:
    dropped: list[list[Any]] = []
    opened.backend.away.add("claim")
    opened.submit("claim", "a", "b")
    opened.clock.settle()
    opened.submit("claim", "c")
    opened.submit("heartbeat", "h")
    opened.queue.drop_claims(dropped.append)
    opened.submit("claim", "d")
    opened.backend.away.clear()
    opened.clock.advance(5)
    assert dropped == [["c"]]
    assert sorted(opened.replies) == sorted(did("h", "d", "a", "b"))


def test_a_claim_that_may_have_been_won_is_made_once_more_before_it_is_given_up(
    opened: StoreBench,
) -> None:
    dropped: list[list[Any]] = []
    opened.backend.away.add("claim")
    opened.submit("claim", "a", give_up=opened.later(300))
    opened.clock.advance(10)
    opened.work()
    opened.queue.drop_claims(dropped.append)
    opened.clock.advance(10)
    assert dropped == [[]]
    assert opened.work() == [("claim", ["a"])]
    ((item, answer),) = opened.replies
    assert item == "a"
    assert isinstance(answer, BackendUnavailable)


def refusing(opened: StoreBench, *items: str) -> None:
    """Let calls fail for these items alone, while the store can be used."""

    def answer(asked: list[Any]) -> list[Any]:
        if set(items) & set(asked):
            raise OneUnavailable(f"not {items}")
        return [("did", item) for item in asked]

    opened.backend.answers["claim"] = answer


def test_an_item_with_a_fault_of_its_own_holds_up_nothing_else(opened: StoreBench) -> None:
    refusing(opened, "b")
    opened.submit("claim", "a", "b", "c", give_up=opened.later(60))
    opened.submit("save_results", "r")
    opened.clock.settle()
    assert sorted(opened.replies, key=str) == [*did("a", "c"), ("r", None)]
    assert [report[:2] for report in opened.reports] == [("claim", ["b"])]
    opened.clock.advance(5)
    del opened.backend.answers["claim"]
    opened.clock.advance(2)
    assert ("b", ("did", "b")) in opened.replies
    assert len(opened.reports) == 1


def test_an_item_with_a_fault_of_its_own_is_answered_when_its_time_is_up(
    opened: StoreBench,
) -> None:
    refusing(opened, "b")
    opened.submit("claim", "b", give_up=opened.later(10))
    opened.clock.advance(9)
    assert opened.replies == []
    opened.clock.advance(3)
    ((_, answer),) = opened.replies
    assert isinstance(answer, OneUnavailable)


def test_an_item_that_waits_to_be_asked_again_can_be_taken_back(opened: StoreBench) -> None:
    dropped: list[list[Any]] = []
    refusing(opened, "b")
    opened.submit("claim", "b", give_up=opened.later(300))
    opened.clock.advance(9)
    opened.queue.drop_claims(dropped.append)
    opened.clock.advance(3)
    assert [item for item, _ in opened.replies] == ["b"]
    opened.close()
    opened.clock.settle()
    assert opened.closed == [12.0]


def test_a_reply_that_raises_costs_nobody_else_an_answer(
    opened: StoreBench, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_answer: Any, _asked_at: float) -> None:
        raise LookupError("broken")

    opened.submit("claim", "a")
    opened.queue.submit("claim", "broken", broken)
    opened.submit("claim", "b")
    opened.submit("save_results", "r")
    opened.clock.settle()
    assert opened.replies == [*did("a", "b"), ("r", None)]
    assert "LookupError" in caplog.text


def test_many_items_that_fail_alike_do_not_each_cost_a_call_at_once(opened: StoreBench) -> None:
    def full(_items: list[Any]) -> list[Any]:
        raise OneUnavailable("no space left")

    opened.backend.answers["save_results"] = full
    opened.submit("save_results", *range(500))
    opened.submit("claim", "a")
    opened.clock.settle()
    assert len(opened.work()) <= 2 + FAILURES_IN_A_ROW
    assert ("a", ("did", "a")) in opened.replies
    opened.clock.advance(5)
    del opened.backend.answers["save_results"]
    opened.clock.advance(5)
    assert sorted(item for item, _ in opened.replies if item != "a") == [*range(500)]
