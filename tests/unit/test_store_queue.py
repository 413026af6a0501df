"""The store thread: what a pass takes first, in which order, and whom it answers."""

from __future__ import annotations

from typing import Any

import pytest
from store_bench import StoreBench, did

from leasecron.calls import ORDER
from leasecron.store import BATCH


def test_a_pass_takes_heartbeats_then_ends_then_claims_then_the_rest(opened: StoreBench) -> None:
    for kind in reversed(ORDER):
        opened.submit(kind, kind)
    opened.clock.settle()
    operations = [operation for operation, _ in opened.work()]
    assert operations == [
        "heartbeat",
        "finish",
        "release",
        "claim",
        "save_results",
        "declare",
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
    assert dropped == [["a", "b", "c"]]
    assert opened.replies == did("h", "d")


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
