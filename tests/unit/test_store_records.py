"""The second write of an end: it follows the first at once, and only where the store took that."""

from __future__ import annotations

import pytest
from store_bench import StoreBench

from leasecron.calls import Call, Kind
from leasecron.model import RunResult, from_ms
from leasecron.passes import Passes

ENDS = pytest.mark.parametrize("kind", ["finish", "release"])


def record(fence: int) -> RunResult:
    at = from_ms(0)
    return RunResult("job", at, 1, fence, "instance", "scheduled", "success", at, at, 0.0)


def end(bench: StoreBench, kind: Kind, *fences: int) -> None:
    for fence in fences:
        bench.queue.submit(kind, fence, bench.reply_to(fence), record=record(fence))


def take_all(bench: StoreBench) -> None:
    for kind in ("finish", "release"):
        bench.backend.answers[kind] = lambda items: [True] * len(items)


@ENDS
def test_the_records_of_ends_are_written_in_the_same_pass_and_are_what_is_answered(
    opened: StoreBench, kind: Kind
) -> None:
    take_all(opened)
    end(opened, kind, 1, 2)
    opened.submit("declare", "d")
    opened.clock.settle()
    assert opened.work() == [
        (kind, [1, 2]),
        ("save_results", [record(1), record(2)]),
        ("declare", ["d"]),
    ]
    assert opened.replies[:2] == [(1, None), (2, None)]


@ENDS
@pytest.mark.parametrize("answer", [False, None, 1, "yes"])
def test_an_end_that_was_not_taken_leaves_no_record(
    opened: StoreBench, kind: Kind, answer: object
) -> None:
    opened.backend.answers[kind] = lambda items: [item == 2 or answer for item in items]
    end(opened, kind, 1, 2, 3)
    opened.clock.settle()
    assert opened.work() == [(kind, [1, 2, 3]), ("save_results", [record(2)])]
    assert sorted(opened.replies) == [(1, False), (2, None), (3, False)]


def test_a_record_that_cannot_be_written_is_answered_by_its_error_alone(opened: StoreBench) -> None:
    take_all(opened)
    opened.backend.guilty.add(record(2))
    end(opened, "finish", 1, 2, 3)
    opened.clock.settle()
    answers = dict(opened.replies)
    assert (answers[1], answers[3]) == (None, None)
    assert "cannot hold" in str(answers[2])
    assert [items for operation, items in opened.work() if operation == "finish"] == [[1, 2, 3]]


def test_closing_waits_for_a_record_whose_end_was_stored(opened: StoreBench) -> None:
    take_all(opened)
    opened.backend.away.add("save_results")
    end(opened, "finish", 1)
    opened.close()
    opened.clock.advance(30)
    assert (opened.closed, opened.replies) == ([], [])
    opened.backend.away.clear()
    opened.clock.advance(2)
    assert len(opened.closed) == 1
    assert opened.replies == [(1, None)]


def test_a_defect_between_the_two_writes_neither_loses_nor_doubles_an_answer(
    opened: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_all(opened)
    failing = iter([False, True])
    save = Passes._save

    def fails_once(self: Passes, call: Call, result: RunResult) -> None:
        save(self, call, result)
        if next(failing, False):
            raise MemoryError

    monkeypatch.setattr(Passes, "_save", fails_once)
    end(opened, "finish", 1, 2, 3)
    opened.clock.advance(5)
    assert sorted(opened.replies) == [(1, None), (2, None), (3, None)]
    saved = [items for operation, items in opened.work() if operation == "save_results"]
    assert sorted(result.fence for results in saved for result in results) == [1, 2, 3]
