"""The store thread's beginning and end, and questions that are put to it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from store_bench import StoreBench, raises

from leasecron.calls import Kind
from leasecron.errors import BackendError, BackendUnavailable, SchedulerStateError
from leasecron.store import OPEN_WAIT


def test_a_store_that_opens_at_once_delays_nobody(unopened: StoreBench) -> None:
    unopened.queue.open()
    assert unopened.now() == 0
    assert unopened.backend.opened == 1


def test_a_store_that_cannot_be_used_is_the_error_of_open(unopened: StoreBench) -> None:
    unopened.backend.before["open"] = raises(BackendError("not a database"))
    with pytest.raises(BackendError, match="not a database"):
        unopened.queue.open()
    assert unopened.now() == 0
    unopened.clock.settle()
    assert unopened.queue.ended


def test_a_store_that_is_away_is_tried_again_for_some_seconds(unopened: StoreBench) -> None:
    unopened.backend.before["open"] = raises(BackendUnavailable("locked"))
    with pytest.raises(BackendUnavailable, match="locked"):
        unopened.queue.open()
    assert 3 < unopened.now() <= OPEN_WAIT
    assert len(unopened.backend.asked) < 60
    unopened.clock.settle()
    assert unopened.queue.ended


def test_a_store_that_comes_back_in_time_is_opened(unopened: StoreBench) -> None:
    def locked_for_two_seconds() -> None:
        if unopened.now() < 2:
            raise BackendUnavailable("locked")

    unopened.backend.before["open"] = locked_for_two_seconds
    unopened.queue.open()
    assert 2 <= unopened.now() < 2.2
    assert unopened.backend.opened == 1


def test_a_store_that_takes_three_seconds_is_waited_for(unopened: StoreBench) -> None:
    unopened.backend.before["open"] = lambda: unopened.sleep(3)
    unopened.queue.open()
    assert unopened.now() == 3


def test_a_store_that_never_answers_is_given_up_and_closed_when_it_does(
    unopened: StoreBench,
) -> None:
    unopened.backend.before["open"] = lambda: unopened.sleep(3600)
    with pytest.raises(BackendUnavailable, match=r"obedient:// did not open within 5 s"):
        unopened.queue.open()
    assert unopened.now() == OPEN_WAIT == 5
    assert [call.operation for call in unopened.backend.asked] == ["open"]
    unopened.clock.advance(3600)
    assert unopened.queue.ended
    assert [call.operation for call in unopened.backend.asked] == ["open", "close"]


def test_where_no_thread_can_be_had_open_raises(
    unopened: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(unopened.clock, "start_thread", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        unopened.queue.open()
    assert unopened.queue.ended


def test_closing_waits_for_ends_and_results_and_for_nothing_else(opened: StoreBench) -> None:
    opened.backend.away |= {"finish", "claim"}
    for kind, item in (("finish", "f"), ("release", "l"), ("save_results", "r"), ("claim", "c")):
        opened.submit(kind, item)  # type: ignore[arg-type]
    opened.close()
    opened.clock.advance(600)
    assert opened.closed == []
    opened.backend.away.remove("finish")
    opened.backend.asked.clear()
    opened.clock.advance(1)
    assert [call.operation for call in opened.backend.asked][:3] == ["finish", "release", "claim"]
    assert opened.closed == []  # the result waits behind the claims
    opened.backend.away.clear()
    opened.clock.advance(1)
    assert len(opened.closed) == 1
    assert [item for item, _ in opened.replies] == ["f", "l", "c", "r"]


@pytest.mark.parametrize("kind", ["finish", "release", "save_results"])
def test_closing_waits_for_what_must_be_stored_though_it_is_alone(
    opened: StoreBench, kind: Kind
) -> None:
    opened.backend.away.add(kind)
    opened.submit(kind, "item")
    opened.close()
    opened.clock.advance(60)
    assert opened.closed == []
    opened.backend.away.clear()
    opened.clock.advance(2)
    assert len(opened.closed) == 1


def test_closing_does_not_wait_for_a_claim(opened: StoreBench) -> None:
    opened.backend.away |= {"claim", "heartbeat", "unfinished"}
    opened.submit("claim", "c")
    opened.submit("heartbeat", "h")
    opened.submit("unfinished", "u")
    opened.clock.advance(10)
    opened.close()
    opened.clock.settle()
    assert len(opened.closed) == 1
    assert opened.queue.ended


def test_an_end_that_fails_for_good_is_waited_for_too(opened: StoreBench) -> None:
    opened.backend.guilty.add("f")
    opened.submit("finish", "f")
    opened.close()
    opened.clock.advance(60)
    assert opened.closed == []
    opened.backend.guilty.clear()
    opened.clock.advance(2)
    assert len(opened.closed) == 1


def test_a_store_that_cannot_be_closed_ends_the_thread_all_the_same(opened: StoreBench) -> None:
    opened.backend.before["close"] = raises(BackendError("disk I/O error"))
    opened.close()
    opened.clock.settle()
    assert len(opened.closed) == 1
    opened.backend.opened = 0


def test_a_question_is_answered_in_the_store_thread(opened: StoreBench) -> None:
    def where(_backend: Any) -> str:
        return threading.current_thread().name

    assert opened.queue.ask("history", where, 5) == "leasecron-store"


def test_a_question_raises_what_its_function_raised(opened: StoreBench) -> None:
    opened.backend.guilty.add("bad")
    with pytest.raises(BackendError, match="cannot hold"):
        opened.queue.ask("history", lambda backend: backend.history(["bad"]), 5)


def test_a_question_to_a_store_that_is_away_is_given_up_in_time(opened: StoreBench) -> None:
    opened.backend.away.add("history")
    with pytest.raises(BackendUnavailable):
        opened.queue.ask("history", lambda backend: backend.history(["x"]), 5)
    assert 5 <= opened.now() <= 6


def test_a_question_to_a_store_that_comes_back_is_answered(opened: StoreBench) -> None:
    def away_for_two_seconds() -> None:
        if opened.now() < 2:
            raise BackendUnavailable("locked")

    opened.backend.before["history"] = away_for_two_seconds
    answer = opened.queue.ask("history", lambda backend: backend.history(["x"]), 5)
    assert answer == [("did", "x")]
    assert 2 <= opened.now() <= 3


def test_a_question_to_a_store_that_hangs_is_given_up_in_time(opened: StoreBench) -> None:
    opened.backend.before["history"] = lambda: opened.sleep(3600)
    with pytest.raises(BackendUnavailable, match="did not answer history within 5 s"):
        opened.queue.ask("history", lambda backend: backend.history(["x"]), 5)
    assert opened.now() == 6
    opened.clock.advance(3600)


def test_a_question_after_the_end_is_refused(opened: StoreBench) -> None:
    opened.close()
    opened.clock.settle()
    with pytest.raises(SchedulerStateError):
        opened.queue.ask("history", lambda backend: backend.history([]), 5)
    assert opened.now() == 0


def test_a_question_that_the_end_overtakes_is_refused(opened: StoreBench) -> None:
    opened.backend.away.add("history")
    refused: list[Exception] = []

    def ask() -> None:
        try:
            opened.queue.ask("history", lambda backend: backend.history([]), 5)
        except SchedulerStateError as error:
            refused.append(error)

    opened.clock.start_thread(ask, "asker")
    opened.clock.settle()
    opened.close()
    opened.clock.settle()
    assert len(refused) == 1
