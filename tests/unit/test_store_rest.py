"""The store thread's rest before a fork."""

from __future__ import annotations

import threading

import pytest
from store_bench import StoreBench, raises

from leasecron.errors import BackendError, BackendUnavailable


def test_between_rest_and_resume_the_store_is_left_alone(opened: StoreBench) -> None:
    resume = opened.queue.rest()
    assert opened.now() == 0
    assert opened.work() == [("suspend", [])]
    opened.submit("heartbeat", "h")
    opened.clock.advance(5)
    assert opened.work() == []
    resume()
    opened.clock.settle()
    assert opened.work() == [("heartbeat", ["h"])]


def test_rest_waits_for_the_call_that_is_being_made_and_for_no_other(opened: StoreBench) -> None:
    opened.backend.before = {
        "heartbeat": lambda: opened.sleep(0.5),
        "claim": lambda: opened.sleep(3),
    }
    opened.submit("heartbeat", "h")
    opened.submit("claim", *range(2500))
    opened.clock.advance(0.1)
    resume = opened.queue.rest()
    assert opened.now() == 0.5
    assert [operation for operation, _ in opened.work()] == ["heartbeat", "suspend"]
    resume()
    opened.clock.advance(10)
    assert len(opened.replies) == 2501


def test_a_store_that_cannot_be_suspended_rests_all_the_same(
    opened: StoreBench, caplog: pytest.LogCaptureFixture
) -> None:
    opened.backend.before["suspend"] = raises(BackendError("disk I/O error"))
    opened.queue.rest()()
    opened.submit("heartbeat", "h")
    opened.clock.settle()
    assert [item for item, _ in opened.replies] == ["h"]
    assert "disk I/O error" in caplog.text


def test_a_store_that_hangs_is_told_of_and_not_waited_for_without_end(
    opened: StoreBench, caplog: pytest.LogCaptureFixture
) -> None:
    opened.backend.before["claim"] = lambda: opened.sleep(3600)
    opened.submit("claim", "c")
    opened.clock.settle()
    resume = opened.queue.rest()
    assert opened.now() == 10
    assert "did not come to rest" in caplog.text
    resume()
    opened.clock.advance(3600)
    opened.submit("heartbeat", "h")
    opened.clock.settle()
    assert [item for item, _ in opened.replies] == ["c", "h"]


def test_two_forks_in_a_row_and_one_inside_another_are_no_trouble(opened: StoreBench) -> None:
    opened.queue.rest()()
    outer, inner = opened.queue.rest(), threading.Event()

    def fork() -> None:
        opened.queue.rest()()
        inner.set()

    opened.clock.start_thread(fork, "second forker")
    opened.clock.settle()
    outer()
    opened.clock.settle()
    assert inner.is_set()
    opened.submit("heartbeat", "h")
    opened.clock.settle()
    assert [item for item, _ in opened.replies] == ["h"]


def test_a_thread_that_was_not_started_is_at_rest(unopened: StoreBench) -> None:
    resume = unopened.queue.rest()
    assert unopened.now() == 0
    resume()
    unopened.queue.open()
    unopened.submit("heartbeat", "h")
    unopened.clock.settle()
    assert [item for item, _ in unopened.replies] == ["h"]


def test_a_thread_that_has_ended_is_at_rest(opened: StoreBench) -> None:
    opened.close()
    opened.clock.settle()
    opened.queue.rest()()
    assert opened.now() == 0


def test_a_thread_that_is_opening_its_store_comes_to_rest(unopened: StoreBench) -> None:
    unopened.backend.before["open"] = raises(BackendUnavailable("locked"))
    unopened.clock.start_thread(lambda: unopened.queue.start(unopened.clock.waker()), "starter")
    unopened.clock.advance(1)
    resume = unopened.queue.rest()
    assert unopened.now() < 1.2
    tried = len(unopened.backend.asked)
    unopened.clock.advance(1)
    assert len(unopened.backend.asked) == tried
    resume()
    unopened.backend.before.clear()
    unopened.clock.advance(1)
    assert unopened.backend.opened == 1
