"""The store thread's rest before a fork."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from store_bench import StoreBench, raises

from leasecron.clock import Waker
from leasecron.errors import BackendError, BackendUnavailable


def rest(bench: StoreBench) -> Callable[[], None]:
    resumes: list[Callable[[], None]] = []
    bench.queue.rest(resumes)
    (resume,) = resumes
    return resume


class Interrupted:
    """A waker whose reader is interrupted by a signal handler that raises."""

    def __init__(self, waker: Waker) -> None:
        self.put = waker.put

    def get(self, _timeout: float | None = None) -> None:
        raise KeyboardInterrupt


def test_a_wait_for_rest_that_is_interrupted_still_lets_the_thread_go_on(
    opened: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumes: list[Callable[[], None]] = []
    wakers = iter([Interrupted(opened.clock.waker()), opened.clock.waker()])
    with monkeypatch.context() as during:
        during.setattr(opened.clock, "waker", lambda: next(wakers))
        with pytest.raises(KeyboardInterrupt):
            opened.queue.rest(resumes)
    for resume in resumes:
        resume()
    opened.submit("heartbeat", "h")
    opened.clock.settle()
    assert [item for item, _ in opened.replies] == ["h"]


def test_between_rest_and_resume_the_store_is_left_alone(opened: StoreBench) -> None:
    resume = rest(opened)
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
    resume = rest(opened)
    assert opened.now() == 0.5
    assert [operation for operation, _ in opened.work()] == ["heartbeat", "suspend"]
    resume()
    opened.clock.advance(10)
    assert len(opened.replies) == 2501


def test_a_store_that_cannot_be_suspended_rests_all_the_same(
    opened: StoreBench, caplog: pytest.LogCaptureFixture
) -> None:
    opened.backend.before["suspend"] = raises(BackendError("disk I/O error"))
    rest(opened)()
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
    resume = rest(opened)
    assert opened.now() == 10
    assert "did not come to rest" in caplog.text
    resume()
    opened.clock.advance(3600)
    opened.submit("heartbeat", "h")
    opened.clock.settle()
    assert [item for item, _ in opened.replies] == ["c", "h"]


def test_two_forks_in_a_row_and_one_inside_another_are_no_trouble(opened: StoreBench) -> None:
    rest(opened)()
    outer, inner = rest(opened), threading.Event()

    def fork() -> None:
        rest(opened)()
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
    resume = rest(unopened)
    assert unopened.now() == 0
    resume()
    unopened.queue.open()
    unopened.submit("heartbeat", "h")
    unopened.clock.settle()
    assert [item for item, _ in unopened.replies] == ["h"]


def test_a_thread_that_has_ended_is_at_rest(opened: StoreBench) -> None:
    opened.close()
    opened.clock.settle()
    rest(opened)()
    assert opened.now() == 0


def test_a_thread_that_is_opening_its_store_comes_to_rest(unopened: StoreBench) -> None:
    unopened.backend.before["open"] = raises(BackendUnavailable("locked"))
    unopened.clock.start_thread(lambda: unopened.queue.start(unopened.clock.waker()), "starter")
    unopened.clock.advance(1)
    resume = rest(unopened)
    assert unopened.now() < 1.2
    tried = len(unopened.backend.asked)
    unopened.clock.advance(1)
    assert len(unopened.backend.asked) == tried
    resume()
    unopened.backend.before.clear()
    unopened.clock.advance(1)
    assert unopened.backend.opened == 1
